// What the language records, compared as IR text: validity, Vars, control flow, literals, casts.
// Nothing here is compiled or run.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tileweave/dsl/control.h"
#include "tileweave/dsl/dot.h"
#include "tileweave/dsl/fusion_group.h"
#include "tileweave/dsl/gradient.h"
#include "tileweave/dsl/grid.h"
#include "tileweave/dsl/launch.h"
#include "tileweave/dsl/reduce.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/function.h"

namespace tw = tileweave;

namespace {

using In = tw::View<const float, 2>;
using Out = tw::View<float, 2>;

// The ops that `body(x, y)` records, one a line, without the function's frame.
template <class T = float, class F>
std::string ops(F body) {
  const auto record = [&] {
    const tw::View<const T, 2> x(tw::launch::add_view(tw::dtype_of<T>, 2, true));
    const tw::View<T, 2> y(tw::launch::add_view(tw::dtype_of<T>, 2, false));
    body(x, y);
  };
  const std::string text = tw::launch::record_text("t", {}, tw::launch::Body(record));
  CHECK_NOTHROW(tw::ir::verify(tw::ir::parse(text), tw::ir::Stage::recorded));
  std::istringstream in(text);
  std::string line, out;
  std::getline(in, line);
  while (std::getline(in, line) && line != "}") out += line.substr(2) + "\n";
  return out;
}

int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a partial block: a load, its validity, and a store under it") {
  CHECK(ops([](In x, Out y) { tw::store(y, {0, 0}, tw::load(x, {0, 8}, {2, 4}) * 2); }) ==
        "%2 = constant {value = 0} : i64\n"
        "%3 = constant {value = 8} : i64\n"
        "%4 = load %0, %2, %3 {extents = [2, 4], pad = 0} : f32[2,4]\n"
        "%5 = inside %0, %2, %3 {extents = [2, 4]} : bool[2,4]\n"
        "%6 = constant {value = 1073741824} : f32\n"
        "%7 = constant {value = 1073741824} : f32[2,4]\n"
        "%8 = mul %4, %7 : f32[2,4]\n"
        "store %1, %2, %2, %8, %5 {masked = 1}\n");
}

TEST_CASE("a pad makes every lane valid; a mask adds to the edge") {
  const std::string padded =
      ops([](In x, Out y) { tw::store(y, {0, 0}, tw::load(x, {0, 0}, {2, 4}, {.pad = -tw::inf})); });
  CHECK(count(padded, "inside") == 0);
  CHECK(count(padded, "pad = 4286578688") == 1);
  CHECK(count(padded, "masked") == 0);
  const std::string masked = ops([](In x, Out y) {
    auto first = tw::load(x, {0, 0}, {2, 4}, {.pad = 0});
    tw::store(y, {0, 0}, tw::load(x, {0, 0}, {2, 4}, {.mask = first > 0}));
  });
  CHECK(count(masked, "bit_and") == 1);  // edge and mask
  CHECK(count(masked, "store %1, %2, %2, %7, %9 {masked = 1}") == 1);
}

TEST_CASE("two operands are valid where both are; one block's validity is not repeated") {
  const auto both = ops([](In x, Out y) {
    auto a = tw::load(x, {0, 0}, {2, 4}), b = tw::load(x, {2, 0}, {2, 4});
    tw::store(y, {0, 0}, a + b + a * b);
  });
  CHECK(count(both, "inside") == 2);
  CHECK(count(both, "bit_and") == 1);
  const auto one = ops([](In x, Out y) {
    auto a = tw::load(x, {0, 0}, {2, 4});
    tw::store(y, {0, 0}, a + a * 2 - tw::exp(a));
  });
  CHECK(count(one, "bit_and") == 0);
}

TEST_CASE("where is valid as the branch taken") {
  const auto text = ops([](In x, Out y) {
    auto a = tw::load(x, {0, 0}, {2, 4}, {.pad = 0});
    auto b = tw::load(x, {2, 0}, {2, 4});
    tw::store(y, {0, 0}, tw::where(a > 0, a, b));
  });
  // where(condition, all valid, b's validity)
  CHECK(count(text, "constant {value = 1} : bool[2,4]") == 1);
  CHECK(count(text, ": bool[2,4]\n") == 4);  // a > 0, inside, true, the selected validity
  CHECK(count(text, "= where") == 2);
}

TEST_CASE("a reduction skips invalid lanes; the edges of other axes stay known") {
  const auto row = ops([](In x, Out y) {
    auto v = tw::load(x, {0, 0}, {1, 8});
    tw::store(y, {0, 0}, v - tw::sum(v, 1, tw::keep_dims));
  });
  CHECK(count(row, "reduce %3, %4 {axis = 1, masked = 1, combine = sum}") == 1);
  CHECK(count(row, "bit_and") == 0);
  CHECK(count(row, "store %1, %2, %2, %8, %4 {masked = 1}") == 1);
  const auto rows = ops([](In x, Out y) {
    auto v = tw::load(x, {0, 0}, {4, 8});
    auto s = tw::sum(v, 1);
    tw::store(y, {0, 0}, tw::expand(tw::expand(tw::sum(s, 0), 0), 0));
  });
  // Rows past the edge stay invalid, so the second reduction is masked, too.
  CHECK(count(rows, "masked = 1, combine = sum") == 2);
  const auto kept = ops([](In x, Out y) {
    auto v = tw::load(x, {0, 0}, {4, 8});
    tw::store(y, {0, 0}, v / tw::sum(v, 1, tw::keep_dims));
  });
  // The block's validity implies its rows': one conjunction for the two sides of an edge, none for the division.
  CHECK(count(kept, "bit_and") == 1);
}

TEST_CASE("a row that the user masked off sums to a valid zero") {
  const auto text = ops([](In x, Out y) {
    auto m = tw::load(x, {0, 0}, {4, 8}, {.pad = 0}) > 0;
    auto v = tw::where(m, 1.0f, 2.0f) + tw::load(x, {0, 0}, {4, 8}, {.pad = 0, .mask = m});
    tw::store(y, {0, 0}, tw::expand(tw::sum(v, 1), 1));
  });
  CHECK(count(text, "masked = 1, combine") == 0);
}

TEST_CASE("dot counts invalid lanes as zero and takes the accumulator's validity") {
  const auto text = ops([](In x, Out y) {
    tw::Var acc = tw::zeros<float>(4, 4);
    for (auto k : tw::range(0, x.extent(1), 8)) {
      acc = tw::dot(tw::load(x, {0, k}, {4, 8}), tw::trans(tw::load(x, {4, k}, {4, 8})), acc);
    }
    tw::store(y, {0, 0}, acc);
  });
  CHECK(count(text, "= where") == 0);  // a load's invalid lanes are zero already
  CHECK(count(text, "store %1, ") == 1);
  CHECK(count(text, "masked = 1") == 0);
  const auto padded = ops([](In x, Out y) {
    auto a = tw::load(x, {0, 0}, {4, 4});
    tw::store(y, {0, 0}, tw::dot(a + 1, a, tw::zeros<float>(4, 4)));
  });
  CHECK(count(padded, "= where") == 1);  // a + 1 is not
  const auto reshaped = ops([](In x, Out y) {
    auto a = tw::reshape(tw::load(x, {0, 0}, {2, 8}), {4, 4});
    tw::store(y, {0, 0}, tw::dot(a, tw::trans(a), tw::zeros<float>(4, 4)));
  });
  CHECK(count(reshaped, "= where") == 0);  // zeros stay zeros in another shape
}

TEST_CASE("assigning to a Var keeps lanes that are invalid on the right") {
  const auto partial = ops([](In x, Out y) {
    tw::Var v = tw::zeros<float>(2, 4);
    v += tw::load(x, {0, 0}, {2, 4});
    tw::store(y, {0, 0}, v);
  });
  CHECK(count(partial, "= where") == 1);
  CHECK(count(partial, "masked = 1") == 0);  // the Var is valid everywhere, as its initialiser
  const auto own = ops([](In x, Out y) {
    tw::Var v = tw::load(x, {0, 0}, {2, 4});
    v = v * 2;
    tw::store(y, {0, 0}, v);
  });
  CHECK(count(own, "= where") == 0);  // invalid for ever: never seen
  CHECK(count(own, "masked = 1") == 1);
}

TEST_CASE("a Var in an expression is its value at that point") {
  const auto text = ops([](In x, Out y) {
    tw::Var v = tw::load(x, {0, 0}, {2, 4}, {.pad = 0});
    auto before = v + 1;
    v = 2;
    tw::store(y, {0, 0}, before);
  });
  const auto get = text.find("var_get"), set = text.find("var_set");
  CHECK(get < set);
  CHECK(count(text, "var_get") == 1);
}

TEST_CASE("loops, branches and while are recorded once, in order") {
  const auto text = ops([](In x, Out y) {
    tw::Var n = tw::Scalar<int>(tw::scalar<int>(0));
    for (auto i : tw::range(0, x.extent(0), 2)) {
      tw::if_(i > 3, [&] { n = n + 1; }).else_([&] { n = n - 1; });
      tw::if_(i > 5, [&] { n = n * 2; });
    }
    tw::while_([&] { return n > 0; }, [&] { n -= 1; });
    tw::store(y, {n, 0}, 1.0f);
  });
  CHECK(count(text, "for ") == 1);
  CHECK(count(text, "if ") == 2);
  CHECK(count(text, "while ") == 1);
  CHECK(count(text, "var_set") == 4);
}

TEST_CASE("literals take the tile's type, integers widen, casts cast") {
  const auto half = ops<tw::f16>([](tw::View<const tw::f16, 2> x, tw::View<tw::f16, 2> y) {
    tw::store(y, {0, 0}, tw::load(x, {0, 0}, {1, 4}, {.pad = 0}) * 0.5 + 1);
  });
  CHECK(count(half, "convert") == 0);
  CHECK(count(half, "constant {value = 14336} : f16[1,4]") == 1);
  const auto wide = ops([](In x, Out y) {
    auto narrow = tw::load(x, {0, 0}, {1, 4}, {.pad = 0}).to<std::int16_t>();
    auto sum = narrow + tw::load(x, {0, 0}, {1, 4}, {.pad = 0}).to<std::int64_t>();
    tw::store(y, {0, 0}, sum.to<float>());
  });
  CHECK(count(wide, ": i16[1,4]") == 1);
  CHECK(count(wide, "convert") == 4);  // to i16, to i64, i16 widened, back to f32
  CHECK(count(wide, "add %5, %4 : i64[1,4]") + count(wide, ": i64[1,4]\n") >= 3);
  const auto weak = ops([](In x, Out y) {
    auto a = tw::load(x, {0, 0}, {1, 4}, {.pad = 0});
    tw::store(y, {0, 0}, tw::where(a > 0, 1, 0) + a);
  });
  CHECK(count(weak, "i32") == 0);
  CHECK(count(weak, "convert") == 0);
}

TEST_CASE("an expression used several times is recorded once, however large") {
  const auto text = ops([](In x, Out y) {
    auto a = tw::load(x, {0, 0}, {1, 4}, {.pad = 0});
    auto b = tw::exp(a) + tw::tanh(a) * a;
    auto c = b * b + b;
    auto d = c * c + c;
    auto e = d * d + d;
    auto f = e * e + e;
    auto g = f * f + f;
    auto h = g * g + g;
    auto i = h * h + h;
    static_assert(sizeof(i) < 2000);
    tw::store(y, {0, 0}, i);
  });
  CHECK(count(text, "exp") == 1);
  CHECK(count(text, "mul") == 8);
  CHECK(count(text, "add") == 8);
}

TEST_CASE("ranks broadcast as in NumPy, scalars to anything") {
  const auto text = ops([](In x, Out y) {
    auto t = tw::load(x, {0, 0}, {2, 4}, {.pad = 0});
    auto row = tw::sum(t, 0);
    tw::store(y, {0, 0}, t + row + tw::sum(row, 0));
  });
  CHECK(count(text, "expand_dims") == 1);
  CHECK(count(text, "broadcast") == 2);
}

TEST_CASE("pointers: offsets broadcast, masks are explicit") {
  const auto text = ops([](In x, Out y) {
    auto at = tw::arange(8);
    auto v = tw::load(x.ptr() + at, {.mask = at < 5});
    tw::store(y.ptr() + at * 2, v);
  });
  CHECK(count(text, "load_ptr") == 1);
  CHECK(count(text, "store_ptr") == 1);
  CHECK(count(text, "masked = 1") == 2);  // the lanes not loaded are not stored
}

TEST_CASE("a derivative folds zeros and ones away") {
  const auto text = ops([](In x, Out y) {
    const auto square = tw::fusion_group("square", [](auto v) { return v * v + 3; });
    tw::store(y, {0, 0}, tw::grad(square)(tw::load(x, {0, 0}, {1, 4}, {.pad = 0})));
  });
  CHECK(count(text, "mul") == 0);
  CHECK(count(text, "add") == 1);  // v + v
  const auto constant = ops([](In x, Out y) {
    const auto twice = tw::fusion_group("twice", [](auto v) { return 2 * v; });
    tw::store(y, {0, 0}, tw::grad(twice)(tw::load(x, {0, 0}, {1, 4})));
  });
  CHECK(count(constant, "constant {value = 1073741824} : f32[1,4]") == 1);
  CHECK(count(constant, "masked = 1") == 1);  // valid where x is
}

TEST_CASE("two threads record at once") {
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&texts, i] {
      for (int k = 0; k < 20; ++k) {
        const auto record = [] {
          const In x(tw::launch::add_view(tw::Dtype::f32, 2, true));
          const Out y(tw::launch::add_view(tw::Dtype::f32, 2, false));
          for (auto j : tw::range(0, 4)) tw::store(y, {j, 0}, tw::load(x, {j, 0}, {1, 4}) + 1);
        };
        texts[i] = tw::launch::record_text("t", {}, tw::launch::Body(record));
      }
    });
  }
  for (auto& t : threads) t.join();
  for (const auto& t : texts) CHECK(t == texts[0]);
}
