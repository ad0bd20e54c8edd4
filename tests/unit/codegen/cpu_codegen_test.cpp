// The CPU lowering on hand-built functions: memory it may not touch, strides, empty tensors, control flow, and what the
// plan must and must not keep in memory. The property tests compare it with the interpreter on every op.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/interpret.h"
#include "tileweave/jit/passes/passes.h"
#include "tileweave/jit/runtime/abi.h"
#include "tileweave/jit/runtime/elf_loader.h"

namespace tileweave::codegen {
namespace {

using ir::Builder, ir::Combine, ir::Function, ir::OpId, ir::Type;
using V = ir::Value*;

const char* const targets[] = {"native", "x86-64-v3", "x86-64"};

// Whether this host runs code for the target: the named levels below its own, and its own.
bool runs_here(const std::string& target) { return target != "x86-64-v3" || __builtin_cpu_supports("avx2"); }

void run(const Function& f, const std::vector<std::uint64_t>& slots, const ir::Grid& grid, const std::string& target) {
  const Binary b = cpu_binary(f, parse_target(target));
  const auto object = runtime::LoadedObject::load(b.code);
  const auto entry = reinterpret_cast<runtime::CpuEntry>(object->function(b.entry));
  REQUIRE((entry != nullptr));
  const auto bytes = static_cast<std::size_t>(b.scratch_bytes + 63) / 64 * 64;
  const std::unique_ptr<void, void (*)(void*)> scratch(std::aligned_alloc(64, bytes), std::free);
  std::memset(scratch.get(), 0xa5, bytes);
  runtime::LaunchServices services;
  entry(slots.data(), grid.data(), 0, grid[0] * grid[1] * grid[2], scratch.get(), &services);
}

std::uint64_t slot(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
std::uint64_t slot(std::int64_t v) { return static_cast<std::uint64_t>(v); }

V block_offset(Builder& b, std::int64_t block) { return b.elementwise(OpId::mul, {b.program_id(0), b.index(block)}); }

// y[i] = x[i] + 1 by blocks, lanes outside x not written.
Function add_one(Dtype t, std::int64_t block, bool unit_stride) {
  Function f("add_one");
  V x = f.add_param(Type::view(t, 1, true), "x"), y = f.add_param(Type::view(t, 1, false), "y");
  for (ir::Param& p : f.params) p.facts.unit_stride = unit_stride ? 1 : 0;
  Builder b(f);
  V const offsets[] = {block_offset(b, block)};
  const std::int64_t extents[] = {block};
  V loaded = b.load(x, offsets, extents, nullptr, 0);
  V one = b.broadcast(b.constant(Type::scalar(t), std::int64_t{1}), extents);
  b.store(y, offsets, b.elementwise(OpId::add, {loaded, one}), b.inside(x, offsets, extents));
  return f;
}

// Pages with an unmapped one on either side.
class GuardedPages {
 public:
  explicit GuardedPages(std::size_t pages) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), pages_(pages) {
    void* all = mmap(nullptr, (pages + 2) * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(all != MAP_FAILED);
    all_ = static_cast<std::byte*>(all);
    REQUIRE(mprotect(begin(), pages * page_, PROT_READ | PROT_WRITE) == 0);
  }
  ~GuardedPages() { munmap(all_, (pages_ + 2) * page_); }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;
  std::byte* begin() const { return all_ + page_; }
  std::byte* end() const { return begin() + pages_ * page_; }

 private:
  std::size_t page_, pages_;
  std::byte* all_;
};

template <class T>
void check_guarded(const std::string& target, bool unit_stride) {
  const Function f = add_one(dtype_of<T>, 48, unit_stride);
  const Binary binary = cpu_binary(f, parse_target(target));
  const auto object = runtime::LoadedObject::load(binary.code);
  const auto entry = reinterpret_cast<runtime::CpuEntry>(object->function(binary.entry));
  alignas(64) std::byte scratch[4096];
  REQUIRE(binary.scratch_bytes <= static_cast<std::int64_t>(sizeof scratch));
  const GuardedPages in(1), out(1);
  for (std::int64_t n = 0; n < 150; ++n) {
    // Against the page's end, and with a canary before.
    T* x = reinterpret_cast<T*>(in.end()) - n;
    T* y = reinterpret_cast<T*>(out.end()) - n;
    std::memset(out.begin(), 0x77, static_cast<std::size_t>(out.end() - out.begin()));
    for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(i);
    const std::uint64_t slots[] = {slot(x), slot(n), slot(std::int64_t{1}), slot(y), slot(n), slot(std::int64_t{1})};
    const std::int64_t grid[] = {(n + 47) / 48, 1, 1};
    entry(slots, grid, 0, grid[0], scratch, nullptr);
    bool right = true;
    for (std::int64_t i = 0; i < n; ++i) right = right && y[i] == static_cast<T>(static_cast<T>(i) + T{1});
    CHECK_MESSAGE(right, target << " with " << n << " elements");
    CHECK(std::all_of(out.begin(), reinterpret_cast<std::byte*>(y), [](std::byte c) { return c == std::byte{0x77}; }));
  }
}

TEST_CASE("a partial block touches nothing outside its view") {
  for (const std::string target : targets) {
    if (!runs_here(target)) continue;
    check_guarded<float>(target, true);
    check_guarded<std::int8_t>(target, true);
    check_guarded<double>(target, false);
    check_guarded<std::int16_t>(target, false);
  }
}

// Runs `f` on two copies of `memory`, compiled and interpreted, with view slots made by `slots_for(memory)`.
void check_same(const Function& f, const std::vector<std::byte>& memory, const ir::Grid& grid,
                const std::function<std::vector<std::uint64_t>(std::byte*)>& slots_for) {
  std::vector<std::byte> expected = memory;
  ir::Interpreter(f).run(slots_for(expected.data()), grid);
  for (const std::string target : targets) {
    if (!runs_here(target)) continue;
    std::vector<std::byte> got = memory;
    run(f, slots_for(got.data()), grid, target);
    CHECK_MESSAGE(got == expected, f.name << " for " << target);
  }
}

std::vector<std::byte> floats(std::size_t n) {
  std::vector<std::byte> bytes(n * 4);
  for (std::size_t i = 0; i < n; ++i) {
    const float v =
        static_cast<float>(static_cast<int>(i * 7 % 61) - 30);  // whole numbers: sums are exact in any order
    std::memcpy(&bytes[i * 4], &v, 4);
  }
  return bytes;
}

Function transpose() {
  Function f("transpose");
  V x = f.add_param(Type::view(Dtype::f32, 2, true), "x"), y = f.add_param(Type::view(Dtype::f32, 2, false), "y");
  Builder b(f);
  V const from[] = {b.index(0), b.index(0)};
  const std::int64_t extents[] = {24, 40};
  const int perm[] = {1, 0};
  b.store(y, from, b.trans(b.load(x, from, extents, nullptr, 0x3f800000), perm), nullptr);
  return f;
}

TEST_CASE("any strides: odd, negative, zero") {
  const auto memory = floats(8192);
  const auto run_with = [&](std::int64_t s0, std::int64_t s1, std::int64_t base, std::int64_t rows, std::int64_t cols) {
    check_same(transpose(), memory, {1, 1, 1}, [&](std::byte* m) -> std::vector<std::uint64_t> {
      return {slot(m + base * 4),
              slot(rows),
              slot(cols),
              slot(s0),
              slot(s1),
              slot(m + 16384),
              slot(std::int64_t{33}),
              slot(std::int64_t{21}),
              slot(std::int64_t{43}),
              slot(std::int64_t{2})};
    });
  };
  run_with(41, 1, 0, 24, 40);
  run_with(83, 2, 3, 24, 40);
  run_with(-41, -1, 24 * 41, 24, 40);
  run_with(0, 1, 5, 24, 40);
  run_with(1, 0, 5, 17, 9);
  run_with(41, 1, 0, 0, 40);
  run_with(41, 1, 0, 24, 0);
}

TEST_CASE("a program range that is empty runs nothing") {
  const Function f = add_one(Dtype::f32, 16, true);
  float x[16] = {}, y[16] = {};
  run(f, {slot(x), 16, 1, slot(y), 16, 1}, {0, 1, 1}, "native");
  CHECK(y[0] == 0.0f);
}

// Row sums by a loop over pieces; the loop swaps two carried tiles and counts in a third.
Function carried_tiles() {
  Function f("carried_tiles");
  V x = f.add_param(Type::view(Dtype::f32, 1, true), "x"), y = f.add_param(Type::view(Dtype::f32, 2, false), "y");
  Builder b(f);
  const std::int64_t extents[] = {20};
  V zero = b.broadcast(b.constant(Type::scalar(Dtype::f32), 0.0), extents);
  V one = b.broadcast(b.constant(Type::scalar(Dtype::f32), 1.0), extents);
  V first = b.var(zero), second = b.var(one), sum = b.var(zero);
  V k = b.begin_for(b.index(0), b.extent(x, 0), b.index(20));
  V const at[] = {k};
  V piece = b.load(x, at, extents, nullptr, 0);
  V a = b.var_get(first), c = b.var_get(second);
  b.var_set(first, c);
  b.var_set(second, b.elementwise(OpId::add, {a, piece}));
  b.var_set(sum, b.elementwise(OpId::add, {b.var_get(sum), b.elementwise(OpId::mul, {piece, c})}));
  b.end_for();
  std::int64_t row = 0;
  for (V v : {first, second, sum}) {
    V const to[] = {b.index(row++), b.index(0)};
    b.store(y, to, b.expand_dims(b.var_get(v), 0), nullptr);
  }
  return f;
}

TEST_CASE("loops carry tiles that swap places") {
  Function f = carried_tiles();
  passes::promote_vars(f);
  for (const std::int64_t n : {0, 1, 20, 47, 200}) {
    check_same(f, floats(2048), {1, 1, 1}, [&](std::byte* m) -> std::vector<std::uint64_t> {
      return {slot(m), slot(n), slot(std::int64_t{1}), slot(m + 4096), 3, 20, 20, 1};
    });
  }
}

TEST_CASE("in place: what is loaded is loaded before it is overwritten") {
  Function f("shift");
  V x = f.add_param(Type::view(Dtype::f32, 1, true), "x"), y = f.add_param(Type::view(Dtype::f32, 1, false), "y");
  for (ir::Param& p : f.params) {
    p.facts.unit_stride = 1;
    p.facts.may_alias = true;
  }
  Builder b(f);
  V const at[] = {b.index(0)};
  const std::int64_t extents[] = {100};
  b.store(y, at, b.load(x, at, extents, nullptr, 0), nullptr);
  for (const std::int64_t shift : {-17, -1, 0, 1, 16, 33}) {
    check_same(f, floats(512), {1, 1, 1}, [&](std::byte* m) -> std::vector<std::uint64_t> {
      return {slot(m + 400), 100, 1, slot(m + 400 + shift * 4), 100, 1};
    });
  }
}

TEST_CASE("a dot adds in ascending order, whatever its extents") {
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {5, 7, 3}, {13, 70, 9}, {6, 64, 16}, {2, 16, 33}}) {
    Function f("dot");
    V x = f.add_param(Type::view(Dtype::f32, 2, true), "x"), w = f.add_param(Type::view(Dtype::f32, 2, true), "w");
    V y = f.add_param(Type::view(Dtype::f32, 2, false), "y");
    Builder b(f);
    V const at[] = {b.index(0), b.index(0)};
    const std::int64_t xe[] = {m, k}, we[] = {k, n}, ye[] = {m, n};
    V tenth = b.broadcast(b.constant(Type::scalar(Dtype::f32), 0.1), xe);
    V lhs = b.elementwise(OpId::mul, {b.load(x, at, xe, nullptr, 0), tenth});  // so that rounding shows the order
    V zero = b.constant(Type::tile(Dtype::f32, ye), 0.0);
    b.store(y, at, b.dot(lhs, b.load(w, at, we, nullptr, 0), zero, ""), nullptr);
    check_same(f, floats(8192), {1, 1, 1}, [&](std::byte* base) -> std::vector<std::uint64_t> {
      return {slot(base),         slot(m), slot(k), slot(k), 1, slot(base + 4096), slot(k), slot(n), slot(n), 1,
              slot(base + 16384), slot(m), slot(n), slot(n), 1};
    });
  }
}

std::int64_t scratch_of(const Function& f) { return cpu_binary(f, parse_target("x86-64-v4")).scratch_bytes; }

// An expensive value.
V long_chain(Builder& b, V x) {
  for (int i = 0; i < 10; ++i) x = b.elementwise(OpId::fma, {x, x, x});
  return x;
}

TEST_CASE("no tile in memory that need not be there") {
  constexpr std::int64_t spare = 64, tile = 1024 * 4 + 64;
  CHECK(scratch_of(add_one(Dtype::f32, 1024, true)) == spare);

  // A row reduced and written once more: recomputed where that is cheap, kept once where it is not.
  const auto normalise = [](bool expensive) {
    Function f("normalise");
    V x = f.add_param(Type::view(Dtype::f32, 2, true), "x"), y = f.add_param(Type::view(Dtype::f32, 2, false), "y");
    Builder b(f);
    V const at[] = {b.program_id(0), b.index(0)};
    const std::int64_t extents[] = {1, 1024};
    V row = b.load(x, at, extents, nullptr, 0);
    if (expensive) row = long_chain(b, row);
    V sum = b.broadcast(b.expand_dims(b.reduce(row, 1, Combine::sum, b.inside(x, at, extents)), 1), extents);
    b.store(y, at, b.elementwise(OpId::sub, {row, sum}), b.inside(x, at, extents));
    return f;
  };
  CHECK(scratch_of(normalise(false)) == spare);
  CHECK(scratch_of(normalise(true)) == spare + tile);
}

TEST_CASE("vectors have the target's width, and no relaxed arithmetic is asked for") {
  const Function f = add_one(Dtype::f32, 1024, true);
  const auto assembly = [&](const char* target) { return cpu_text(f, parse_target(target), Emit::assembly); };
  CHECK(assembly("x86-64-v4").find("zmm") != std::string::npos);
  CHECK(assembly("x86-64-v3").find("zmm") == std::string::npos);
  CHECK(assembly("x86-64-v3").find("ymm") != std::string::npos);
  CHECK(assembly("x86-64").find("ymm") == std::string::npos);
  const std::string text = cpu_text(f, parse_target("native"), Emit::llvm);
  CHECK(text.find("fadd") != std::string::npos);
  CHECK(text.find("fadd fast") == std::string::npos);
  CHECK(text.find("contract") == std::string::npos);
  CHECK(cpu_text(f, parse_target("aarch64:neoverse-v1"), Emit::assembly).find("ret") != std::string::npos);
}

TEST_CASE("results past the size of the caches, aligned or not") {
  constexpr std::int64_t n = (9 << 20) + 37, block = 4096;
  const Function f = add_one(Dtype::f32, block, true);
  std::vector<float> x(n), y(n + 32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i & 0xffff);
  for (const std::size_t shift : {0, 1, 16}) {
    std::fill(y.begin(), y.end(), -1.0f);
    run(f, {slot(x.data()), n, 1, slot(y.data() + shift), n, 1}, {(n + block - 1) / block, 1, 1}, "native");
    bool right = y[shift + x.size()] == -1.0f && (shift == 0 || y[shift - 1] == -1.0f);
    for (std::size_t i = 0; i < x.size(); ++i) right = right && y[shift + i] == x[i] + 1;
    CHECK_MESSAGE(right, "moved by " << shift);
  }
}

TEST_CASE("targets are parsed, and refused by name") {
  CHECK(parse_target("x86-64:skylake-avx512-avx512vl").features == "-avx512vl");
  CHECK(parse_target("x86-64:skylake-avx512").cpu == "skylake-avx512");
  // Names with '-' in them, as a hypervisor hides them of a Sapphire Rapids.
  CHECK(parse_target("x86-64:sapphirerapids+rtm-amx-bf16-amx-tile-uintr").features ==
        "+rtm,-amx-bf16,-amx-tile,-uintr");
  CHECK(parse_target("x86-64:znver4+amx-int8").features == "+amx-int8");
  CHECK(parse_target("x86-64-v3").cpu == "x86-64-v3");
  CHECK(parse_target("simt:sm_90a").arch_specific);
  CHECK(parse_target("sm_86").sm == 86);
  CHECK(parse_target(host_target()).cpu == parse_target("native").cpu);
  for (const char* wrong : {"", "sm_70", "x86-64:nosuchcpu", "x86-64:znver4+nosuchfeature", "x86-64:znver4-amx-nosuch",
                            "x86-64:znver4-", "simt:", "riscv"}) {
    CHECK_THROWS_AS(parse_target(wrong), CompileError);
  }
}

}  // namespace
}  // namespace tileweave::codegen
