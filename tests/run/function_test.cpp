// tw::function: called from straight code, branches and loops, nested, with several results, on partial blocks; and
// what is refused. Run on the device that TILEWEAVE_DEVICE names; every result has a reference on the host.
#include <doctest/doctest.h>

#include <string>

#include "reference.h"

namespace {

using In = tw::View<const float, 2>;
using Out = tw::View<float, 2>;
using Rows = tw::Tile<float, 2>;

const auto normalized = tw::function("normalized", [](Rows x, tw::Scalar<float> eps) {
  auto mean = tw::sum(x, 1, tw::keep_dims) / tw::sum(tw::full_like(x, 1.0f), 1, tw::keep_dims);
  auto d = x - mean;
  auto variance = tw::sum(d * d, 1, tw::keep_dims);
  return d / tw::sqrt(variance + eps);
});

const auto twice = tw::kernel("twice", [](In x, Out y, tw::Const<int> rows, tw::Const<int> cols) {
  auto row = tw::program_id(0) * rows;
  auto v = tw::load(x, {row, 0}, {rows, cols});
  tw::store(y, {row, 0}, normalized(normalized(v, 0.25f) + 1.0f, 1));
});

std::vector<double> normalized_rows(std::vector<double> x, std::size_t cols, double eps) {
  for (std::size_t r = 0; r < x.size() / cols; ++r) {
    double sum = 0, squares = 0;
    for (std::size_t c = 0; c < cols; ++c) sum += x[r * cols + c];
    for (std::size_t c = 0; c < cols; ++c) {
      double& v = x[r * cols + c];
      v -= sum / static_cast<double>(cols);
      squares += v * v;
    }
    for (std::size_t c = 0; c < cols; ++c) x[r * cols + c] /= std::sqrt(squares + eps);
  }
  return x;
}

const auto extremes = tw::function("extremes", [](Rows x) {
  return std::tuple(tw::min(x, 1, tw::keep_dims), tw::max(x, 1, tw::keep_dims), x * 2.0f);
});
const auto spread = tw::kernel("spread", [](In x, Out y, tw::Const<int> rows, tw::Const<int> cols) {
  auto row = tw::program_id(0) * rows;
  auto [low, high, doubled] = extremes(tw::load(x, {row, 0}, {rows, cols}));
  tw::store(y, {row, 0}, doubled - (high - low));
});

// Validity crosses the call both ways: the rows and columns past the edge are in no sum.
const auto row_sums = tw::function("row_sums", [](Rows x) { return tw::sum(x, 1); });
const auto shifted = tw::function("shifted", [](Rows x) { return x + 1.0f; });
const auto total = tw::kernel("total", [](In x, tw::View<float, 1> y, tw::Const<int> rows, tw::Const<int> cols) {
  auto v = tw::load(x, {0, 0}, {rows, cols});
  tw::store(y, {0}, tw::reshape(tw::min(row_sums(shifted(v)), 0), {1}));
  tw::store(y, {1}, tw::reshape(tw::min(tw::sum(v + 1.0f, 1), 0), {1}));
});

const auto half = tw::function("half", [](tw::Scalar<int> n) { return tw::floor_div(n, 2); });
const auto collatz = tw::function("collatz", [](tw::Scalar<int> n, tw::Const<bool> shortened) {
  tw::Var next = n;
  tw::if_(n % 2 == 0, [&] { next = half(n); }).else_([&] {
    next = 3 * n + 1;
    if (shortened) next = half(next);
  });
  return tw::Scalar<int>(next);
});
const auto steps = tw::kernel("steps", [](tw::View<const int, 1> x, tw::View<int, 2> y) {
  auto p = tw::program_id(0);
  for (const bool shortened : {false, true}) {
    tw::Var n = tw::sum(tw::load(x, {p}, {1}), 0);
    tw::Var count = tw::full<int>(0);
    tw::while_([&] { return n > 1; },
               [&] {
                 n = collatz(n, shortened);
                 count += 1;
               });
    tw::store(y, {p, int(shortened)}, tw::reshape(count, {1, 1}));
  }
});

// A function over memory: it loads, stores and gives nothing.
const auto add_row = tw::function("add_row", [](In x, Out y, tw::Scalar<tw::index_t> row, tw::Const<int> cols) {
  tw::store(y, {row, 0}, tw::load(y, {row, 0}, {1, cols}) + tw::load(x, {row, 0}, {1, cols}));
});
const auto add_rows = tw::kernel("add_rows", [](In x, Out y, tw::Const<int> cols) {
  for (auto r : tw::range(x.extent(0))) add_row(x, y, r, cols);
});

const auto follow =
    tw::function("follow", [](tw::PtrTile<const float, 1> p) { return tw::load(p, {.pad = 0}) * 2.0f; });
const auto gathered = tw::kernel("gathered", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Const<int> n) {
  tw::store(y, {0}, follow(x.ptr() + (n - 1 - tw::arange(n))));
});

struct Odd {
  tw::Scalar<int> operator()(tw::Scalar<int> n) const;
};
struct Even {
  tw::Scalar<int> operator()(tw::Scalar<int> n) const;
};
constexpr int odd_line = __LINE__ + 1;
const auto odd = tw::function("odd", Odd{});
const auto even = tw::function("even", Even{});
tw::Scalar<int> Odd::operator()(tw::Scalar<int> n) const { return even(n - 1); }
constexpr int even_line = __LINE__ + 1;
tw::Scalar<int> Even::operator()(tw::Scalar<int> n) const { return odd(n - 1); }
const auto recurring =
    tw::kernel("recurring", [](tw::View<int, 1> y) { tw::store(y, {0}, tw::reshape(odd(tw::full<int>(7)), {1})); });

const auto wrong_inside = tw::function("wrong_inside", [](Rows x) { return x + tw::full<float>(1.0f, 3, 3); });
const auto calls_wrong =
    tw::kernel("calls_wrong", [](In x, Out y) { tw::store(y, {0, 0}, wrong_inside(tw::load(x, {0, 0}, {1, 8}))); });

const auto demanding = tw::function("demanding", [](In x) { tw::requires_(x.extent(0) == 1); });
const auto calls_demanding = tw::kernel("calls_demanding", [](In x) { demanding(x); });

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const tw::RecordError& e) {
    return e.what();
  }
  return "";
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a function is recorded once and gives what its body would") {
  const auto values = counting(5 * 7);
  const auto x = tensor<float>({5, 7}, values);
  const auto y = tw::Tensor<float>::zeros(device(), {5, 7});
  twice.launch(device().stream(), {3}, x, y, 2, 8);
  auto expected = normalized_rows(values, 7, 0.25);
  for (double& v : expected) v += 1;
  // A few sums of 7 f32 terms of size 1, each within 2^-24 of its size.
  CHECK(error(doubles(y), normalized_rows(expected, 7, 1)) < 32 * 0x1p-24);
  const std::string text = twice.record_text(x, y, 2, 8);
  CHECK(count_of(text, "func \"normalized\"") == 1);
  CHECK(count_of(text, "call ") == 2);
  CHECK(text.find("func \"normalized.2\"") == std::string::npos);
}

TEST_CASE("a function gives several results") {
  const auto values = counting(5 * 7);
  const auto y = tw::Tensor<float>::zeros(device(), {5, 7});
  spread.launch(device().stream(), {3}, tensor<float>({5, 7}, values), y, 2, 8);
  std::vector<double> expected;
  for (const double v : values) expected.push_back(2 * v - 6);
  CHECK(doubles(y) == expected);
}

TEST_CASE("lanes past an edge stay out of sums on both sides of a call") {
  const auto y = tw::Tensor<float>::zeros(device(), {2});
  total.launch(device().stream(), {1}, tensor<float>({3, 5}, counting(15)), y, 4, 8);
  CHECK(doubles(y) == std::vector<double>{15, 15});
}

TEST_CASE("functions are called from loops and branches, and call functions") {
  const std::vector<double> start = {1, 6, 7, 27};
  const auto x = tensor<int>({4}, start);
  const auto y = tw::Tensor<int>::zeros(device(), {4, 2});
  steps.launch(device().stream(), {4}, x, y);
  std::vector<double> expected;
  for (const double s : start) {
    for (const bool shortened : {false, true}) {
      int count = 0;
      for (auto n = static_cast<int>(s); n > 1; ++count) {
        const bool is_odd = n % 2 != 0;
        n = is_odd ? 3 * n + 1 : n / 2;
        if (is_odd && shortened) n /= 2;
      }
      expected.push_back(count);
    }
  }
  CHECK(doubles(y) == expected);
  const std::string text = steps.record_text(x, y);
  // Two constants, two instances; what both call is there once.
  CHECK(count_of(text, "func \"collatz") == 2);
  CHECK(count_of(text, "func \"half\"") == 1);
}

TEST_CASE("a function over views and pointers") {
  const auto y = tensor<float>({3, 5}, counting(15));
  add_rows.launch(device().stream(), {1}, tensor<float>({3, 5}, counting(15)), y, 8);
  std::vector<double> expected;
  for (const double v : counting(15)) expected.push_back(2 * v);
  CHECK(doubles(y) == expected);
  const auto z = tw::Tensor<float>::zeros(device(), {6});
  gathered.launch(device().stream(), {1}, tensor<float>({6}, counting(6)), z, 6);
  CHECK(doubles(z) == std::vector<double>{10, 8, 6, 4, 2, 0});
}

TEST_CASE("a function that calls itself is refused with the cycle and its places") {
  const auto y = tw::Tensor<int>::zeros(device(), {1});
  const std::string m = message_of([&] { recurring.launch(device().stream(), {1}, y); });
  CHECK(m.find("function 'odd' calls itself: odd -> even -> odd") != std::string::npos);
  CHECK(m.find("function_test.cpp:" + std::to_string(even_line)) != std::string::npos);
  CHECK(m.find("function_test.cpp:" + std::to_string(odd_line) + ": note: function 'odd' is made here") !=
        std::string::npos);
  CHECK(m.find("help: a function of a kernel is recorded once and cannot recur: use tw::while_ or tw::range") !=
        std::string::npos);
}

TEST_CASE("a mistake in a function names its line and the call's") {
  const auto x = tw::Tensor<float>::zeros(device(), {8, 8});
  const std::string m = message_of([&] { calls_wrong.launch(device().stream(), {1}, x, x); });
  CHECK(m.find("extents differ: lhs f32[1,8], rhs f32[3,3]") != std::string::npos);
  CHECK(m.find("note: function 'wrong_inside' is called here") != std::string::npos);
  CHECK(m.find("kernel 'calls_wrong'") != std::string::npos);
  const std::string r = message_of([&] { calls_demanding.launch(device().stream(), {1}, x); });
  CHECK(r.find("requires_: in function 'demanding'") != std::string::npos);
}
