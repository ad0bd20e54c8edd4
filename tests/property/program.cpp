// Lays out and fills the memory of a launch.
// Between random_program.cpp and compare.cpp.
#include "tests/property/program.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/property/dice.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::property {
namespace {

constexpr std::byte canary{0xa5};
constexpr std::size_t margin = 64;  // bytes of canary on both sides

// The lowest and highest element offset of a view.
struct Reach {
  std::int64_t low = 0, high = 0;
};
Reach reach_of(const Argument& a) {
  Reach r;
  for (std::size_t k = 0; k < a.extents.size(); ++k) {
    const std::int64_t far = (a.extents[k] - 1) * a.strides[k];
    if (a.extents[k] > 0) (far < 0 ? r.low : r.high) += far;
  }
  return r;
}

template <class Visit>
void for_each_offset(const Argument& a, Visit visit) {
  std::int64_t count = 1;
  for (const std::int64_t e : a.extents) count *= e;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, offset = 0;
    for (std::size_t k = a.extents.size(); k-- > 0;) {
      offset += rest % a.extents[k] * a.strides[k];
      rest /= a.extents[k];
    }
    visit(offset);
  }
}

}  // namespace

std::uint64_t interesting_bits(Dtype t, std::uint64_t random) {
  Dice dice(random);
  if (is_bool(t)) return dice.below(2);
  const int width = dtype_info(t).bits;
  const std::uint64_t any = width == 64 ? dice.bits() : dice.bits() & ((std::uint64_t{1} << width) - 1);
  const std::size_t kind = dice.below(20);
  if (kind < 2) return any;
  if (!is_float(t)) {
    static constexpr std::int64_t edges[] = {0,         1,   -1,  2,     7,         INT64_MAX,
                                             INT64_MIN, 127, 255, 32767, INT32_MAX, INT32_MIN};
    if (kind < 6) return ir::host::from_int(edges[dice.below(std::size(edges))], t);
    return ir::host::from_int(dice.between(-20, 20), t);
  }
  if (kind < 5) {
    static constexpr double edges[] = {0.0, -0.0, 1.0, -1.0, 0.5, 88.0, -87.5, 1e30, -1e-30, 65504.0, 448.0, 1e-45};
    const std::size_t e = dice.below(std::size(edges) + 3);
    if (t == Dtype::f8e5m2 && e >= std::size(edges)) return 0x7c | (any & 0x80);  // infinities do not convert
    if (e == std::size(edges)) return ir::host::from_double(HUGE_VAL, t);
    if (e == std::size(edges) + 1) return ir::host::from_double(-HUGE_VAL, t);
    if (e == std::size(edges) + 2) return ir::host::from_double(std::nan(""), t);
    return ir::host::from_double(edges[e], t);
  }
  const double size = kind < 9 ? 100.0 : 3.0;
  return ir::host::from_double((static_cast<double>(dice.bits() >> 11) * 0x1p-52 - 1) * size, t);
}

Memory::Memory(const Program& p) {
  Dice dice(p.seed ^ 0x6d656d6f7279u);
  for (std::size_t i = 0; i < p.arguments.size(); ++i) {
    const Argument& a = p.arguments[i];
    const ir::Type& t = p.function.params[i].value->type;
    buffers_.emplace_back();
    bases_.push_back(0);
    if (!t.is_view()) {
      slots_.push_back(a.scalar);
      continue;
    }
    const auto bytes = static_cast<std::int64_t>(dtype_bytes(t.elem));
    const Reach r = reach_of(a);
    buffers_.back().assign(2 * margin + static_cast<std::size_t>((r.high - r.low + 1) * bytes), canary);
    bases_.back() = margin + static_cast<std::size_t>(-r.low * bytes);
    std::byte* base = buffers_.back().data() + bases_.back();
    std::size_t next = 0;
    for_each_offset(a, [&](std::int64_t offset) {
      const std::uint64_t random = dice.bits();
      const std::uint64_t bits = a.elements.empty() ? interesting_bits(t.elem, random) : a.elements[next++];
      std::memcpy(base + offset * bytes, &bits, static_cast<std::size_t>(bytes));
    });
    slots_.push_back(reinterpret_cast<std::uint64_t>(base));
    for (const std::int64_t e : a.extents) slots_.push_back(static_cast<std::uint64_t>(e));
    for (const std::int64_t s : a.strides) slots_.push_back(static_cast<std::uint64_t>(s));
  }
}

}  // namespace tileweave::property
