// The interpreter: what tile IR means, on small kernels written as text.
// Stands beside jit/ir/interpret*.cpp; the values are those of the language reference and the cases from the field.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/interpret.h"

using namespace tileweave;
using namespace tileweave::ir;

namespace {

using Slots = std::vector<std::uint64_t>;

template <class T>
void add_view(Slots& s, T* base, std::vector<std::int64_t> extents, std::vector<std::int64_t> strides) {
  s.push_back(reinterpret_cast<std::uint64_t>(base));
  for (const auto e : extents) s.push_back(static_cast<std::uint64_t>(e));
  for (const auto e : strides) s.push_back(static_cast<std::uint64_t>(e));
}

void run(const std::string& text, const Slots& slots, Grid grid = {1, 1, 1}) {
  const Function f = parse(text);
  Interpreter(f).run(slots, grid);
}

constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// `combine` of the first `valid` of these values, the rest of an 8-lane block masked off.
float reduced(const std::string& op, std::vector<float> x, bool index = false) {
  float y = 0;
  std::int32_t at = 0;
  Slots s;
  add_view(s, x.data(), {static_cast<std::int64_t>(x.size())}, {1});
  if (index)
    add_view(s, &at, {}, {});
  else
    add_view(s, &y, {}, {});
  const std::string t = index ? "i32" : "f32";
  run("func \"r\"(%0: view<const f32, 1>, %1: view<" + t +
          ", 0>) {\n"
          "%2 = constant {value = 0} : i64\n"
          "%3 = load %0, %2 {extents = [8], pad = 0} : f32[8]\n"
          "%4 = inside %0, %2 {extents = [8]} : bool[8]\n"
          "%5 = " +
          op + " : " + t +
          "\n"
          "store %1, %5\n}\n",
      s);
  return index ? static_cast<float>(at) : y;
}
float reduce(const std::string& combine, const std::vector<float>& x) {
  return reduced("reduce %3, %4 {axis = 0, masked = 1, combine = " + combine + "}", x);
}
float arg(const std::string& combine, const std::vector<float>& x) {
  return reduced("arg_reduce %3, %4 {axis = 0, masked = 1, combine = " + combine + "}", x, true);
}

}  // namespace

TEST_CASE("blocks past the edge are padded on load and clipped on store, for any strides") {
  // A 3 x 5 view, columns reversed, of a pitched buffer with canaries.
  std::vector<float> in(3 * 7), out(3 * 5 + 2, -1.0f);
  std::iota(in.begin(), in.end(), 0.0f);
  Slots s;
  add_view(s, in.data() + 4, {3, 5}, {7, -1});
  add_view(s, out.data() + 1, {3, 5}, {5, 1});
  run("func \"copy\"(%0: view<const f32, 2>, %1: view<f32, 2>) {\n"
      "%2 = program_id {axis = 0} : i64\n"
      "%3 = program_id {axis = 1} : i64\n"
      "%4 = constant {value = 4} : i64\n"
      "%5 = mul %3, %4 : i64\n"
      "%6 = load %0, %2, %5 {extents = [1, 4], pad = 0} : f32[1,4]\n"
      "store %1, %2, %5, %6\n}\n",
      s, {4, 2, 1});
  CHECK(out.front() == -1.0f);
  CHECK(out.back() == -1.0f);
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < 5; ++c) CHECK(out[1 + r * 5 + c] == static_cast<float>(r * 7 + 4 - c));
  }
}

TEST_CASE("a pad of -99 stands in every lane outside") {
  std::vector<float> in(3, 1.0f), out(8);
  Slots s;
  add_view(s, in.data(), {3}, {1});
  add_view(s, out.data(), {8}, {1});
  run("func \"pad\"(%0: view<const f32, 1>, %1: view<f32, 1>) {\n"
      "%2 = constant {value = -2} : i64\n"
      "%3 = constant {value = 0} : i64\n"
      "%4 = load %0, %2 {extents = [8], pad = -99.0} : f32[8]\n"
      "store %1, %3, %4\n}\n",
      s);
  CHECK(out == std::vector<float>{-99, -99, 1, 1, 1, -99, -99, -99});
}

TEST_CASE("reductions skip lanes masked off") {
  const std::vector<float> fives(5, -5.0f);
  CHECK(reduce("max", fives) == -5);
  CHECK(reduce("sum", fives) == -25);
  CHECK(arg("max", fives) == 0);
  CHECK(arg("min", fives) == 0);
  CHECK(reduce("prod", {-1, -1, -1}) == -1);
  CHECK(reduce("sum", {}) == 0);
  CHECK(reduce("prod", {}) == 1);
  CHECK(reduce("max", {}) == -infinite);
  CHECK(reduce("min", {}) == infinite);
}

TEST_CASE("NaN and ties in max, fmax and argmax (cases 10 and 11)") {
  std::vector<float> x{not_a_number, 6, 8};
  std::sort(x.begin(), x.end(), [](float a, float b) { return std::isnan(a) || a < b; });
  for (int turn = 0; turn < 3; ++turn) {
    CHECK(std::isnan(reduce("max", x)));
    CHECK(std::isnan(reduce("min", x)));
    CHECK(reduce("fmax", x) == 8);
    CHECK(reduce("fmin", x) == 6);
    const auto at = std::find_if(x.begin(), x.end(), [](float v) { return std::isnan(v); }) - x.begin();
    CHECK(arg("max", x) == static_cast<float>(at));
    CHECK(arg("min", x) == static_cast<float>(at));
    std::rotate(x.begin(), x.begin() + 1, x.end());
  }
  CHECK(std::isnan(reduce("fmax", {not_a_number, not_a_number})));
  CHECK(arg("max", {not_a_number, not_a_number}) == 0);
  CHECK(arg("max", {1, 3, 3, 2}) == 1);
  CHECK(arg("max", {-0.0f, 0.0f}) == 0);
  CHECK(arg("max", {-infinite, -infinite}) == 0);
}

TEST_CASE("sums of f16 accumulate in f32 (case 19)") {
  std::vector<f16> x(4096, f16(1.0f));
  f16 y(0.0f);
  Slots s;
  add_view(s, x.data(), {4096}, {1});
  add_view(s, &y, {}, {});
  run("func \"s\"(%0: view<const f16, 1>, %1: view<f16, 0>) {\n"
      "%2 = constant {value = 0} : i64\n"
      "%3 = load %0, %2 {extents = [4096], pad = 0} : f16[4096]\n"
      "%4 = reduce %3 {axis = 0, combine = sum} : f16\n"
      "store %1, %4\n}\n",
      s);
  CHECK(static_cast<float>(y) == 4096);
}

TEST_CASE("dot: int8 in i32, f32 in full, tf32 where asked for (cases 5 and 14)") {
  std::vector<std::int8_t> a{-44, -20, -126, 6}, b{24, -75, 127, -101};
  std::vector<std::int32_t> c(4);
  Slots s;
  add_view(s, a.data(), {2, 2}, {2, 1});
  add_view(s, b.data(), {2, 2}, {2, 1});
  add_view(s, c.data(), {2, 2}, {2, 1});
  run("func \"d\"(%0: view<const i8, 2>, %1: view<const i8, 2>, %2: view<i32, 2>) {\n"
      "%3 = constant {value = 0} : i64\n"
      "%4 = load %0, %3, %3 {extents = [4, 4], pad = 0} : i8[4,4]\n"
      "%5 = load %1, %3, %3 {extents = [4, 4], pad = 0} : i8[4,4]\n"
      "%6 = constant {value = 0} : i32[4,4]\n"
      "%7 = dot %4, %5, %6 : i32[4,4]\n"
      "store %2, %3, %3, %7\n}\n",
      s);
  CHECK(c == std::vector<std::int32_t>{-3596, 5320, -2262, 8844});

  for (const bool tf32 : {false, true}) {
    float x = 1.00048828125f, y = 0;
    Slots t;
    add_view(t, &x, {1, 1}, {1, 1});
    add_view(t, &y, {1, 1}, {1, 1});
    run("func \"d\"(%0: view<const f32, 2>, %1: view<f32, 2>) {\n"
        "%2 = constant {value = 0} : i64\n"
        "%3 = load %0, %2, %2 {extents = [1, 1], pad = 0} : f32[1,1]\n"
        "%4 = constant {value = 1.0} : f32[1,1]\n"
        "%5 = constant {value = 0} : f32[1,1]\n"
        "%6 = dot %3, %4, %5" +
            std::string(tf32 ? " {precision = tf32}" : "") +
            " : f32[1,1]\n"
            "store %1, %2, %2, %6\n}\n",
        t);
    CHECK(y == (tf32 ? 1.0f : 1.00048828125f));
  }
}

TEST_CASE("offsets past 2^31 and past 2^63 are clipped, not wrapped") {
  std::vector<float> in(4, 1.0f);
  float out = 0;
  Slots s;
  add_view(s, in.data(), {4}, {1});
  add_view(s, &out, {1}, {1});
  s.push_back(0);
  for (const std::int64_t at : {std::int64_t{1} << 32, INT64_MAX, INT64_MIN, INT64_MAX - 1}) {
    s.back() = static_cast<std::uint64_t>(at);
    out = -1;
    run("func \"o\"(%0: view<const f32, 1>, %1: view<f32, 1>, %2: i64) {\n"
        "%3 = constant {value = 0} : i64\n"
        "%4 = load %0, %2 {extents = [4], pad = 0} : f32[4]\n"
        "%5 = reduce %4 {axis = 0, combine = sum} : f32\n"
        "%6 = broadcast %5 {extents = [1]} : f32[1]\n"
        "store %1, %3, %6\n}\n",
        s);
    CHECK(out == 0);
  }
}

TEST_CASE("loops: trips, negative steps, a zero step, and no wrap of the index") {
  const auto trips = [](std::int64_t lo, std::int64_t hi, std::int64_t step) {
    std::int64_t count = -1;
    Slots s;
    add_view(s, &count, {}, {});
    for (const auto v : {lo, hi, step}) s.push_back(static_cast<std::uint64_t>(v));
    run("func \"l\"(%0: view<i64, 0>, %1: i64, %2: i64, %3: i64) {\n"
        "%4 = constant {value = 0} : i64\n"
        "%5 = constant {value = 1} : i64\n"
        "%6 = var %4 : i64\n"
        "for %1, %2, %3 do {\n(%7: i64)\n"
        "%8 = var_get %6 : i64\n"
        "%9 = add %8, %5 : i64\n"
        "var_set %6, %9\n"
        "yield\n}\n"
        "%10 = var_get %6 : i64\n"
        "store %0, %10\n}\n",
        s);
    return count;
  };
  CHECK(trips(0, 10, 3) == 4);
  CHECK(trips(10, 0, -3) == 4);
  CHECK(trips(0, 0, 1) == 0);
  CHECK(trips(5, 3, 1) == 0);
  CHECK(trips(0, 10, 0) == 0);
  CHECK(trips(INT64_MAX - 1, INT64_MAX, 5) == 1);
  CHECK(trips(INT64_MIN, INT64_MAX, INT64_MAX) == 3);
  CHECK(trips(INT64_MAX, INT64_MIN, INT64_MIN) == 2);
}

TEST_CASE("while carries what its condition region hands on") {
  std::int64_t out = 0;
  Slots s;
  add_view(s, &out, {}, {});
  run("func \"w\"(%0: view<i64, 0>) {\n"
      "%1 = constant {value = 1} : i64\n"
      "%2 = constant {value = 100} : i64\n"
      "%3 = while %1 : i64 do {\n(%4: i64)\n"
      "%5 = add %4, %4 : i64\n"
      "%6 = lt %5, %2 : bool\n"
      "condition %6, %5\n} do {\n(%7: i64)\n"
      "%8 = add %7, %1 : i64\n"
      "yield %8\n}\n"
      "store %0, %3\n}\n",
      s);
  CHECK(out == 126);  // 1, 2|3, 6|7, 14|15, 30|31, 62|63, 126: what the last condition saw
}

TEST_CASE("pointers: a gather with unsigned narrow indices (case 4), checked against the views") {
  std::vector<float> source(256), out(256);
  std::iota(source.begin(), source.end(), 0.0f);
  std::vector<std::uint8_t> index(256);
  std::iota(index.begin(), index.end(), std::uint8_t{0});
  Slots s;
  add_view(s, source.data(), {256}, {1});
  add_view(s, index.data(), {256}, {1});
  add_view(s, out.data(), {256}, {1});
  const std::string text =
      "func \"g\"(%0: view<const f32, 1>, %1: view<const u8, 1>, %2: view<f32, 1>) {\n"
      "%3 = constant {value = 0} : i64\n"
      "%4 = load %1, %3 {extents = [256], pad = 0} : u8[256]\n"
      "%5 = view_base %0 : ptr<const f32>\n"
      "%6 = broadcast %5 {extents = [256]} : ptr<const f32>[256]\n"
      "%7 = ptr_add %6, %4 : ptr<const f32>[256]\n"
      "%8 = load_ptr %7 {pad = 0} : f32[256]\n"
      "store %2, %3, %8\n}\n";
  const Function f = parse(text);
  Interpreter checked(f, {.checked = true});
  checked.run(s, {1, 1, 1});
  CHECK(out == source);
  s[1] = 200;  // the source is said to be shorter: index 200 and up lie outside
  CHECK_THROWS_AS(checked.run(s, {1, 1, 1}), LaunchError);
}

TEST_CASE("checked runs count what the view's extents clipped; a false claim is refused") {
  std::vector<float> x(3);
  Slots s;
  add_view(s, x.data(), {3}, {1});
  const std::string head = "func \"c\"(%0: view<f32, 1>) {\n%1 = constant {value = 0} : i64\n";
  const Function f = parse(head + "%2 = load %0, %1 {extents = [8], pad = 0} : f32[8]\nstore %0, %1, %2\n}\n");
  Interpreter i(f, {.checked = true});
  i.run(s, {2, 1, 1});
  REQUIRE(i.clipped().size() == 2);
  CHECK(i.clipped()[0].lanes == 10);
  const Function g = parse(head + "%2 = load %0, %1 {extents = [8], pad = 0, inbounds = 1} : f32[8]\n}\n");
  CHECK_THROWS_AS(Interpreter(g).run(s, {1, 1, 1}), InternalError);
}

TEST_CASE("bounds: a sum may move, what does not hang on it may not") {
  std::vector<float> x{1e8f, 1.0f, -1e8f, 0.5f}, y(3);
  Slots s;
  add_view(s, x.data(), {4}, {1});
  add_view(s, y.data(), {3}, {1});
  const Function f = parse(
      "func \"b\"(%0: view<const f32, 1>, %1: view<f32, 1>) {\n"
      "%2 = constant {value = 0} : i64\n%3 = constant {value = 1} : i64\n%4 = constant {value = 2} : i64\n"
      "%5 = load %0, %2 {extents = [4], pad = 0} : f32[4]\n"
      "%6 = reduce %5 {axis = 0, combine = sum} : f32\n"
      "%7 = reduce %5 {axis = 0, combine = max} : f32\n"
      "%8 = constant {value = 1000.0} : f32\n"
      "%9 = lt %6, %8 : bool\n"
      "%10 = where %9, %8, %6 : f32\n"
      "%11 = broadcast %6 {extents = [1]} : f32[1]\n"
      "%12 = broadcast %7 {extents = [1]} : f32[1]\n"
      "%13 = broadcast %10 {extents = [1]} : f32[1]\n"
      "store %1, %2, %11\nstore %1, %3, %12\nstore %1, %4, %13\n}\n");
  Interpreter i(f, {.bounds = true});
  i.run(s, {1, 1, 1});
  CHECK_FALSE(i.is_undetermined());
  CHECK(i.bound_at(&y[0]) > 1.5);
  CHECK(i.bound_at(&y[0]) < 200);
  CHECK(i.bound_at(&y[1]) == 0);
  CHECK(i.bound_at(&y[2]) == 0);
}
