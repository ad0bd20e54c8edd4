// Asynchronous copies, mbarriers, TMA and clusters on the machine: right kernels in any order of warps, and the reports
// for a missing wait, fence or barrier, a wrong phase, wrong counts.
#include <doctest/doctest.h>

#include <array>
#include <numeric>

#include "tileweave/jit/runtime/simt_tensor_map.h"
#include "unit/simt/harness.h"

using namespace tileweave::test;
using tileweave::runtime::simt::TensorMap;

namespace {

const std::string tid = "%t = call i32 @tw.thread_id()\n%zero = icmp eq i32 %t, 0\n";
const std::string barrier = "call void @tw.block_barrier(i32 20)\n";
// out[thread] = %r, in the buffer of parameter 1.
const std::string store_result =
    "%rx = zext i32 %t to i64\n%rs = shl i64 %rx, 2\n%ra = add i64 %p1, %rs\n"
    "call void @tw.global_store.i32(i64 %ra, i32 %r, i1 true, i32 0, i32 9)\nret void\n";
std::string read_shared(const std::string& offset) {
  return "%r = call i32 @tw.shared_load.i32(i32 " + offset + ", i1 true, i32 12)\n";
}

std::vector<std::uint32_t> counting(std::size_t n, std::uint32_t from = 100) {
  std::vector<std::uint32_t> v(n);
  std::iota(v.begin(), v.end(), from);
  return v;
}

// smem[t] = in[t] by cp.async; <wait>; out[t] = smem[(t + 1) % n]
std::string copied(const std::string& wait) {
  return tid +
         "%o = shl i32 %t, 2\n%x = zext i32 %o to i64\n%a = add i64 %p0, %x\n"
         "call void @tw.async_copy.i32(i32 %o, i64 %a, i32 4, i32 0, i32 30)\n" +
         wait + "%u = add i32 %o, 4\n%q = and i32 %u, 255\n" + read_shared("%q") + store_result;
}
const std::string commit = "call void @tw.async_commit(i32 31)\n";
const std::string wait_all = "call void @tw.async_wait(i32 0, i32 32)\n";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("cp.async is visible after the wait and a barrier, and not before") {
  std::vector<std::uint32_t> in = counting(64), out(64);
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const SimtRun options{.threads = 64, .smem_bytes = 256, .seed = seed};
    run_simt(copied(commit + wait_all + barrier), {memory(in), memory(out)}, options);
    for (std::size_t i = 0; i < 64; ++i) CHECK(out[i] == 100 + (i + 1) % 64);
    const auto fault = [&](const std::string& wait) {
      return simt_fault(copied(wait), {memory(in), memory(out)}, options);
    };
    const std::string no_wait = fault(commit + barrier);
    CHECK(no_wait.starts_with("kernel.cpp:12: error: asynchronous copy in flight: thread "));
    CHECK(has(no_wait, "is copying at kernel.cpp:30"));
    CHECK(fault(commit + barrier + wait_all) != "");
    CHECK(fault(commit + wait_all) != "");
    // One group may still be in flight: that is this one.
    CHECK(has(fault(commit + "call void @tw.async_wait(i32 1, i32 32)\n" + barrier), "in flight"));
    // Nothing was committed, so nothing is waited for.
    CHECK(has(fault(wait_all + barrier), "in flight"));
  }
}

TEST_CASE("cp.async fills with zeros past the source's bytes and checks both sides") {
  std::vector<std::uint32_t> in = counting(4), out(32);
  const auto body = [](const std::string& bytes, const std::string& offset, const std::string& shared) {
    return tid + "%o = shl i32 %t, 4\n%oo = add i32 %o, " + shared + "\n%a = add i64 %p0, " + offset +
           "\ncall void @tw.async_copy.v4i32(i32 %oo, i64 %a, i32 " + bytes + ", i32 1, i32 30)\n" + commit + wait_all +
           "%b = add i32 %o, 12\n" + read_shared("%b") + store_result;
  };
  const SimtRun options{.threads = 32, .smem_bytes = 512};
  run_simt(body("16", "0", "0"), {memory(in), memory(out)}, options);
  CHECK(out[5] == 103);
  run_simt(body("8", "0", "0"), {memory(in), memory(out)}, options);
  CHECK(out[5] == 0);
  run_simt(body("0", "4096", "0"), {memory(in), memory(out)}, options);
  CHECK(out[5] == 0);
  CHECK(has(simt_fault(body("16", "16", "0"), {memory(in), memory(out)}, options), "out of bounds: thread 0 reads 16"));
  CHECK(has(simt_fault(body("16", "0", "0"), {memory(in), memory(out)}, {.threads = 32, .smem_bytes = 496}),
            "out of bounds: thread 31 copies into bytes 496..511 of shared memory, which has 496 bytes"));
  CHECK(has(simt_fault(body("16", "4", "0"), {memory(in), memory(out)}, options), "misaligned"));
}

// --- mbarriers: warp 0 produces one value a round, warp 1 consumes it; `full` at 0, `empty` at 8, the value at 16.
namespace {

struct Ring {
  std::string full_count = "1", empty_count = "32", init_barrier = barrier;
  std::string producer_parity = "%odd", consumer_parity = "%even";
  std::string signal = "call void @tw.mbarrier_arrive(i32 0, i1 true, i32 52)\n";
  std::string release = "call void @tw.mbarrier_arrive(i32 8, i1 true, i32 54)\n";
};

std::string ring(const Ring& r) {
  return tid + "br i1 %zero, label %init, label %ready\ninit:\ncall void @tw.mbarrier_init(i32 0, i32 " + r.full_count +
         ", i32 50)\ncall void @tw.mbarrier_init(i32 8, i32 " + r.empty_count + ", i32 50)\nbr label %ready\nready:\n" +
         r.init_barrier +
         "%w = call i32 @tw.warp_id()\n%is_p = icmp eq i32 %w, 0\nbr i1 %is_p, label %p, label %c\n"
         // The producer's first wait falls through: no phase is complete, and the one before counts as odd.
         "p:\n%i = phi i32 [ 0, %ready ], [ %i1, %pnext ]\n%even0 = and i32 %i, 1\n%odd = xor i32 %even0, 1\n"
         "br i1 %zero, label %put, label %pnext\nput:\n"
         "call void @tw.mbarrier_wait(i32 8, i32 " +
         r.producer_parity +
         ", i32 51)\n%v = mul i32 %i, 3\ncall void @tw.shared_store.i32(i32 16, i32 %v, i1 true, i32 53)\n" + r.signal +
         "br label %pnext\npnext:\n%i1 = add i32 %i, 1\n%pd = icmp eq i32 %i1, 6\nbr i1 %pd, label %end, label %p\n"
         "c:\n%j = phi i32 [ 0, %ready ], [ %j1, %c ]\n%s = phi i32 [ 0, %ready ], [ %s1, %c ]\n%even = and i32 %j, 1\n"
         "%codd = xor i32 %even, 1\ncall void @tw.mbarrier_wait(i32 0, i32 " +
         r.consumer_parity + ", i32 55)\n%g = call i32 @tw.shared_load.i32(i32 16, i1 true, i32 56)\n" + r.release +
         "%s1 = add i32 %s, %g\n%j1 = add i32 %j, 1\n%cd = icmp eq i32 %j1, 6\nbr i1 %cd, label %end, label %c\n"
         "end:\n%r = phi i32 [ 0, %pnext ], [ %s1, %c ]\n" +
         store_result;
}

std::string ring_fault(const Ring& r, std::uint64_t seed = 0) {
  std::vector<std::uint32_t> in(1), out(64);
  return simt_fault(ring(r), {memory(in), memory(out)}, {.threads = 64, .smem_bytes = 32, .seed = seed});
}

}  // namespace

TEST_CASE("a ring of mbarriers carries values, in any order of warps") {
  std::vector<std::uint32_t> in(1), out(64);
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    run_simt(ring({}), {memory(in), memory(out)}, {.threads = 64, .smem_bytes = 32, .seed = seed});
    for (std::size_t i = 32; i < 64; ++i) CHECK(out[i] == 3 * (0 + 1 + 2 + 3 + 4 + 5));
  }
}

TEST_CASE("wrong phases and counts of a ring are found, in any order of warps") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    CHECK(ring_fault({.consumer_parity = "%codd"}, seed) != "");
    CHECK(ring_fault({.producer_parity = "%even0"}, seed) != "");
    CHECK(has(ring_fault({.full_count = "2"}, seed), "deadlock"));
    CHECK(ring_fault({.empty_count = "31"}, seed) != "");
    CHECK(has(ring_fault({.signal = ""}, seed), "deadlock"));
    CHECK(has(ring_fault({.release = ""}, seed), "deadlock"));
  }
  CHECK(has(ring_fault({.signal = ""}), " for an mbarrier in mbarrier_wait, which never completes"));
  CHECK(has(ring_fault({.init_barrier = ""}), "mbarrier"));
  CHECK(has(ring_fault({.full_count = "0"}), "the count of an mbarrier is not between 1 and 2^20 - 1"));
}

TEST_CASE("mbarriers are not ordinary memory") {
  std::vector<std::uint32_t> in(1), out(32);
  const auto fault = [&](const std::string& body) {
    return simt_fault(tid + "br i1 %zero, label %a, label %b\na:\n" + body + "br label %b\nb:\nret void\n",
                      {memory(in), memory(out)}, {.threads = 32, .smem_bytes = 64});
  };
  const std::string init = "call void @tw.mbarrier_init(i32 8, i32 1, i32 50)\n";
  CHECK(fault(init) == "");
  CHECK(has(fault(init + "call void @tw.shared_store.i32(i32 12, i32 1, i1 true, i32 1)\n"), "belongs to an mbarrier"));
  CHECK(has(fault(init + init), "initialised twice"));
  CHECK(fault(init + "call void @tw.mbarrier_invalidate(i32 8, i32 1)\n" + init) == "");
  CHECK(has(fault(init + "call void @tw.mbarrier_arrive(i32 16, i1 true, i32 1)\n"),
            "no mbarrier: thread 0 uses offset 16 as an mbarrier, but none is initialised there"));
  CHECK(has(fault("call void @tw.mbarrier_init(i32 4, i32 1, i32 50)\n"), "misaligned"));
  // Two arrivals at a phase of one that waits for bytes.
  CHECK(has(fault(init + "call void @tw.mbarrier_arrive_expect(i32 8, i32 16, i1 true, i32 1)\n"
                         "call void @tw.mbarrier_arrive(i32 8, i1 true, i32 1)\n"),
            "more arrivals at an mbarrier than its phase expects"));
}

// --- Bulk copies and TMA
namespace {

// Thread 0 loads into shared memory from 128 on, mbarrier at 0.
std::string bulk(const std::string& issue, const std::string& wait, const std::string& read) {
  return tid +
         "br i1 %zero, label %a, label %b\na:\ncall void @tw.mbarrier_init(i32 0, i32 1, i32 40)\n"
         "call void @tw.fence_mbarrier_init(i32 41)\nbr label %b\nb:\n" +
         barrier + issue + wait + read + store_result;
}
const std::string expect_256 = "call void @tw.mbarrier_arrive_expect(i32 0, i32 256, i1 %zero, i32 42)\n";
const std::string load_256 = "call void @tw.bulk_load(i32 128, i64 %p0, i32 256, i32 0, i1 %zero, i32 43)\n";
const std::string wait_0 = "call void @tw.mbarrier_wait(i32 0, i32 0, i32 44)\n";
const std::string read_own = "%o = shl i32 %t, 2\n%q = add i32 %o, 128\n" + read_shared("%q");

}  // namespace

TEST_CASE("bulk loads complete on their mbarrier") {
  std::vector<std::uint32_t> in = counting(64), out(64);
  const auto fault = [&](const std::string& issue, const std::string& wait, std::uint64_t seed = 0) {
    return simt_fault(bulk(issue, wait, read_own), {memory(in), memory(out)},
                      {.threads = 64, .smem_bytes = 512, .seed = seed});
  };
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CHECK(fault(expect_256 + load_256, wait_0, seed) == "");
    for (std::size_t i = 0; i < 64; ++i) CHECK(out[i] == 100 + i);
    CHECK(fault(load_256 + expect_256, wait_0, seed) == "");
    const std::string spin =
        "br label %spin\nspin:\n%ok = call i1 @tw.mbarrier_try_wait(i32 0, i32 0, i32 44)\n"
        "br i1 %ok, label %done, label %spin\ndone:\n";
    CHECK(fault(expect_256 + load_256, spin, seed) == "");
    CHECK(fault(expect_256 + load_256, "", seed) != "");
    CHECK(fault(expect_256 + load_256, "call void @tw.mbarrier_wait(i32 0, i32 1, i32 44)\n", seed) != "");
    CHECK(has(fault(expect_256, spin, seed), "deadlock"));
    CHECK(has(fault(load_256 + "call void @tw.mbarrier_arrive_expect(i32 0, i32 128, i1 %zero, i32 42)\n", spin, seed),
              "deadlock"));
  }
  CHECK(has(fault(expect_256 + load_256 + barrier, ""), "asynchronous copy in flight"));
  CHECK(has(fault("call void @tw.bulk_load(i32 128, i64 %p0, i32 260, i32 0, i1 %zero, i32 43)\n", wait_0),
            "moves multiples of 16 bytes"));
  CHECK(has(fault("call void @tw.bulk_load(i32 128, i64 %p0, i32 272, i32 0, i1 %zero, i32 43)\n", wait_0),
            "kernel.cpp:43: error: out of bounds: a bulk copy reads global memory of no argument"));
  CHECK(has(fault("call void @tw.bulk_load(i32 128, i64 %p0, i32 256, i32 64, i1 %zero, i32 43)\n", wait_0),
            "no mbarrier"));
}

TEST_CASE("bulk stores need a proxy fence before them and a wait behind them") {
  std::vector<std::uint32_t> in(64), out(64), target(64);
  const auto body = [](const std::string& fence, const std::string& end) {
    return tid +
           "%o = shl i32 %t, 2\n%v = mul i32 %t, 5\ncall void @tw.shared_store.i32(i32 %o, i32 %v, i1 true, i32 1)\n" +
           fence + barrier + "call void @tw.bulk_store(i64 %p2, i32 0, i32 256, i1 %zero, i32 2)\n" +
           "br i1 %zero, label %a, label %b\na:\ncall void @tw.bulk_commit(i32 3)\n" + end +
           "br label %b\nb:\n%r = add i32 0, 0\n" + store_result;
  };
  const auto fault = [&](const std::string& fence, const std::string& end) {
    return simt_fault(body(fence, end), {memory(in), memory(out), memory(target)}, {.threads = 64, .smem_bytes = 256});
  };
  const std::string fence = "call void @tw.fence_proxy_async(i32 4)\n";
  const std::string wait = "call void @tw.bulk_wait_read(i32 0, i32 5)\n";
  CHECK(fault(fence, wait) == "");
  for (std::size_t i = 0; i < 64; ++i) CHECK(target[i] == 5 * i);
  CHECK(has(fault("", wait), "without fence_proxy_async after it"));
  CHECK(has(fault(fence, ""), "ends while bulk stores may still read shared memory"));
  const std::string overwrite = "call void @tw.shared_store.i32(i32 0, i32 1, i1 true, i32 6)\n";
  CHECK(has(fault(fence, overwrite + wait), "race: thread 0 writes bytes 0..3"));
  CHECK(fault(fence, wait + overwrite) == "");
}

TEST_CASE("TMA loads boxes with swizzling and zeros outside the tensor, and stores them back") {
  // A 20 x 40 tensor of f32; the box is 8 rows of 32, at rows -2.., columns 16...
  std::vector<std::uint32_t> in = counting(20 * 40), out(256), target(20 * 40, 7);
  struct Maps {
    TensorMap load, store;
  };
  std::vector<Maps> maps(1);
  for (TensorMap* m : {&maps[0].load, &maps[0].store}) {
    m->base = reinterpret_cast<std::uint64_t>(m == &maps[0].load ? in.data() : target.data());
    m->rank = 2;
    m->element_bytes = 4;
    m->extents[0] = 40;
    m->extents[1] = 20;
    m->strides[0] = 4;
    m->strides[1] = 160;
    m->box[0] = 32;
    m->box[1] = 8;
    m->swizzle_bytes = 128;
  }
  // Thread t reads the element that lies at t in swizzled memory; the box is at 1024.
  const std::string load =
      "call void @tw.tma_load(i32 1024, i64 %p2, i32 2, i32 16, i32 -2, i32 0, i32 0, i32 0, i32 0, i32 0, i1 %zero, "
      "i32 43)\n";
  const std::string expect = "call void @tw.mbarrier_arrive_expect(i32 0, i32 1024, i1 %zero, i32 42)\n";
  const std::string read = "%o = shl i32 %t, 2\n%q = add i32 %o, 1024\n" + read_shared("%q");
  const std::string store =
      "call void @tw.tma_store(i64 %mb, i32 1024, i32 2, i32 16, i32 -2, i32 0, i32 0, i32 0, i1 %zero, i32 45)\n"
      "br i1 %zero, label %sa, label %sb\nsa:\ncall void @tw.bulk_commit(i32 46)\n"
      "call void @tw.bulk_wait(i32 0, i32 47)\nbr label %sb\nsb:\n";
  const std::vector<Memory> memories = {memory(in), memory(out), memory(maps), memory(target)};
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    run_simt(bulk("%mb = add i64 %p2, 128\n" + expect + load, wait_0, read + store), memories,
             {.threads = 256, .smem_bytes = 2048, .seed = seed});
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 32; ++column) {
        const int chunk = column / 4 ^ row;  // the definition of the 128-byte swizzle: 16-byte chunks, row mod 8
        const std::uint32_t got = out[static_cast<std::size_t>(row * 32 + chunk * 4 + column % 4)];
        const int y = row - 2, x = column + 16;
        const bool inside = y >= 0 && x < 40;
        CHECK(got == (inside ? 100u + static_cast<std::uint32_t>(y * 40 + x) : 0u));
        if (inside) CHECK(target[static_cast<std::size_t>(y * 40 + x)] == got);
      }
    }
    CHECK(target[0] == 7);
    CHECK(target[6 * 40 + 20] == 7);
  }
  CHECK(has(simt_fault(bulk(load, wait_0, read), memories, {.threads = 256, .smem_bytes = 2048}), "deadlock"));
  CHECK(has(simt_fault(bulk(expect + load + barrier, "", read), memories, {.threads = 256, .smem_bytes = 2048}),
            "in flight"));
  CHECK(has(
      simt_fault(bulk("%mb = add i64 %p2, 16\ncall void @tw.tma_load(i32 1024, i64 %mb, i32 2, i32 0, i32 0, i32 0, "
                      "i32 0, i32 0, i32 0, i32 0, i1 %zero, i32 43)\n",
                      wait_0, read),
                 memories, {.threads = 256, .smem_bytes = 2048}),
      "not at a multiple of 64 bytes"));
}

// --- Clusters
TEST_CASE("blocks of a cluster read each other's memory, between cluster barriers") {
  std::vector<std::uint32_t> in(1), out(4 * 32);
  const auto body = [](const std::string& first, const std::string& last) {
    return "%t = call i32 @tw.thread_id()\n%k = call i32 @tw.cluster_rank()\n%n = call i32 @tw.cluster_size()\n"
           "%o = shl i32 %t, 2\n%h = mul i32 %k, 1000\n%v = add i32 %h, %t\n"
           "call void @tw.shared_store.i32(i32 %o, i32 %v, i1 true, i32 1)\n" +
           first +
           "%k1 = add i32 %k, 1\n%next = urem i32 %k1, %n\n%a = call i32 @tw.map_cluster(i32 %o, i32 %next)\n"
           "%r = call i32 @tw.cluster_load.i32(i32 %a, i1 true, i32 2)\n" +
           last +
           "%b = call i64 @tw.block_id()\n%b32 = shl i64 %b, 5\n%t64 = zext i32 %t to i64\n%i = add i64 %b32, %t64\n"
           "%s = shl i64 %i, 2\n%ra = add i64 %p1, %s\n"
           "call void @tw.global_store.i32(i64 %ra, i32 %r, i1 true, i32 0, i32 9)\nret void\n";
  };
  const std::string meet = "call void @tw.cluster_arrive(i32 3)\ncall void @tw.cluster_wait(i32 4)\n";
  const std::string own = "call void @tw.block_barrier(i32 5)\n";
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const SimtRun options{.threads = 32, .cluster = 2, .blocks = 4, .smem_bytes = 128, .seed = seed};
    run_simt(body(meet, meet), {memory(in), memory(out)}, options);
    for (std::uint32_t b = 0; b < 4; ++b) {
      for (std::uint32_t t = 0; t < 32; ++t) CHECK(out[b * 32 + t] == (b + 1) % 2 * 1000 + t);
    }
    CHECK(simt_fault(body(own, own), {memory(in), memory(out)}, options) != "");
    CHECK(has(simt_fault(body("call void @tw.cluster_wait(i32 4)\n", ""), {memory(in), memory(out)}, options),
              "cluster_wait without cluster_arrive"));
  }
  CHECK(has(simt_fault(body(own, own), {memory(in), memory(out)},
                       {.threads = 32, .cluster = 2, .blocks = 2, .smem_bytes = 128}),
            "of block rank"));
}

TEST_CASE("asynchronous stores and remote arrivals in a cluster") {
  std::vector<std::uint32_t> in(1), out(2 * 32);
  // Every block sends 4 bytes a thread to the other one, whose mbarrier counts 128 bytes and an arrival of the sender.
  const auto body = [](const std::string& wait) {
    return tid +
           "%k = call i32 @tw.cluster_rank()\nbr i1 %zero, label %a, label %b\na:\n"
           "call void @tw.mbarrier_init(i32 0, i32 2, i32 1)\ncall void @tw.fence_mbarrier_init(i32 1)\n"
           "call void @tw.mbarrier_arrive_expect(i32 0, i32 128, i1 true, i32 2)\nbr label %b\nb:\n"
           "call void @tw.cluster_arrive(i32 3)\ncall void @tw.cluster_wait(i32 4)\n"
           "%other = xor i32 %k, 1\n%o = shl i32 %t, 2\n%q = add i32 %o, 64\n"
           "%to = call i32 @tw.map_cluster(i32 %q, i32 %other)\n%m = call i32 @tw.map_cluster(i32 0, i32 %other)\n"
           "%h = mul i32 %k, 1000\n%v = add i32 %h, %t\n"
           "call void @tw.cluster_store_async.i32(i32 %to, i32 %v, i32 %m, i1 true, i32 5)\n"
           "call void @tw.mbarrier_arrive_cluster(i32 %m, i1 %zero, i32 6)\n" +
           wait + read_shared("%q") +
           "call void @tw.cluster_arrive(i32 7)\ncall void @tw.cluster_wait(i32 8)\n"
           "%kk = shl i32 %k, 5\n%i = add i32 %kk, %t\n%ix = zext i32 %i to i64\n%is = shl i64 %ix, 2\n"
           "%ra = add i64 %p1, %is\ncall void @tw.global_store.i32(i64 %ra, i32 %r, i1 true, i32 0, i32 9)\nret void\n";
  };
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const SimtRun options{.threads = 32, .cluster = 2, .blocks = 2, .smem_bytes = 256, .seed = seed};
    run_simt(body(wait_0), {memory(in), memory(out)}, options);
    for (std::uint32_t i = 0; i < 64; ++i) CHECK(out[i] == (1 - i / 32) * 1000 + i % 32);
    CHECK(simt_fault(body(""), {memory(in), memory(out)}, options) != "");
  }
}
