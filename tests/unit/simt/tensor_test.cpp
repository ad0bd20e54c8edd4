// Tensor-core primitives on the machine: ldmatrix, stmatrix, mma.sync and wgmma against plain products, with fragments
// packed by the formulas of the PTX manual, written here once more.
#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <functional>

#include "tileweave/jit/base/float_types.h"
#include "unit/simt/harness.h"

using namespace tileweave;
using namespace tileweave::test;

namespace {

using Words = std::vector<std::uint32_t>;

// Small whole numbers, exact in every element type here.
int small(int i, int j, int salt) { return (i * 7 + j * 5 + salt * 3) % 7 - 3; }

// `bits` of element e of a lane's words.
void put(Words& words, std::size_t word, int element, int width, std::uint32_t bits) {
  words[word] |= bits << (width * element);
}

// Word `index` of each lane of buffer %p<k>: defines %<name><index>.
std::string load_words(const std::string& name, int parameter, int count) {
  std::string out = "%" + name + "b = mul i64 %lane64, " + std::to_string(4 * count) + "\n%" + name + "p = add i64 %p" +
                    std::to_string(parameter) + ", %" + name + "b\n";
  for (int i = 0; i < count; ++i) {
    const std::string n = "%" + name + std::to_string(i);
    out += n + "a = add i64 %" + name + "p, " + std::to_string(4 * i) + "\n" + n +
           " = call i32 @tw.global_load.i32(i64 " + n + "a, i1 true, i32 0, i32 0)\n";
  }
  return out;
}
std::string store_words(const std::string& name, int parameter, int count) {
  std::string out = "%" + name + "ob = mul i64 %lane64, " + std::to_string(4 * count) + "\n%" + name +
                    "op = add i64 %p" + std::to_string(parameter) + ", %" + name + "ob\n";
  for (int i = 0; i < count; ++i) {
    const std::string n = "%" + name + std::to_string(i);
    out += n + "oa = add i64 %" + name + "op, " + std::to_string(4 * i) + "\ncall void @tw.global_store.i32(i64 " + n +
           "oa, i32 " + n + ", i1 true, i32 0, i32 0)\n";
  }
  return out;
}
// %<name> = <count x type> of %<name>0, ...
std::string vector_of(const std::string& name, int count, const std::string& type) {
  const std::string vector = "<" + std::to_string(count) + " x " + type + ">";
  std::string out, last = vector + " poison";
  for (int i = 0; i < count; ++i) {
    const std::string n = "%" + name + std::to_string(i);
    if (type == "float") out += n + "f = bitcast i32 " + n + " to float\n";
    const std::string next = i + 1 == count ? "%" + name : n + "v";
    out += next + " = insertelement " + last + ", " + type + " " + n + (type == "float" ? "f" : "") + ", i32 " +
           std::to_string(i) + "\n";
    last = vector + " " + next;
  }
  return out;
}
std::string words_of(const std::string& name, int count, const std::string& type) {
  const std::string vector = "<" + std::to_string(count) + " x " + type + ">";
  std::string out;
  for (int i = 0; i < count; ++i) {
    const std::string n = "%" + name + std::to_string(i);
    out += n + (type == "float" ? "f" : "") + " = extractelement " + vector + " %" + name + ", i32 " +
           std::to_string(i) + "\n";
    if (type == "float") out += n + " = bitcast float " + n + "f to i32\n";
  }
  return out;
}
const std::string lane = "%t = call i32 @tw.thread_id()\n%lane64 = zext i32 %t to i64\n";

// One mma.sync of `name`, m16n8 by `depth`, elements of `width` bits encoded by `encode`.
void check_mma(const std::string& name, int depth, int width, bool is_integer,
               const std::function<std::uint32_t(int)>& encode_a, const std::function<std::uint32_t(int)>& encode_b) {
  CAPTURE(name);
  const int per = 32 / width;
  Words a(32 * 4), b(32 * 2), c(32 * 4), d(32 * 4);
  const auto number = [&](int v) {
    return is_integer ? static_cast<std::uint32_t>(v) : std::bit_cast<std::uint32_t>(static_cast<float>(v));
  };
  for (int l = 0; l < 32; ++l) {
    const int group = l / 4, member = l % 4;
    for (int i = 0; i < 4 * per; ++i) {  // a_i, as numbered in the manual: registers alternate between row and row + 8
      const int r = i / per, row = group + (r % 2 != 0 ? 8 : 0), k = member * per + i % per + (r >= 2 ? depth / 2 : 0);
      put(a, static_cast<std::size_t>(l * 4 + r), i % per, width, encode_a(small(row, k, 1)));
    }
    for (int i = 0; i < 2 * per; ++i) {
      const int r = i / per, k = member * per + i % per + (r != 0 ? depth / 2 : 0);
      put(b, static_cast<std::size_t>(l * 2 + r), i % per, width, encode_b(small(k, group, 2)));
    }
    for (int i = 0; i < 4; ++i) {
      c[static_cast<std::size_t>(l * 4 + i)] = number(small(group + (i >= 2 ? 8 : 0), 2 * member + i % 2, 5) * 100);
    }
  }
  const std::string element = is_integer ? "i32" : "float", vector = "<4 x " + element + ">";
  run_simt(lane + load_words("a", 0, 4) + load_words("b", 1, 2) + load_words("c", 2, 4) + vector_of("a", 4, "i32") +
               vector_of("b", 2, "i32") + vector_of("c", 4, element) + "%d = call " + vector + " @tw." + name +
               "(<4 x i32> %a, <2 x i32> %b, " + vector + " %c, i32 0)\n" + words_of("d", 4, element) +
               store_words("d", 3, 4) + "ret void\n",
           {memory(a), memory(b), memory(c), memory(d)});
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      int want = small(row, column, 5) * 100;
      for (int k = 0; k < depth; ++k) want += small(row, k, 1) * small(k, column, 2);
      const int l = row % 8 * 4 + column / 2, i = (row >= 8 ? 2 : 0) + column % 2;
      CHECK(d[static_cast<std::size_t>(l * 4 + i)] == number(want));
    }
  }
}

std::uint32_t as_f16(int v) { return f16(static_cast<float>(v)).bits; }
std::uint32_t as_bf16(int v) { return bf16(static_cast<float>(v)).bits; }
std::uint32_t as_e4m3(int v) { return f8e4m3(static_cast<float>(v)).bits; }
std::uint32_t as_e5m2(int v) { return f8e5m2(static_cast<float>(v)).bits; }
std::uint32_t as_f32(int v) { return std::bit_cast<std::uint32_t>(static_cast<float>(v)); }
std::uint32_t as_s8(int v) { return static_cast<std::uint8_t>(v); }

}  // namespace

TEST_CASE("mma.sync multiplies fragments") {
  check_mma("mma_f16", 16, 16, false, as_f16, as_f16);
  check_mma("mma_bf16", 16, 16, false, as_bf16, as_bf16);
  check_mma("mma_tf32", 8, 32, false, as_f32, as_f32);
  check_mma("mma_s8", 32, 8, true, as_s8, as_s8);
  check_mma("mma_fp8.e4m3_e4m3", 32, 8, false, as_e4m3, as_e4m3);
  check_mma("mma_fp8.e4m3_e5m2", 32, 8, false, as_e4m3, as_e5m2);
  check_mma("mma_fp8.e5m2_e4m3", 32, 8, false, as_e5m2, as_e4m3);
  check_mma("mma_fp8.e5m2_e5m2", 32, 8, false, as_e5m2, as_e5m2);
}

TEST_CASE("mma.sync in f64") {
  std::vector<double> a(32), b(32), c(64), d(64);
  for (int l = 0; l < 32; ++l) {
    const auto i = static_cast<std::size_t>(l);
    a[i] = small(l / 4, l % 4, 1) + 0.1;
    b[i] = small(l % 4, l / 4, 2) - 0.3;
    c[2 * i] = small(l / 4, 2 * (l % 4), 3);
    c[2 * i + 1] = small(l / 4, 2 * (l % 4) + 1, 3);
  }
  const auto at = [](const std::string& name, int parameter, const std::string& scale, const std::string& offset) {
    return "%" + name + "s = mul i64 %lane64, " + scale + "\n%" + name + "t = add i64 %p" + std::to_string(parameter) +
           ", %" + name + "s\n%" + name + "a = add i64 %" + name + "t, " + offset + "\n";
  };
  const auto load = [&](const std::string& name, int parameter, const std::string& scale, const std::string& offset) {
    return at(name, parameter, scale, offset) + "%" + name + "b = call i64 @tw.global_load.i64(i64 %" + name +
           "a, i1 true, i32 0, i32 0)\n%" + name + " = bitcast i64 %" + name + "b to double\n";
  };
  run_simt(lane + load("x", 0, "8", "0") + load("y", 1, "8", "0") + load("z", 2, "16", "0") + load("w", 2, "16", "8") +
               "%c0 = insertelement <2 x double> poison, double %z, i32 0\n"
               "%c = insertelement <2 x double> %c0, double %w, i32 1\n"
               "%d = call <2 x double> @tw.mma_f64(double %x, double %y, <2 x double> %c, i32 0)\n"
               "%e = bitcast <2 x double> %d to <2 x i64>\n%e0 = extractelement <2 x i64> %e, i32 0\n"
               "%e1 = extractelement <2 x i64> %e, i32 1\n" +
               at("o", 3, "16", "0") + at("q", 3, "16", "8") +
               "call void @tw.global_store.i64(i64 %oa, i64 %e0, i1 true, i32 0, i32 0)\n"
               "call void @tw.global_store.i64(i64 %qa, i64 %e1, i1 true, i32 0, i32 0)\nret void\n",
           {memory(a), memory(b), memory(c), memory(d)});
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 8; ++column) {
      double want = small(row, column, 3);
      for (int k = 0; k < 4; ++k) want += (small(row, k, 1) + 0.1) * (small(k, column, 2) - 0.3);
      CHECK(d[static_cast<std::size_t>((row * 4 + column / 2) * 2 + column % 2)] == doctest::Approx(want));
    }
  }
}

// smem holds four 8x8 matrices of 16 bits, element (k, r, c) = 1000 k + 10 r + c, rows of 16 bytes.
TEST_CASE("ldmatrix and stmatrix, plain and transposed") {
  Words in(128), out(128), back(128);
  for (int k = 0; k < 4; ++k) {
    for (int r = 0; r < 8; ++r) {
      for (int c = 0; c < 8; ++c) {
        put(in, static_cast<std::size_t>(k * 32 + r * 4 + c / 2), c % 2, 16,
            static_cast<std::uint32_t>(1000 * k + 10 * r + c));
      }
    }
  }
  // Thread t copies its 16 bytes (row t of all) and then gives the address of that row.
  const auto body = [](const std::string& how) {
    return lane +
           "%o = shl i32 %t, 4\n%x = zext i32 %o to i64\n%ia = add i64 %p0, %x\n"
           "%row = call <4 x i32> @tw.global_load.v4i32(i64 %ia, i1 true, i32 0, i32 0)\n"
           "call void @tw.shared_store.v4i32(i32 %o, <4 x i32> %row, i1 true, i32 1)\n"
           "call void @tw.warp_barrier(i32 2)\n"
           "%d = call <4 x i32> @tw.ldmatrix" +
           how + ".v4i32(i32 %o, i32 3)\n" + words_of("d", 4, "i32") + store_words("d", 1, 4) +
           "%to = add i32 %o, 512\ncall void @tw.stmatrix" + how +
           ".v4i32(i32 %to, <4 x i32> %d, i32 4)\ncall void @tw.warp_barrier(i32 5)\n"
           "%b = call <4 x i32> @tw.shared_load.v4i32(i32 %to, i1 true, i32 6)\n%oa = add i64 %p2, %x\n"
           "call void @tw.global_store.v4i32(i64 %oa, <4 x i32> %b, i1 true, i32 0, i32 7)\nret void\n";
  };
  for (const bool transposed : {false, true}) {
    run_simt(body(transposed ? "_trans" : ""), {memory(in), memory(out), memory(back)}, {.smem_bytes = 1024});
    for (int l = 0; l < 32; ++l) {
      for (int k = 0; k < 4; ++k) {
        for (int half = 0; half < 2; ++half) {
          const int major = l / 4, minor = 2 * (l % 4) + half;
          const int want = 1000 * k + (transposed ? 10 * minor + major : 10 * major + minor);
          CHECK((out[static_cast<std::size_t>(l * 4 + k)] >> (16 * half) & 0xffff) == static_cast<std::uint32_t>(want));
        }
      }
    }
    CHECK(back == in);
  }
  std::string racy = body("");
  racy.replace(racy.find("call void @tw.warp_barrier(i32 2)\n"), 34, "");
  CHECK(simt_fault(racy, {memory(in), memory(out), memory(back)}, {.smem_bytes = 1024}).find("race") !=
        std::string::npos);
}

// --- wgmma: A is 64 x 64 and B is 16 x 64 (or 64 x 64 for the transposed one) in f16, four steps of k = 16.
namespace {

struct Wgmma {
  std::string fence = "call void @tw.wgmma_fence(i32 60)\n";
  std::string proxy = "call void @tw.fence_proxy_async(i32 61)\n";
  std::string wait = "call void @tw.wgmma_wait(i32 0, i32 62)\n";
  std::string after;  // before the wait
  std::string name = "wgmma_ss.f16";
};

// Copies `bytes` of shared memory's image from %p0, 16 bytes a thread a time, by 128 threads.
std::string fill_shared(int bytes) {
  std::string out = "%t = call i32 @tw.thread_id()\n%lane64 = zext i32 %t to i64\n%o = shl i32 %t, 4\n";
  for (int at = 0; at < bytes; at += 2048) {
    const std::string n = std::to_string(at);
    out += "%f" + n + " = add i32 %o, " + n + "\n%g" + n + " = zext i32 %f" + n + " to i64\n%h" + n +
           " = add i64 %p0, %g" + n + "\n%i" + n + " = call <4 x i32> @tw.global_load.v4i32(i64 %h" + n +
           ", i1 true, i32 0, i32 0)\ncall void @tw.shared_store.v4i32(i32 %f" + n + ", <4 x i32> %i" + n +
           ", i1 true, i32 1)\n";
  }
  return out;
}

std::uint64_t descriptor(int start, int leading, int stride) {
  const auto field = [](int bytes) { return static_cast<std::uint64_t>(bytes) >> 4; };
  return field(start) | field(leading) << 16 | field(stride) << 32 | std::uint64_t{1} << 62;
}

// `b_step`: how far B's descriptor moves a step; `b` its first.
std::string wgmma(const Wgmma& w, std::uint64_t b, int b_step, bool b_transposed) {
  std::string out = fill_shared(16384) + w.proxy + "call void @tw.block_barrier(i32 2)\n" + w.fence;
  std::string acc = "[8 x float] zeroinitializer";
  for (int step = 0; step < 4; ++step) {
    const std::string n = "%c" + std::to_string(step);
    out += n + " = call [8 x float] @tw." + w.name + ".n8([8 x float] " + acc.substr(12) + ", i64 " +
           std::to_string(descriptor(32 * step, 16, 1024)) + ", i64 " +
           std::to_string(b + static_cast<std::uint64_t>(b_step * step >> 4)) + ", i32 " + (step == 0 ? "0" : "1") +
           ", i32 0, i32 " + (b_transposed ? "1" : "0") + ", i32 63)\n";
    acc = "[8 x float] " + n;
  }
  out += "call void @tw.wgmma_commit(i32 64)\n" + w.after + w.wait +
         "%d = call [8 x float] @tw.wgmma_wait_tied.f32.n8([8 x float] %c3, i32 0, i32 65)\n";
  for (int i = 0; i < 8; ++i) {
    const std::string n = "%d" + std::to_string(i);
    out +=
        n + "f = extractvalue [8 x float] %d, " + std::to_string(i) + "\n" + n + " = bitcast float " + n + "f to i32\n";
  }
  return out + store_words("d", 1, 8) + "ret void\n";
}

constexpr int b_at = 8192;

// The image: A with rows of 128 bytes, 16-byte chunks swizzled by row mod 8; B the same (16 rows), or transposed.
Words image(bool b_transposed) {
  Words words(16384 / 4);
  const auto element = [&](int base, int row, int column, int v) {
    const int chunk = column / 8 ^ row % 8, byte = base + row * 128 + chunk * 16 + column % 8 * 2;
    put(words, static_cast<std::size_t>(byte / 4), byte % 4 / 2, 16, as_f16(v));
  };
  for (int m = 0; m < 64; ++m) {
    for (int k = 0; k < 64; ++k) element(0, m, k, small(m, k, 1));
  }
  for (int n = 0; n < 16; ++n) {
    for (int k = 0; k < 64; ++k) {
      if (b_transposed) {
        element(b_at, k, n, small(k, n, 2));
      } else {
        element(b_at, n, k, small(k, n, 2));
      }
    }
  }
  return words;
}

void check_product(const Words& d) {
  for (int m = 0; m < 64; ++m) {
    for (int n = 0; n < 16; ++n) {
      int want = 0;
      for (int k = 0; k < 64; ++k) want += small(m, k, 1) * small(k, n, 2);
      const int thread = m / 16 * 32 + m % 8 * 4 + n % 8 / 2, i = n / 8 * 4 + m % 16 / 8 * 2 + n % 2;
      CAPTURE(m);
      CAPTURE(n);
      CHECK(d[static_cast<std::size_t>(thread * 8 + i)] == as_f32(want));
    }
  }
}

}  // namespace

TEST_CASE("wgmma with both operands in swizzled shared memory") {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const SimtRun options{.threads = 128, .smem_bytes = 16384, .seed = seed};
    Words in = image(false), d(128 * 8);
    run_simt(wgmma({}, descriptor(b_at, 16, 1024), 32, false), {memory(in), memory(d)}, options);
    check_product(d);
    // B with N contiguous: steps of 16 rows of 128 bytes.
    Words turned = image(true), e(128 * 8);
    run_simt(wgmma({}, descriptor(b_at, 8192, 1024), 2048, true), {memory(turned), memory(e)}, options);
    check_product(e);
  }
}

TEST_CASE("wgmma's mistakes are found") {
  Words in = image(false), d(128 * 8);
  const auto fault = [&](const Wgmma& w, std::uint64_t b = descriptor(b_at, 16, 1024)) {
    return simt_fault(wgmma(w, b, 32, false), {memory(in), memory(d)}, {.threads = 128, .smem_bytes = 16384});
  };
  const std::string overwrite =
      "call void @tw.shared_store.v4i32(i32 %o, <4 x i32> zeroinitializer, i1 true, i32 66)\n";
  Wgmma w;
  CHECK(fault(w) == "");
  w.proxy = "";
  CHECK(fault(w).find("without fence_proxy_async after it") != std::string::npos);
  w = {};
  w.fence = "";
  CHECK(fault(w).find("wgmma without wgmma_fence before it") != std::string::npos);
  w = {};
  w.after = overwrite;
  CHECK(fault(w).starts_with("kernel.cpp:66: error: race: thread "));
  CHECK(fault(w).find("an asynchronous copy or product read byte ") != std::string::npos);
  w = {};
  w.after = "call void @tw.wgmma_wait(i32 0, i32 62)\n" + overwrite;
  CHECK(fault(w).find("race") == std::string::npos);
  CHECK(fault({}, descriptor(b_at + 8192 - 16, 16, 1024)).find("out of bounds") != std::string::npos);
}

TEST_CASE("wgmma with A in registers") {
  Words in = image(false), d(128 * 8), a(128 * 16);
  for (int t = 0; t < 128; ++t) {
    for (int step = 0; step < 4; ++step) {
      for (int i = 0; i < 8; ++i) {
        const int r = i / 2, row = t / 32 * 16 + t % 32 / 4 + (r % 2 != 0 ? 8 : 0);
        const int k = step * 16 + t % 4 * 2 + i % 2 + (r >= 2 ? 8 : 0);
        put(a, static_cast<std::size_t>(t * 16 + step * 4 + r), i % 2, 16, as_f16(small(row, k, 1)));
      }
    }
  }
  std::string body = fill_shared(16384) +
                     "call void @tw.fence_proxy_async(i32 1)\ncall void @tw.block_barrier(i32 2)\n"
                     "call void @tw.wgmma_fence(i32 3)\n";
  std::string acc = "zeroinitializer";
  for (int step = 0; step < 4; ++step) {
    const std::string s = std::to_string(step);
    body += "%as" + s + " = mul i64 %lane64, 64\n%at" + s + " = add i64 %p2, %as" + s + "\n%au" + s + " = add i64 %at" +
            s + ", " + std::to_string(16 * step) + "\n%av" + s + " = call <4 x i32> @tw.global_load.v4i32(i64 %au" + s +
            ", i1 true, i32 0, i32 0)\n%c" + s + " = call [8 x float] @tw.wgmma_rs.f16.n8([8 x float] " + acc +
            ", <4 x i32> %av" + s + ", i64 " + std::to_string(descriptor(b_at + 32 * step, 16, 1024)) + ", i32 " +
            (step == 0 ? "0" : "1") + ", i32 0, i32 4)\n";
    acc = "%c" + s;
  }
  body +=
      "call void @tw.wgmma_commit(i32 5)\n"
      "%d = call [8 x float] @tw.wgmma_wait_tied.f32.n8([8 x float] %c3, i32 0, i32 6)\n";
  for (int i = 0; i < 8; ++i) {
    const std::string n = "%d" + std::to_string(i);
    body +=
        n + "f = extractvalue [8 x float] %d, " + std::to_string(i) + "\n" + n + " = bitcast float " + n + "f to i32\n";
  }
  run_simt(body + store_words("d", 1, 8) + "ret void\n", {memory(in), memory(d), memory(a)},
           {.threads = 128, .smem_bytes = 16384});
  check_product(d);
}
