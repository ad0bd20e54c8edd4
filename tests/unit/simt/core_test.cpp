// The machine's core on hand-written kernels: ids, warp exchanges, barriers, memory, atomics, and every kind of report
// for a planted mistake, beside the right kernel that must pass with any order of warps.
#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <numeric>

#include "unit/simt/harness.h"

using namespace tileweave::test;

namespace {

// 32-bit element `%i` of buffer `%p`: defines %<name>.
std::string address(const std::string& name, const std::string& buffer, const std::string& index) {
  return "%" + name + ".x = zext i32 " + index + " to i64\n%" + name + ".s = shl i64 %" + name + ".x, 2\n%" + name +
         " = add i64 " + buffer + ", %" + name + ".s\n";
}

const std::string tid = "%t = call i32 @tw.thread_id()\n";
// out[thread] = %r
const std::string store_result =
    address("out", "%p0", "%t") + "call void @tw.global_store.i32(i64 %out, i32 %r, i1 true, i32 0, i32 9)\nret void\n";

std::vector<std::uint32_t> results(const std::string& body, SimtRun options = {}) {
  std::vector<std::uint32_t> out(static_cast<std::size_t>(options.threads), 0xdeadbeef);
  run_simt(tid + body + store_result, {memory(out)}, options);
  return out;
}

template <class F>
void check_lanes(const std::vector<std::uint32_t>& got, F&& want) {
  for (std::uint32_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == static_cast<std::uint32_t>(want(i)));
  }
}

// smem[4 t] = t * 10; <between>; r = smem[4 ((t + 1) % n)]
std::string neighbour(const std::string& between, int n) {
  return "%o = shl i32 %t, 2\n%v = mul i32 %t, 10\n"
         "call void @tw.shared_store.i32(i32 %o, i32 %v, i1 true, i32 11)\n" +
         between + "%u = add i32 %t, 1\n%m = and i32 %u, " + std::to_string(n - 1) +
         "\n%q = shl i32 %m, 2\n%r = call i32 @tw.shared_load.i32(i32 %q, i1 true, i32 12)\n";
}
const std::string block_barrier = "call void @tw.block_barrier(i32 20)\n";

}  // namespace

TEST_CASE("threads know their place") {
  check_lanes(results("%r = add i32 %t, 0\n", {.threads = 96}), [](auto i) { return i; });
  check_lanes(results("%r = call i32 @tw.lane_id()\n", {.threads = 96}), [](auto i) { return i % 32; });
  check_lanes(results("%r = call i32 @tw.warp_id()\n", {.threads = 96}), [](auto i) { return i / 32; });
}

TEST_CASE("blocks know their number and the grid's size") {
  std::vector<std::uint64_t> out(200, 77);
  run_simt(
      "%b = call i64 @tw.block_id()\n%n = call i64 @tw.block_count()\n%s = shl i64 %b, 3\n%a = add i64 %p0, %s\n"
      "%h = mul i64 %n, 1000\n%v = add i64 %h, %b\n%w = add i64 %v, %gx\n%t = call i32 @tw.thread_id()\n"
      "%z = icmp eq i32 %t, 0\n"
      "call void @tw.global_store.i64(i64 %a, i64 %w, i1 %z, i32 0, i32 1)\nret void\n",
      {memory(out)}, {.threads = 64, .blocks = 200});
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == 200'200 + i);
}

TEST_CASE("shuffles, votes and redux over a warp") {
  const std::string value = "%v = mul i32 %t, 7\n";
  check_lanes(results(value + "%l = add i32 %t, 5\n%r = call i32 @tw.shuffle_idx(i32 %v, i32 %l, i32 0)\n"),
              [](auto i) { return (i + 5) % 32 * 7; });
  for (const std::uint32_t mask : {1u, 2u, 16u, 31u}) {
    check_lanes(results(value + "%r = call i32 @tw.shuffle_bfly(i32 %v, i32 " + std::to_string(mask) + ", i32 0)\n"),
                [&](auto i) { return (i ^ mask) * 7; });
  }
  check_lanes(results(value + "%r = call i32 @tw.shuffle_up(i32 %v, i32 3, i32 0)\n"),
              [](auto i) { return (i < 3 ? i : i - 3) * 7; });
  check_lanes(results(value + "%r = call i32 @tw.shuffle_down(i32 %v, i32 4, i32 0)\n"),
              [](auto i) { return (i > 27 ? i : i + 4) * 7; });
  const std::string odd = "%f = trunc i32 %t to i1\n";
  const std::string widen = "%r = zext i1 %b to i32\n";
  check_lanes(results(odd + "%r = call i32 @tw.ballot(i1 %f, i32 0)\n"), [](auto) { return 0xaaaaaaaau; });
  check_lanes(results(odd + "%b = call i1 @tw.vote_any(i1 %f, i32 0)\n" + widen), [](auto) { return 1; });
  check_lanes(results(odd + "%b = call i1 @tw.vote_all(i1 %f, i32 0)\n" + widen), [](auto) { return 0; });
  check_lanes(results("%b = call i1 @tw.vote_all(i1 true, i32 0)\n" + widen), [](auto) { return 1; });
  check_lanes(results("%b = call i1 @tw.vote_any(i1 false, i32 0)\n" + widen), [](auto) { return 0; });
  check_lanes(results("%b = call i1 @tw.elect(i32 0)\n" + widen, {.threads = 64}), [](auto i) { return i % 32 == 0; });
  check_lanes(results("%v = and i32 %t, 3\n%r = call i32 @tw.match_any(i32 %v, i32 0)\n"),
              [](auto i) { return 0x11111111u << (i % 4); });
  const std::string mixed = "%v = sub i32 %t, 5\n";
  check_lanes(results(mixed + "%r = call i32 @tw.redux_add(i32 %v, i32 0)\n"), [](auto) { return 496 - 160; });
  check_lanes(results(mixed + "%r = call i32 @tw.redux_min.i32(i32 %v, i32 0)\n"), [](auto) { return -5; });
  check_lanes(results(mixed + "%r = call i32 @tw.redux_min.u32(i32 %v, i32 0)\n"), [](auto) { return 0; });
  check_lanes(results(mixed + "%r = call i32 @tw.redux_max.i32(i32 %v, i32 0)\n"), [](auto) { return 26; });
  check_lanes(results(mixed + "%r = call i32 @tw.redux_max.u32(i32 %v, i32 0)\n"), [](auto) { return -1; });
  check_lanes(results("%r = call i32 @tw.redux_or(i32 %t, i32 0)\n"), [](auto) { return 31; });
  check_lanes(results("%r = call i32 @tw.redux_and(i32 %t, i32 0)\n", {.threads = 64}),
              [](auto i) { return i < 32 ? 0 : 32; });
  check_lanes(results("%r = call i32 @tw.redux_xor(i32 %t, i32 0)\n"), [](auto) { return 0; });
}

TEST_CASE("a barrier between a write and another thread's read is right, in any order of warps") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    check_lanes(results(neighbour(block_barrier, 128), {.threads = 128, .smem_bytes = 512, .seed = seed}),
                [](auto i) { return (i + 1) % 128 * 10; });
  }
}

TEST_CASE("a missing barrier is a race, whatever the order of warps, with both places") {
  std::vector<std::uint32_t> out(128);
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    // Only initialised memory can race rather than be read too early.
    const std::string first =
        "%o0 = shl i32 %t, 2\ncall void @tw.shared_store.i32(i32 %o0, i32 0, i1 true, i32 10)\n" + block_barrier;
    const std::string fault = simt_fault(tid + first + neighbour("", 128) + store_result, {memory(out)},
                                         {.threads = 128, .smem_bytes = 512, .seed = seed});
    CAPTURE(fault);
    CHECK(fault.find("error: race: thread ") != std::string::npos);
    CHECK(fault.find("with no barrier between") != std::string::npos);
    CHECK(fault.find("kernel.cpp:1") != std::string::npos);
  }
}

TEST_CASE("the whole message of a race") {
  std::vector<std::uint32_t> out(64);
  const std::string fault = simt_fault(tid +
                                           "%o = shl i32 %t, 2\n"
                                           "call void @tw.shared_store.i32(i32 %o, i32 1, i1 true, i32 11)\n"
                                           "%z = icmp eq i32 %t, 63\n"
                                           "%r = call i32 @tw.shared_load.i32(i32 128, i1 %z, i32 12)\n" +
                                           store_result,
                                       {memory(out)}, {.threads = 64, .smem_bytes = 256});
  CHECK(fault ==
        "kernel.cpp:12: error: race: thread 63 reads bytes 128..131 of shared memory; thread 32 wrote byte 128 at "
        "kernel.cpp:11 with no barrier between\n"
        "  in kernel 'k', block 0, thread 63 (warp 1, lane 31), in shared_load\n"
        "  help: put a barrier between the two accesses");
}

TEST_CASE("a warp barrier orders its warp and nobody else") {
  const std::string warp_barrier = "call void @tw.warp_barrier(i32 21)\n";
  check_lanes(results(neighbour(warp_barrier, 32), {.threads = 32, .smem_bytes = 128}),
              [](auto i) { return (i + 1) % 32 * 10; });
  std::vector<std::uint32_t> out(64);
  CHECK(simt_fault(tid + neighbour("", 32) + store_result, {memory(out)}, {.threads = 32, .smem_bytes = 128}) != "");
  CHECK(simt_fault(tid + neighbour(warp_barrier, 64) + store_result, {memory(out)}, {.threads = 64, .smem_bytes = 256})
            .find("thread 31 reads") != std::string::npos);
  // A shuffle makes lanes meet but orders no memory.
  const std::string shuffle = "%s = call i32 @tw.shuffle_bfly(i32 %t, i32 1, i32 3)\n";
  CHECK(simt_fault(tid + neighbour(shuffle, 32) + store_result, {memory(out)}, {.threads = 32, .smem_bytes = 128})
            .find("race") != std::string::npos);
}

TEST_CASE("a write after another thread's read needs a barrier too") {
  const std::string rounds = "%o = shl i32 %t, 2\ncall void @tw.shared_store.i32(i32 %o, i32 1, i1 true, i32 11)\n" +
                             block_barrier + "%a = call i32 @tw.shared_load.i32(i32 0, i1 true, i32 12)\n";
  const std::string again =
      "%z = icmp eq i32 %t, 0\ncall void @tw.shared_store.i32(i32 0, i32 2, i1 %z, i32 13)\n%r = add i32 %a, 0\n";
  std::vector<std::uint32_t> out(64);
  const SimtRun options{.threads = 64, .smem_bytes = 256};
  check_lanes(results(rounds + block_barrier + again, options), [](auto) { return 1; });
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SimtRun seeded = options;
    seeded.seed = seed;
    const std::string fault = simt_fault(tid + rounds + again + store_result, {memory(out)}, seeded);
    CAPTURE(fault);
    CHECK(fault.find("race") != std::string::npos);
  }
}

TEST_CASE("uninitialised shared memory") {
  std::vector<std::uint32_t> out(32);
  const std::string fault =
      simt_fault(tid + "%r = call i32 @tw.shared_load.i32(i32 8, i1 true, i32 12)\n" + store_result, {memory(out)},
                 {.smem_bytes = 128});
  CHECK(
      fault.starts_with("kernel.cpp:12: error: uninitialised: thread 0 reads bytes 8..11 of shared memory, but nobody "
                        "has written byte 8\n"));
  // A predicate that is false reads nothing.
  check_lanes(results("%r = call i32 @tw.shared_load.i32(i32 8, i1 false, i32 12)\n", {.smem_bytes = 128}),
              [](auto) { return 0; });
}

TEST_CASE("out of bounds and misaligned shared accesses") {
  std::vector<std::uint32_t> out(32);
  const auto fault = [&](const std::string& body) {
    return simt_fault(tid + body + "%r = add i32 %t, 0\n" + store_result, {memory(out)}, {.smem_bytes = 128});
  };
  CHECK(fault("%o = shl i32 %t, 3\ncall void @tw.shared_store.i32(i32 %o, i32 1, i1 true, i32 5)\n")
            .starts_with("kernel.cpp:5: error: out of bounds: thread 16 writes bytes 128..131 of shared memory, which "
                         "has 128 bytes"));
  CHECK(fault("call void @tw.shared_store.i32(i32 -4, i32 1, i1 true, i32 5)\n").find("out of bounds") !=
        std::string::npos);
  CHECK(fault("call void @tw.shared_store.i64(i32 4, i64 1, i1 true, i32 5)\n").find("misaligned") !=
        std::string::npos);
  CHECK(fault("call void @tw.shared_store.v4i32(i32 120, <4 x i32> zeroinitializer, i1 true, i32 5)\n")
            .find("out of bounds") != std::string::npos);
}

TEST_CASE("global accesses: every width, predicates, bounds and alignment") {
  std::vector<std::uint32_t> in(16);
  std::iota(in.begin(), in.end(), 0x01020304u);
  std::vector<std::uint32_t> out(16, 0x55555555);
  run_simt(
      "%t = call i32 @tw.thread_id()\n%z = icmp eq i32 %t, 0\n"
      "%a = call <4 x i32> @tw.global_load.v4i32(i64 %p0, i1 true, i32 1, i32 1)\n"
      "call void @tw.global_store.v4i32(i64 %p1, <4 x i32> %a, i1 %z, i32 3, i32 1)\n"
      "%p4 = add i64 %p0, 16\n%q4 = add i64 %p1, 16\n"
      "%b = call <2 x i32> @tw.global_load.v2i32(i64 %p4, i1 true, i32 0, i32 1)\n"
      "call void @tw.global_store.v2i32(i64 %q4, <2 x i32> %b, i1 %z, i32 0, i32 1)\n"
      "%p6 = add i64 %p0, 24\n%q6 = add i64 %p1, 24\n"
      "%c = call i16 @tw.global_load.i16(i64 %p6, i1 true, i32 0, i32 1)\n"
      "call void @tw.global_store.i16(i64 %q6, i16 %c, i1 %z, i32 0, i32 1)\n"
      "%p7 = add i64 %p0, 29\n%q7 = add i64 %p1, 29\n"
      "%d = call i8 @tw.global_load.i8(i64 %p7, i1 true, i32 0, i32 1)\n"
      "call void @tw.global_store.i8(i64 %q7, i8 %d, i1 %z, i32 0, i32 1)\n"
      "%q8 = add i64 %p1, 32\n%e = call i64 @tw.global_load.i64(i64 %p0, i1 %z, i32 0, i32 1)\n"
      "call void @tw.global_store.i64(i64 %q8, i64 %e, i1 %z, i32 0, i32 1)\n"
      "%w = call i64 @tw.global_load.i64(i64 8, i1 false, i32 0, i32 1)\n%q10 = add i64 %p1, 40\n"
      "call void @tw.global_store.i64(i64 %q10, i64 %w, i1 %z, i32 0, i32 1)\nret void\n",
      {memory(in), memory(out)});
  std::vector<std::uint32_t> want(16, 0x55555555);
  for (int i = 0; i < 6; ++i) want[static_cast<std::size_t>(i)] = in[static_cast<std::size_t>(i)];
  want[6] = 0x55550000u | (in[6] & 0xffff);
  want[7] = 0x55550055u | (in[7] & 0xff00);
  want[8] = in[0];
  want[9] = in[1];
  want[10] = want[11] = 0;
  CHECK(out == want);

  const auto fault = [&](const std::string& offset, const std::string& access) {
    return simt_fault("%a = add i64 %p0, " + offset + "\n" + access + "\nret void\n", {memory(out)});
  };
  const std::string load = "%r = call i32 @tw.global_load.i32(i64 %a, i1 true, i32 0, i32 7)";
  CHECK(fault("60", load) == "");
  CHECK(fault("64", load) ==
        "kernel.cpp:7: error: out of bounds: thread 0 reads 4 bytes of global memory 0 bytes past the end of the view "
        "at argument slot 0\n"
        "  in kernel 'k', block 0, thread 0 (warp 0, lane 0), in global_load");
  CHECK(fault("-4", load).find("4 bytes before the start of") != std::string::npos);
  CHECK(fault("2", load).find(
            "misaligned access: thread 0 reads 4 bytes of global memory at an address that is 2 past") !=
        std::string::npos);
  CHECK(fault("56", "call void @tw.global_store.v4i32(i64 %a, <4 x i32> zeroinitializer, i1 true, i32 0, i32 7)") !=
        "");
}

TEST_CASE("divergent collectives and barriers") {
  std::vector<std::uint32_t> out(64);
  const auto fault = [&](const std::string& then, const std::string& otherwise, const std::string& after) {
    return simt_fault(tid + "%c = icmp ult i32 %t, 7\nbr i1 %c, label %yes, label %no\nyes:\n" + then +
                          "br label %end\nno:\n" + otherwise + "br label %end\nend:\n" + after + "ret void\n",
                      {memory(out)}, {.threads = 64, .smem_bytes = 0});
  };
  const std::string early = "ret void\nunreached:\n";
  CHECK(fault("%s = call i32 @tw.shuffle_bfly(i32 %t, i32 1, i32 31)\n", "", "call void @tw.block_barrier(i32 32)\n")
            .starts_with("kernel.cpp:32: error: divergent block_barrier at kernel.cpp:32: lane 0 is at shuffle_bfly at "
                         "kernel.cpp:31\n"));
  CHECK(fault("call void @tw.block_barrier(i32 33)\n", early, "")
            .starts_with("kernel.cpp:33: error: divergent block_barrier: 7 lanes of the warp wait there, but 25 lanes "
                         "have left the "
                         "kernel\n"));
  CHECK(fault("call void @tw.warp_barrier(i32 34)\n", "call void @tw.warp_barrier(i32 34)\n", "")
            .find("is at another such call") != std::string::npos);
  CHECK(fault("call void @tw.warp_barrier(i32 34)\n", "call void @tw.warp_barrier(i32 35)\n", "")
            .find("divergent warp_barrier at kernel.cpp:35: lane 0 is at warp_barrier at kernel.cpp:34") !=
        std::string::npos);
  CHECK(fault("", "", "call void @tw.block_barrier(i32 33)\n") == "");
}

TEST_CASE("a barrier that one warp never reaches is a deadlock") {
  std::vector<std::uint32_t> out(64);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const std::string fault = simt_fault(
        "%w = call i32 @tw.warp_id()\n%c = icmp eq i32 %w, 0\nbr i1 %c, label %yes, label %no\nyes:\n"
        "call void @tw.block_barrier(i32 40)\nbr label %no\nno:\nret void\n",
        {memory(out)}, {.threads = 64, .seed = seed});
    CHECK(fault.starts_with(
        "kernel.cpp:40: error: deadlock: 32 threads wait for the block barrier in block_barrier, which "
        "never completes; 32 threads have left the kernel\n"));
  }
}

TEST_CASE("named barriers order those that share them") {
  // Warp 0 writes and arrives; warp 1 waits and reads.
  const auto body = [](const std::string& arrive, const std::string& wait) {
    return tid +
           "%w = call i32 @tw.warp_id()\n%c = icmp eq i32 %w, 0\n%l = and i32 %t, 31\n%o = shl i32 %l, 2\n"
           "br i1 %c, label %yes, label %no\nyes:\n"
           "call void @tw.shared_store.i32(i32 %o, i32 5, i1 true, i32 1)\n" +
           arrive + "br label %end\nno:\n" + wait +
           "%v = call i32 @tw.shared_load.i32(i32 %o, i1 true, i32 2)\nbr label %end\nend:\n"
           "%r = phi i32 [ 0, %yes ], [ %v, %no ]\n" +
           store_result;
  };
  std::vector<std::uint32_t> out(64, 9);
  const SimtRun options{.threads = 64, .smem_bytes = 128};
  run_simt(body("call void @tw.named_barrier_arrive(i32 1, i32 64, i32 3)\n",
                "call void @tw.named_barrier(i32 1, i32 64, i32 4)\n"),
           {memory(out)}, options);
  check_lanes(out, [](auto i) { return i < 32 ? 0 : 5; });
  CHECK(simt_fault(body("", "call void @tw.named_barrier(i32 1, i32 64, i32 4)\n"), {memory(out)}, options)
            .find("deadlock: 32 threads wait for a named barrier") != std::string::npos);
  CHECK(simt_fault(body("call void @tw.named_barrier_arrive(i32 1, i32 32, i32 3)\n",
                        "call void @tw.named_barrier(i32 2, i32 32, i32 4)\n"),
                   {memory(out)}, options)
            .find("race") != std::string::npos);
  CHECK(simt_fault(body("call void @tw.named_barrier(i32 1, i32 64, i32 3)\n",
                        "call void @tw.named_barrier(i32 1, i32 32, i32 4)\n"),
                   {memory(out)}, options)
            .find("is used with 32 threads while others wait at it with 64") != std::string::npos);
}

TEST_CASE("atomics on global and shared memory") {
  std::vector<std::uint32_t> cells(4, 0);
  cells[1] = 1000;
  cells[2] = std::bit_cast<std::uint32_t>(1.5f);
  run_simt(tid +
               "%p1 = add i64 %p0, 4\n%p2 = add i64 %p0, 8\n%p3 = add i64 %p0, 12\n%f = uitofp i32 %t to float\n"
               "%a = call i32 @tw.global_atomic_add.i32(i64 %p0, i32 %t, i1 true, i32 0)\n"
               "%b = call i32 @tw.global_atomic_min.u32(i64 %p1, i32 %t, i1 true, i32 0)\n"
               "%c = call float @tw.global_atomic_add.f32(i64 %p2, float %f, i1 true, i32 0)\n"
               "%d = call i32 @tw.global_atomic_max.i32(i64 %p3, i32 %t, i1 true, i32 0)\nret void\n",
           {memory(cells)}, {.threads = 64, .blocks = 8});
  CHECK(cells[0] == 8 * 2016);
  CHECK(cells[1] == 0);
  CHECK(std::bit_cast<float>(cells[2]) == 1.5f + 8 * 2016);
  CHECK(cells[3] == 63);

  const std::string histogram = "%z = icmp eq i32 %t, 0\ncall void @tw.shared_store.i32(i32 0, i32 0, i1 %z, i32 1)\n" +
                                block_barrier +
                                "%a = call i32 @tw.shared_atomic_add.i32(i32 0, i32 1, i1 true, i32 2)\n";
  const std::string read = "%r = call i32 @tw.shared_load.i32(i32 0, i1 true, i32 3)\n";
  check_lanes(results(histogram + block_barrier + read, {.threads = 64, .smem_bytes = 4}), [](auto) { return 64; });
  std::vector<std::uint32_t> out(64);
  CHECK(
      simt_fault(tid + histogram + read + store_result, {memory(out)}, {.threads = 64, .smem_bytes = 4}).find("race") !=
      std::string::npos);
}

TEST_CASE("compare and swap") {
  std::vector<std::uint64_t> cell(1, 5);
  std::vector<std::uint32_t> out(32);
  run_simt(
      "%a = call i64 @tw.global_atomic_cas.i64(i64 %p0, i64 5, i64 6, i1 true, i32 0)\n"
      "%b = call i64 @tw.global_atomic_cas.i64(i64 %p0, i64 7, i64 8, i1 true, i32 0)\nret void\n",
      {memory(cell)});
  CHECK(cell[0] == 6);
  run_simt("%a = call i64 @tw.global_atomic_xchg.i64(i64 %p0, i64 9, i1 false, i32 0)\nret void\n", {memory(cell)});
  CHECK(cell[0] == 6);
}

TEST_CASE("fences and atomics hand a value from warp to warp") {
  // Warp 1 writes, fences and raises a flag; warp 0 spins on the flag, fences and reads.
  const auto body = [](const std::string& release, const std::string& acquire) {
    return tid + "%z = icmp eq i32 %t, 0\ncall void @tw.shared_store.i32(i32 0, i32 0, i1 %z, i32 1)\n" +
           block_barrier +
           "%w = call i32 @tw.warp_id()\n%c = icmp eq i32 %w, 0\n%l = and i32 %t, 31\n%first = icmp eq i32 %l, 0\n"
           "br i1 %c, label %spin, label %write\nwrite:\n"
           "call void @tw.shared_store.i32(i32 4, i32 42, i1 %first, i32 2)\n" +
           release +
           "%x = call i32 @tw.shared_atomic_xchg.i32(i32 0, i32 1, i1 %first, i32 3)\nbr label %end\nspin:\n"
           "%v = call i32 @tw.shared_atomic_add.i32(i32 0, i32 0, i1 %first, i32 4)\n"
           "%b = call i32 @tw.shuffle_idx(i32 %v, i32 0, i32 5)\n%up = icmp eq i32 %b, 1\n"
           "br i1 %up, label %read, label %wait\nwait:\nbr label %spin\nread:\n" +
           acquire +
           "%g = call i32 @tw.shared_load.i32(i32 4, i1 %first, i32 6)\nbr label %end\nend:\n"
           "%r = phi i32 [ 0, %write ], [ %g, %read ]\n" +
           store_result;
  };
  std::vector<std::uint32_t> out(64);
  const std::string fence = "call void @tw.fence_block(i32 0)\n";
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    const SimtRun options{.threads = 64, .smem_bytes = 8, .seed = seed};
    run_simt(body(fence, fence), {memory(out)}, options);
    CHECK(out[0] == 42);
    CHECK(simt_fault(body("", fence), {memory(out)}, options).find("race") != std::string::npos);
    CHECK(simt_fault(body(fence, ""), {memory(out)}, options).find("race") != std::string::npos);
  }
}

TEST_CASE("traps, assertions and checks") {
  std::vector<std::uint32_t> out(32);
  CHECK(simt_fault(tid + "call void @tw.trap(i32 3)\nret void\n", {memory(out)})
            .starts_with("kernel.cpp:3: error: the kernel stopped with a trap\n  in kernel 'k', block 0, thread 0"));
  CHECK(
      simt_fault(tid + "%c = icmp ult i32 %t, 9\ncall void @tw.assert_true(i32 0, i1 %c, i32 4)\nret void\n",
                 {memory(out)})
          .starts_with("kernel.cpp:4: error: device_assert failed: x is \\ positive\nalways\n  in kernel 'k', block 0, "
                       "thread 9 "));
  CHECK(simt_fault("call void @tw.check_failed(i32 1, i64 -3, i64 8, i32 0, i1 true, i32 5)\nret void\n", {memory(out)})
            .starts_with("kernel.cpp:5: error: out of bounds: index -3 of axis 0 of view 1, whose extent is 8\n"));
}

TEST_CASE("the fault reported is that of the lowest block, every time") {
  std::vector<std::uint32_t> out(32);
  for (int i = 0; i < 10; ++i) {
    CHECK(simt_fault("%b = call i64 @tw.block_id()\n%c = icmp ult i64 %b, 37\n"
                     "call void @tw.assert_true(i32 0, i1 %c, i32 4)\nret void\n",
                     {memory(out)}, {.blocks = 4000})
              .find("block 37,") != std::string::npos);
  }
}

TEST_CASE("packed and approximate arithmetic") {
  const auto unary = [](const std::string& name, float x) {
    const std::string bits = std::to_string(std::bit_cast<std::uint32_t>(x));
    return std::bit_cast<float>(results("%x = bitcast i32 " + bits + " to float\n%y = call float @tw." + name +
                                        "(float %x)\n%r = bitcast float %y to i32\n")[0]);
  };
  CHECK(unary("ex2_approx", 3.0f) == 8.0f);
  CHECK(unary("ex2_approx", -140.0f) > 0.0f);
  CHECK(unary("ex2_approx_ftz", -140.0f) == 0.0f);
  CHECK(unary("lg2_approx", 32.0f) == 5.0f);
  CHECK(unary("rcp_approx_ftz", 4.0f) == 0.25f);
  CHECK(unary("rsqrt_approx", 16.0f) == 0.25f);
  CHECK(unary("tanh_approx", 0.0f) == 0.0f);
  CHECK(unary("round_tf32", std::bit_cast<float>(0x3f801000u)) == std::bit_cast<float>(0x3f802000u));
  CHECK(unary("round_tf32", std::bit_cast<float>(0xbf800fffu)) == -1.0f);
  const auto packed = [](const std::string& name, const std::string& a, const std::string& b) {
    return results("%r = call i32 @tw." + name + "(i32 " + a + ", i32 " + b + ")\n")[0];
  };
  // f16: 1.0 is 0x3c00, 2.0 is 0x4000, 3.0 is 0x4200, NaN is 0x7e00; bf16: 1.0 is 0x3f80, 2.0 is 0x4000, 3.0 0x4040.
  CHECK(packed("packed_add.f16x2", std::to_string(0x3c004000), std::to_string(0x40003c00)) == 0x42004200);
  CHECK(packed("packed_mul.bf16x2", std::to_string(0x3f804000), std::to_string(0x40404000)) == 0x40404080);
  CHECK(packed("packed_max.f16x2", std::to_string(0x7e003c00), std::to_string(0x3c004000)) == 0x7e004000);
  CHECK(packed("packed_fmax.f16x2", std::to_string(0x7e003c00), std::to_string(0x3c004000)) == 0x3c004000);
  CHECK(results("%r = call i32 @tw.permute_bytes(i32 " + std::to_string(0x03020100) + ", i32 " +
                std::to_string(0x07060504) + ", i32 " + std::to_string(0x0743) + ")\n")[0] == 0x00070403);
  CHECK(results("%r = call i32 @tw.dot4.i32(i32 " + std::to_string(0x01ff0203) + ", i32 " + std::to_string(0x01010101) +
                ", i32 10)\n")[0] == 10 + 1 - 1 + 2 + 3);
  CHECK(results("%h = call i16 @tw.pack_fp8.e4m3(float 1.0, float 1000.0)\n%r = zext i16 %h to i32\n")[0] == 0x7e38);
  CHECK(results("%r = call i32 @tw.pack.f16x2(float 1.0, float 2.0)\n")[0] == 0x40003c00);
}

TEST_CASE("narrow floats in plain IR") {
  CHECK(results("%f = uitofp i32 %t to float\n%h = fptrunc float %f to half\n%g = fadd half %h, 0xH3C00\n"
                "%w = fpext half %g to float\n%r = fptoui float %w to i32\n")[31] == 32);
  CHECK(results("%f = uitofp i32 %t to float\n%h = fptrunc float %f to bfloat\n%w = fpext bfloat %h to float\n"
                "%r = fptoui float %w to i32\n")[31] == 31);
}

TEST_CASE("races on global memory inside a block, and stale read-only loads") {
  std::vector<std::uint32_t> data(64, 5), out(64);
  // data[t] = t; <between>; r = data[(t + 1) % 64]
  const auto body = [](const std::string& between, int hint) {
    return tid +
           "%t4 = shl i32 %t, 2\n%tx = zext i32 %t4 to i64\n%a = add i64 %p1, %tx\n"
           "call void @tw.global_store.i32(i64 %a, i32 %t, i1 true, i32 0, i32 11)\n" +
           between +
           "%u = add i32 %t4, 4\n%m = and i32 %u, 255\n%mx = zext i32 %m to i64\n%b = add i64 %p1, %mx\n"
           "%r = call i32 @tw.global_load.i32(i64 %b, i1 true, i32 " +
           std::to_string(hint) + ", i32 12)\n" + store_result;
  };
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const SimtRun options{.threads = 64, .seed = seed};
    run_simt(body(block_barrier, 0), {memory(out), memory(data)}, options);
    for (std::uint32_t i = 0; i < 64; ++i) CHECK(out[i] == (i + 1) % 64);
    CHECK(simt_fault(body("", 0), {memory(out), memory(data)}, options).find("error: race: thread ") !=
          std::string::npos);
    CHECK(simt_fault(body(block_barrier, 1), {memory(out), memory(data)}, options)
              .find("stale: by a read-only load thread ") != std::string::npos);
  }
  CHECK(simt_fault(body("", 0), {memory(out), memory(data)}, {.threads = 64}) ==
        "kernel.cpp:11: error: race: thread 1 writes 4 bytes of global memory; thread 0 read byte 4 of the view at "
        "argument slot 1 at kernel.cpp:12 with no barrier between\n"
        "  in kernel 'k', block 0, thread 1 (warp 0, lane 1), in global_store\n"
        "  help: put a barrier between the two accesses");
  // Atomics by all threads, then a barrier, then plain reads.
  const std::string count = "%old = call i32 @tw.global_atomic_add.i32(i64 %p1, i32 1, i1 true, i32 3)\n";
  const std::string read = "%r = call i32 @tw.global_load.i32(i64 %p1, i1 true, i32 0, i32 4)\n" + store_result;
  data[0] = 0;
  run_simt(tid + count + block_barrier + read, {memory(out), memory(data)}, {.threads = 64});
  CHECK(out[7] == 64);
  CHECK(simt_fault(tid + count + read, {memory(out), memory(data)}, {.threads = 64}).find("race") != std::string::npos);
}
