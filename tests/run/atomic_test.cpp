// Atomics: every operation and element type against counts that come out the same in any order.
// Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

#include "reference.h"

namespace {

template <class T>
inline const auto histogram =
    tw::kernel("histogram", [](tw::View<const int, 1> bins, tw::View<T, 1> counts, tw::Const<int> block) {
      auto at = tw::program_id(0) * block;
      auto bin = tw::load(bins, {at}, {block});
      tw::atomic_add(counts.ptr() + bin, static_cast<T>(1));
    });

template <class T>
inline const auto extremes = tw::kernel(
    "extremes", [](tw::View<const T, 1> x, tw::View<T, 1> least, tw::View<T, 1> greatest, tw::Const<int> block) {
      auto v = tw::load(x, {tw::program_id(0) * block}, {block});
      auto zero = tw::zeros<int>(block);
      tw::atomic_min(least.ptr() + zero, v);
      tw::atomic_max(greatest.ptr() + zero, v, {.order = tw::MemoryOrder::acq_rel});
    });

template <class T>
inline const auto bitwise = tw::kernel("bitwise", [](tw::View<const T, 1> x, tw::View<T, 1> y, tw::Const<int> block) {
  auto v = tw::load(x, {tw::program_id(0) * block}, {block});
  auto zero = tw::zeros<int>(block);
  tw::atomic_and(y.ptr() + zero, v);
  tw::atomic_or(y.ptr() + (zero + 1), v);
  tw::atomic_xor(y.ptr() + (zero + 2), v, {.scope = tw::MemoryScope::system});
});

// Every lane takes a ticket; the tickets are 0 .. n - 1, each once.
const auto tickets = tw::kernel("tickets", [](tw::View<int, 1> next, tw::View<int, 1> taken, tw::Const<int> block) {
  auto at = tw::program_id(0) * block;
  auto ticket = tw::atomic_add(next.ptr() + tw::zeros<int>(block), 1);
  tw::store(taken, {at}, ticket);
});

// One ticket a program: a scalar, which all threads of a block see.
const auto program_tickets = tw::kernel(
    "program_tickets", [](tw::Ptr<std::int64_t> next, tw::View<std::int64_t, 2> taken, tw::Const<int> block) {
      auto ticket = tw::atomic_add(next, 1);
      tw::store(taken, {tw::program_id(0), 0}, tw::full<std::int64_t>(ticket, 1, block));
    });

template <class T>
inline const auto chain = tw::kernel("chain", [](tw::View<T, 1> y, tw::View<T, 1> old) {
  tw::store(old, {0}, tw::reshape(tw::atomic_xchg(y, {0}, tw::full<T>(static_cast<T>(3), 1)), {1}));
  tw::store(old, {1}, tw::atomic_cas(y, {0}, static_cast<T>(2), tw::full<T>(static_cast<T>(9), 1)));
  tw::store(old, {2}, tw::atomic_cas(y, {0}, static_cast<T>(3), tw::full<T>(static_cast<T>(5), 1)));
  tw::store(old, {3}, tw::atomic_add(y, {0}, tw::full<T>(static_cast<T>(1), 1)));
});

// A block that hangs over the edge, with a mask of its own.
const auto edge = tw::kernel("edge", [](tw::View<float, 2> y) {
  auto ones = tw::full<float>(1.0f, 4, 8);
  auto even = tw::expand(tw::arange(8), 0) % 2 == 0;
  tw::atomic_add(y, {-1, 2}, ones, {.mask = even});
});

std::vector<double> bins_of(int n, int count) {
  std::vector<double> v(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) v[static_cast<std::size_t>(i)] = (i * 7 + i / 5) % count;
  return v;
}

template <class T>
void check_histogram() {
  CAPTURE(tw::dtype_name(tw::dtype_of<T>));
  constexpr int n = 300, count = 7;
  const auto bins = bins_of(n, count);
  std::vector<double> expected(count, 0);
  for (const double b : bins) ++expected[static_cast<std::size_t>(b)];
  const auto counts = tensor<T>({count}, std::vector<double>(count, 0));
  histogram<T>.launch(device().stream(), {tw::cdiv(n, 64)}, tensor<int>({n}, bins), counts, 64);
  CHECK(doubles(counts) == expected);
}

template <class T>
void check_extremes(const std::vector<double>& values, double least, double greatest) {
  CAPTURE(tw::dtype_name(tw::dtype_of<T>));
  const auto n = static_cast<int>(values.size());
  const auto low = tensor<T>({1}, {5}), high = tensor<T>({1}, {5});
  extremes<T>.launch(device().stream(), {tw::cdiv(n, 16)}, tensor<T>({n}, values), low, high, 16);
  CHECK(error(doubles(low), {least}) == 0);
  CHECK(error(doubles(high), {greatest}) == 0);
}

template <class T>
void check_bitwise() {
  CAPTURE(tw::dtype_name(tw::dtype_of<T>));
  std::vector<double> values;
  T all = static_cast<T>(~T{0}), any = 0, odd = 0;
  for (int i = 0; i < 50; ++i) {
    const T v = static_cast<T>(0x60 | (i * 3 & 0x1f));
    values.push_back(static_cast<double>(v));
    all = static_cast<T>(all & v);
    any = static_cast<T>(any | v);
    odd = static_cast<T>(odd ^ v);
  }
  const auto y = tw::Tensor<T>::from_host(device(), {3}, std::vector<T>{static_cast<T>(~T{0}), 0, 0});
  bitwise<T>.launch(device().stream(), {4}, tensor<T>({50}, values), y, 16);
  CHECK(y.to_host() == std::vector<T>{all, any, odd});
}

template <class T>
void check_chain() {
  CAPTURE(tw::dtype_name(tw::dtype_of<T>));
  const auto y = tensor<T>({1}, {2}), old = tensor<T>({4}, {0, 0, 0, 0});
  chain<T>.launch(device().stream(), {1}, y, old);
  CHECK(doubles(old) == std::vector<double>{2, 3, 3, 5});
  CHECK(doubles(y) == std::vector<double>{6});
}

}  // namespace

TEST_CASE("atomic_add counts in every type that counts to 50") {
  check_histogram<double>();
  check_histogram<float>();
  check_histogram<tw::f16>();
  check_histogram<tw::bf16>();
  check_histogram<std::int8_t>();
  check_histogram<std::int16_t>();
  check_histogram<std::int32_t>();
  check_histogram<std::int64_t>();
  check_histogram<std::uint8_t>();
  check_histogram<std::uint16_t>();
  check_histogram<std::uint32_t>();
  check_histogram<std::uint64_t>();
}

TEST_CASE("atomic_min and atomic_max; a NaN wins, the smallest zero is -0") {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) values.push_back((i * 29) % 101 - 50);
  const auto [least, greatest] = std::ranges::minmax(values);
  check_extremes<double>(values, least, greatest);
  check_extremes<float>(values, least, greatest);
  check_extremes<tw::f16>(values, least, greatest);
  check_extremes<tw::bf16>(values, least, greatest);
  check_extremes<std::int8_t>(values, least, greatest);
  check_extremes<std::int32_t>(values, least, greatest);
  check_extremes<std::int64_t>(values, least, greatest);
  for (double& v : values) v += 60;
  check_extremes<std::uint16_t>(values, 5, greatest + 60);
  check_extremes<std::uint32_t>(values, 5, greatest + 60);
  check_extremes<std::uint64_t>(values, 5, greatest + 60);
  values[17] = NAN;
  check_extremes<float>(values, NAN, NAN);
  check_extremes<tw::f16>(values, NAN, NAN);
  const auto low = tensor<float>({1}, {0}), high = tensor<float>({1}, {-1});
  extremes<float>.launch(device().stream(), {1}, tensor<float>({2}, {0.0, -0.0}), low, high, 2);
  CHECK(std::signbit(doubles(low)[0]));
  CHECK(!std::signbit(doubles(high)[0]));
}

TEST_CASE("atomic_and, atomic_or and atomic_xor") {
  check_bitwise<std::uint8_t>();
  check_bitwise<std::int16_t>();
  check_bitwise<std::int32_t>();
  check_bitwise<std::uint64_t>();
}

TEST_CASE("tickets are given once each, to lanes and to programs") {
  constexpr int n = 256;
  const auto next = tensor<int>({1}, {0}), taken = tensor<int>({n}, std::vector<double>(n, -1));
  tickets.launch(device().stream(), {n / 32}, next, taken, 32);
  auto got = doubles(taken);
  std::ranges::sort(got);
  CHECK(got == counting(n));

  const auto first = tensor<std::int64_t>({1}, {0});
  const auto rows = tensor<std::int64_t>({20, 64}, std::vector<double>(20 * 64, -1));
  program_tickets.launch(device().stream(), {20}, first, rows, 64);
  const auto all = doubles(rows);
  std::vector<double> firsts;
  for (std::size_t r = 0; r < 20; ++r) {
    CHECK(std::all_of(all.begin() + static_cast<std::ptrdiff_t>(64 * r),
                      all.begin() + static_cast<std::ptrdiff_t>(64 * r + 64),
                      [&](double v) { return v == all[64 * r]; }));
    firsts.push_back(all[64 * r]);
  }
  std::ranges::sort(firsts);
  CHECK(firsts == counting(20));
}

TEST_CASE("exchange and compare-and-exchange give the old value") {
  check_chain<float>();
  check_chain<double>();
  check_chain<tw::f16>();
  check_chain<tw::bf16>();
  check_chain<std::int8_t>();
  check_chain<std::uint16_t>();
  check_chain<std::int32_t>();
  check_chain<std::uint64_t>();
}

TEST_CASE("lanes outside the view and lanes masked off take no part") {
  const auto y = tensor<float>({4, 6}, std::vector<double>(24, 0));
  edge.launch(device().stream(), {1}, y);
  edge.launch(device().stream(), {3}, y);
  std::vector<double> expected(24, 0);
  for (int r = 0; r < 3; ++r) {
    for (int c = 2; c < 6; c += 2) expected[static_cast<std::size_t>(6 * r + c)] = 4;
  }
  CHECK(doubles(y) == expected);
}
