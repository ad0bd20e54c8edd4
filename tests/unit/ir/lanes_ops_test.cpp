// slice, cat, flip, gather, sort, histogram, scan and fold in tile IR: types, text, folding, verification.
// What they mean is tested by the property and run tests against the interpreter.
#include <doctest/doctest.h>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/passes/passes.h"

using namespace tileweave;
using namespace tileweave::ir;

namespace {

// Loads a tile of these extents.
Value* input(Builder& b, Dtype t, const Extents& e) {
  Value* view = b.function().add_param(Type::view(t, static_cast<int>(e.size()), true), "");
  const std::vector<Value*> zeros(e.size(), b.index(0));
  return b.load(view, zeros, e, nullptr, 0);
}

void output(Builder& b, Value* v) {
  Value* view = b.function().add_param(Type::view(v->type.elem, v->type.rank, false), "");
  const std::vector<Value*> zeros(static_cast<std::size_t>(v->type.rank), b.index(0));
  b.store(view, zeros, v, nullptr);
}

template <class F>
std::string refused(F f) {
  try {
    f();
  } catch (const RecordError& e) {
    return e.diagnostic().message;
  }
  return "nothing thrown";
}

}  // namespace

TEST_CASE("types and text of the ops along lanes") {
  Function f("lanes");
  Builder b(f);
  Value* x = input(b, Dtype::f32, {4, 6});
  Value* i = input(b, Dtype::u8, {4, 3});
  CHECK(to_string(b.slice(x, Extents{1, 2}, Extents{2, 3})->type) == "f32[2,3]");
  CHECK(to_string(b.cat(x, x, 1)->type) == "f32[4,12]");
  CHECK(to_string(b.flip(x, 0)->type) == "f32[4,6]");
  CHECK(to_string(b.gather(x, i, 1)->type) == "f32[4,3]");
  CHECK(to_string(b.sort(x, 1, true, nullptr)->type) == "f32[4,6]");
  CHECK(to_string(b.argsort(x, 1, false, nullptr)->type) == "i32[4,6]");
  CHECK(to_string(b.histogram(b.reshape(i, Extents{12}), 5, nullptr)->type) == "i32[5]");
  Value* const values[] = {x, x};
  const Op* scan = b.begin_scan(values, 1, true, nullptr);
  const auto a = scan->regions[0]->args;
  REQUIRE(a.size() == 4);
  Value* const given[] = {b.elementwise(OpId::add, {a[0], a[2]}), b.elementwise(OpId::maximum, {a[1], a[3]})};
  b.end_combine(given);
  output(b, scan->results[1]);
  Value* const one[] = {x};
  const Op* fold = b.begin_fold(one, 0, nullptr);
  Value* const sum[] = {b.elementwise(OpId::add, {fold->regions[0]->args[0], fold->regions[0]->args[1]})};
  b.end_combine(sum);
  CHECK(to_string(fold->results[0]->type) == "f32[6]");
  output(b, fold->results[0]);
  verify(f, Stage::recorded);
  CHECK(to_text(parse(to_text(f))) == to_text(f));
  CHECK(to_text(f.clone()) == to_text(f));
  // The passes keep a scan whose second value alone is used.
  passes::canonicalize(f);
  verify(f, Stage::promoted);
  CHECK(to_text(f).find("scan") != std::string::npos);
  passes::expand_composed(f);
  verify(f, Stage::expanded);
}

TEST_CASE("what folds") {
  Function f("folds");
  Builder b(f);
  Value* x = input(b, Dtype::f32, {4, 6});
  Value* c = b.constant(Type::tile(Dtype::f32, {4, 6}), 2.0);
  CHECK(b.slice(x, Extents{0, 0}, Extents{4, 6}) == x);
  CHECK(constant_of(b.slice(c, Extents{0, 0}, Extents{2, 6})).has_value());
  CHECK(b.flip(c, 1) == c);
}

TEST_CASE("what is refused") {
  Function f("refusals");
  Builder b(f);
  Value* x = input(b, Dtype::f32, {4, 6});
  Value* i = input(b, Dtype::i32, {4, 3});
  Value* h = input(b, Dtype::f16, {4, 6});
  CHECK(refused([&] { b.slice(x, Extents{0, 4}, Extents{4, 3}); }) ==
        "slice: the block of extents {4, 3} at {0, 4} is not inside f32[4,6]");
  CHECK(refused([&] { b.slice(x, Extents{0, INT64_MAX}, Extents{4, 3}); }).starts_with("slice: the block"));
  CHECK(refused([&] { b.slice(x, Extents{0}, Extents{4}); }).starts_with("slice: needs a start and an extent"));
  CHECK(refused([&] { b.cat(x, h, 0); }) == "cat: element types differ: lhs f32[4,6], rhs f16[4,6]");
  CHECK(refused([&] { b.cat(x, b.slice(x, Extents{0, 0}, Extents{4, 3}), 0); }).starts_with("cat: extents differ"));
  CHECK(refused([&] { b.flip(x, 2); }) == "flip: there is no axis 2 of f32[4,6], which has 2 axes");
  CHECK(refused([&] { b.gather(x, x, 1); }) == "gather: the index is f32[4,6], it must be integers");
  CHECK(refused([&] { b.gather(x, i, 0); }).starts_with("gather: extents differ"));
  CHECK(refused([&] { b.sort(x, 1, false, i); }).starts_with("sort: the mask is i32[4,3]"));
  CHECK(refused([&] { b.histogram(x, 4, nullptr); }) == "histogram: takes integers of one axis, got f32[4,6]");
  Value* const different[] = {x, i};
  CHECK(refused([&] { b.begin_scan(different, 0, false, nullptr); }) == "scan: extents differ: f32[4,6], i32[4,3]");
  const std::vector<Value*> many(9, x);
  CHECK(refused([&] { b.begin_fold(many, 0, nullptr); }).starts_with("fold: takes 1 to 8 operands"));
}

TEST_CASE("text that a scan's rules refuse") {
  const auto text = [](const std::string& region) {
    return "func \"k\"(%0: view<const f32, 1>, %1: view<f32, 1>) {\n"
           "  %2 = constant {value = 0} : i64\n"
           "  %3 = load %0, %2 {extents = [8], pad = 0} : f32[8]\n"
           "  %4 = scan %3 {axis = 0} : f32[8] do {\n" +
           region +
           "  }\n"
           "  store %1, %2, %4\n}\n";
  };
  CHECK_NOTHROW(parse(text("  (%5: f32, %6: f32)\n    %7 = add %5, %6 : f32\n    yield %7\n")));
  CHECK_THROWS_AS(parse(text("  (%5: f32)\n    yield %5\n")), Error);               // one argument
  CHECK_THROWS_AS(parse(text("  (%5: f32, %6: f32)\n    yield %5, %6\n")), Error);  // two results
  CHECK_THROWS_AS(parse(text("  (%5: f32, %6: f32)\n    %7 = is_nan %5 : bool\n    yield %7\n")),
                  Error);  // another type
  CHECK_THROWS_AS(parse(text("  (%5: f32, %6: f32)\n    %7 = program_id {axis = 0} : i64\n    yield %5\n")), Error);
}
