// prove_inside: what it proves holds for every extent, and the common loops are proven.
// Stands beside jit/passes/prove_inside.cpp; the interpreter refuses a false claim.
#include <doctest/doctest.h>

#include <vector>

#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/interpret.h"
#include "tileweave/jit/ir/rewrite.h"
#include "tileweave/jit/passes/passes.h"

using namespace tileweave;
using namespace tileweave::ir;

namespace {

enum class Last { extent, extent_minus, whole_blocks, quotient, minimum, guarded };
constexpr Last lasts[] = {Last::extent,   Last::extent_minus, Last::whole_blocks,
                          Last::quotient, Last::minimum,      Last::guarded};

struct Loop {
  Last last;
  std::int64_t lo, step, shift, block;
};

// for i in range(lo, last, step): load block at i + shift (times step for a quotient), under a guard where asked.
Function make(const Loop& l) {
  Function f("loop");
  Value* x = f.add_param(Type::view(Dtype::f32, 1, true), "x");
  Value* y = f.add_param(Type::view(Dtype::f32, 1, false), "y");
  Builder b(f);
  Value* n = b.extent(x, 0);
  Value* c = b.index(l.step);
  Value* hi = n;
  if (l.last == Last::extent_minus) hi = b.elementwise(OpId::sub, {n, b.index(l.block - 1)});
  if (l.last == Last::whole_blocks) hi = b.elementwise(OpId::mul, {b.elementwise(OpId::div, {n, c}), c});
  if (l.last == Last::quotient) hi = b.elementwise(OpId::div, {n, c});
  if (l.last == Last::minimum) hi = b.elementwise(OpId::minimum, {n, b.index(5)});
  Value* i = b.begin_for(b.index(l.lo), hi, b.index(l.last == Last::quotient ? 1 : l.step));
  Value* at = l.last == Last::quotient ? b.elementwise(OpId::mul, {i, c}) : i;
  at = b.elementwise(OpId::add, {at, b.index(l.shift)});
  const bool guarded = l.last == Last::guarded;
  if (guarded) b.begin_if(b.elementwise(OpId::lt, {at, b.elementwise(OpId::sub, {n, b.index(l.block - 1)})}));
  Value* const offsets[] = {at};
  const Extents block{l.block};
  Value* v = b.load(x, offsets, block, b.inside(x, offsets, block), 0);
  b.store(y, offsets, v, nullptr);
  if (guarded) b.end_if();
  b.end_for();
  passes::promote_vars(f);
  passes::canonicalize(f);
  passes::prove_inside(f);
  verify(f, Stage::promoted);
  return f;
}

bool is_proven(const Function& f) {
  bool proven = false;
  for_each_op(f.body(), [&](const Op& op) {
    if (op.id == OpId::load) proven = op.attrs.get_int(AttrKey::inbounds) != 0;
  });
  return proven;
}

}  // namespace

TEST_CASE("the common loops are proven inside") {
  CHECK(is_proven(make({Last::extent, 0, 1, 0, 1})));
  CHECK(is_proven(make({Last::extent_minus, 0, 8, 0, 8})));
  CHECK(is_proven(make({Last::extent_minus, 0, 1, 0, 8})));
  CHECK(is_proven(make({Last::whole_blocks, 0, 8, 0, 8})));
  CHECK(is_proven(make({Last::whole_blocks, 16, 8, 0, 8})));
  CHECK(is_proven(make({Last::quotient, 0, 8, 0, 8})));
  CHECK(is_proven(make({Last::minimum, 0, 1, 0, 1})));
  CHECK(is_proven(make({Last::guarded, 0, 8, 0, 8})));
  CHECK_FALSE(is_proven(make({Last::extent, 0, 8, 0, 8})));
  CHECK_FALSE(is_proven(make({Last::extent, -1, 1, 0, 1})));
  CHECK_FALSE(is_proven(make({Last::extent, 0, 1, 1, 1})));
  CHECK_FALSE(is_proven(make({Last::whole_blocks, 4, 8, 0, 8})));
}

TEST_CASE("whatever is proven holds for every extent") {
  int proven = 0;
  std::vector<float> x(64), y(64);
  for (const Last last : lasts) {
    for (const std::int64_t lo : {-2, 0, 1, 2, 3, 4}) {
      for (const std::int64_t step : {1, 2, 3, 4}) {
        for (const std::int64_t shift : {-2, -1, 0, 1, 2}) {
          for (const std::int64_t block : {1, 2, 3, 4}) {
            const Function f = make({last, lo, step, shift, block});
            if (!is_proven(f)) continue;
            ++proven;
            for (std::uint64_t n = 0; n < 14; ++n) {
              const auto p = reinterpret_cast<std::uint64_t>(x.data()), q = reinterpret_cast<std::uint64_t>(y.data());
              const std::vector<std::uint64_t> slots{p, n, 1, q, 64, 1};
              CHECK_NOTHROW(Interpreter(f).run(slots, {1, 1, 1}));
            }
          }
        }
      }
    }
  }
  CHECK(proven > 200);
}

TEST_CASE("a guard that wraps proves nothing") {
  // at + 8 <= n holds for the largest index too, because the sum wraps.
  Function f("wrap");
  Value* x = f.add_param(Type::view(Dtype::f32, 1, true), "x");
  Value* y = f.add_param(Type::view(Dtype::f32, 1, false), "y");
  Value* at = f.add_param(Type::scalar(Dtype::i64), "at");
  Builder b(f);
  b.begin_if(b.elementwise(OpId::le, {b.elementwise(OpId::add, {at, b.index(8)}), b.extent(x, 0)}));
  Value* const offsets[] = {at};
  b.store(y, offsets, b.load(x, offsets, Extents{8}, nullptr, 0), nullptr);
  b.end_if();
  passes::canonicalize(f);
  passes::prove_inside(f);
  CHECK_FALSE(is_proven(f));
}
