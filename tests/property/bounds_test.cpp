// The interpreter's bounds hold for another order of summation, and leave everything else exact.
// Backends are compared through the same bounds; this test needs none.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/property/compare.h"
#include "tests/property/random_program.h"
#include "tileweave/jit/ir/rewrite.h"

using namespace tileweave;
using namespace tileweave::property;

namespace {

using namespace tileweave::ir;

// A float sum or product in two halves, accumulated as the language says.
bool halve(Rewriter& w, const Op& op) {
  Builder& b = w.builder();
  const Type& x = op.operands[0]->type;
  const int axis = static_cast<int>(op.attrs.get_int(AttrKey::axis));
  const Combine c = combine_from_name(op.attrs.get_text(AttrKey::combine)).value();
  const std::int64_t n = x.extents[static_cast<std::size_t>(axis)];
  if (!is_float(x.elem) || (c != Combine::sum && c != Combine::prod) || n % 2 != 0 || x.rank == max_rank) return false;
  Extents halves = x.shape();
  halves[static_cast<std::size_t>(axis)] = n / 2;
  halves.insert(halves.begin() + axis, 2);
  const Dtype wide = is_narrow_float(x.elem) ? Dtype::f32 : x.elem;
  Value* v = b.reshape(b.convert(w.map(op.operands[0]), wide), halves);
  Value* mask = op.operands.size() == 2 ? b.reshape(w.map(op.operands[1]), halves) : nullptr;
  w.replace(op.results[0], b.convert(b.reduce(b.reduce(v, axis, c, mask), axis, c, nullptr), x.elem));
  return true;
}

// acc + (0 + a b), not ((acc + a0 b0) + a1 b1) + ...
bool add_last(Rewriter& w, const Op& op) {
  if (!is_float(op.results[0]->type.elem)) return false;
  Builder& b = w.builder();
  Value* zero = b.constant(op.results[0]->type, 0.0);
  Value* product = b.dot(w.map(op.operands[0]), w.map(op.operands[1]), zero, op.attrs.get_text(AttrKey::precision));
  w.replace(op.results[0], b.elementwise(OpId::add, {product, w.map(op.operands[2])}));
  return true;
}

constexpr RandomOptions summing{.reductions = 25};

void reorder(Function& f) {
  f = Rewriter(f).run([](Rewriter& w, const Op& op) {
    if (op.id == OpId::reduce) return halve(w, op);
    return op.id == OpId::dot && add_last(w, op);
  });
}

}  // namespace

TEST_CASE("another order of summation stays within the bounds") {
  const Executor reordered = after({reorder}, Stage::recorded);
  const auto failure = check_seeds(
      60'001, 1500, [](std::uint64_t seed) { return random_program(seed, summing); },
      [&](const Program& p) { return compare_with_interpreter(p, [](Function&) {}, reordered); });
  CHECK_MESSAGE(!failure, failure.value_or(""));
}

TEST_CASE("the bounds are needed, and they are no wildcard") {
  const Executor reordered = after({reorder}, Stage::recorded), plain = interpreter();
  int differs = 0, exact = 0, bounded = 0, anything = 0;
  for (std::uint64_t seed = 60'001; seed < 60'401; ++seed) {
    const Program p = random_program(seed, summing);
    differs += compare(p, plain, reordered).has_value() ? 1 : 0;
    Interpreter i(p.function, {.bounds = true});
    const Memory m(p);
    i.run(m.slots(), p.grid);
    for (std::size_t k = 0; k < p.arguments.size(); ++k) {
      if (!p.arguments[k].is_output) continue;
      const auto bytes = static_cast<std::size_t>(dtype_bytes(p.function.params[k].value->type.elem));
      for (std::size_t at = m.base(k) % bytes; at + bytes <= m.buffer(k).size(); at += bytes) {
        const double bound = i.bound_at(m.buffer(k).data() + at);
        ++(bound == 0 ? exact : bound < HUGE_VAL ? bounded : anything);
      }
    }
  }
  CHECK(differs > 10);
  CHECK(bounded > 100);
  CHECK(exact > 20 * anything);
}
