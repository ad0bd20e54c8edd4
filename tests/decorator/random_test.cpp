// A thousand random C++ functions (generate.py): as compiled by the C++ compiler, by the host twin, and on the device,
// on adversarial inputs. Bits are equal; where a transcendental function comes last, it is within its stated error of
// libm's.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "on_device.h"
#include "random_table.h"

extern const Random random_1_functions[], random_2_functions[], random_3_functions[], random_4_functions[];
extern const int random_1_count, random_2_count, random_3_count, random_4_count;

namespace {

constexpr int lanes = 64, batch = 8;

template <class T>
T input(int i) {
  if constexpr (std::is_floating_point_v<T>) {
    using L = std::numeric_limits<T>;
    static const T values[] = {0,
                               -T(0),
                               1,
                               -1,
                               T(0.5),
                               T(-2.5),
                               T(3.7),
                               T(1e-3),
                               L::denorm_min(),
                               -L::min() / 4,
                               L::max(),
                               L::lowest(),
                               L::infinity(),
                               -L::infinity(),
                               L::quiet_NaN(),
                               T(16777216),
                               T(-123.456),
                               T(7),
                               T(1e20),
                               L::epsilon()};
    return values[i % 20];
  } else {
    static const T values[] = {0,
                               1,
                               2,
                               3,
                               7,
                               100,
                               255,
                               65536,
                               static_cast<T>(-1),
                               static_cast<T>(-37),
                               std::numeric_limits<T>::max(),
                               std::numeric_limits<T>::min(),
                               static_cast<T>(0x12345678),
                               static_cast<T>(-1000)};
    return values[i % 14];
  }
}

// The graphs of the launch in hand, chosen by a constant of the kernel.
const Random* in_hand = nullptr;

template <class R, class A, class B, class C>
const auto run_batch = tw::kernel("random", [](tw::View<const A, 1> a, tw::View<const B, 1> b, tw::View<const C, 1> c,
                                               tw::View<R, 2> out, tw::Const<int> first, tw::Const<int> count) {
  const tw::record::Raw arguments[] = {tw::load(a, {0}, {lanes}).raw(), tw::load(b, {0}, {lanes}).raw(),
                                       tw::load(c, {0}, {lanes}).raw()};
  const Random* functions = in_hand;
  (void)first;
  for (int k = 0; k < count; ++k) {
    const auto r = tw::trace::record_graph(functions[k].graph(), arguments, {});
    tw::store(out, {k, 0}, tw::expand(tw::Tile<R, 1>(r[0]), 0));
  }
});

template <class T>
T from(std::uint64_t bits) {
  T v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

bool is_last_inexact(const Random& f) { return std::string_view(f.name).ends_with("_t"); }

// A function's stated error and libm's own.
template <class T>
bool within_ulps(T a, T b) {
  if (on_device::same(a, b) || (std::isnan(a) && std::isnan(b))) return true;
  const T ulp = std::fmax(std::fabs(b) * std::numeric_limits<T>::epsilon(), std::numeric_limits<T>::denorm_min());
  return std::fabs(a - b) <= 4 * ulp;
}

template <class R>
void compare(const Random& f, int lane, R native, R twin, R device) {
  CAPTURE(std::string(f.name));
  CAPTURE(lane);
  CHECK_MESSAGE(on_device::same(twin, device), std::string(f.name), " lane ", lane, ": host twin ", twin, ", device ",
                device);
  if (std::is_floating_point_v<R> && is_last_inexact(f)) {
    CHECK_MESSAGE(within_ulps(twin, native), std::string(f.name), " lane ", lane, ": host twin ", twin, ", C++ ",
                  native);
  } else {
    CHECK_MESSAGE(on_device::same(twin, native), std::string(f.name), " lane ", lane, ": host twin ", twin, ", C++ ",
                  native);
  }
}

template <class R, class A, class B, class C>
void check(std::vector<Random> functions, int table) {
  std::vector<A> a;
  std::vector<B> b;
  std::vector<C> c;
  for (int i = 0; i < lanes; ++i) {
    a.push_back(input<A>(i)), b.push_back(input<B>(i * 7 + i / 20 + 3)), c.push_back(input<C>(i * 5 + i / 14));
  }
  const auto device = on_device::device();
  const auto ta = tw::Tensor<A>::from_host(device, {lanes}, a);
  const auto tb = tw::Tensor<B>::from_host(device, {lanes}, b);
  const auto tc = tw::Tensor<C>::from_host(device, {lanes}, c);
  for (std::size_t first = 0; first < functions.size(); first += batch) {
    const int count = static_cast<int>(std::min<std::size_t>(batch, functions.size() - first));
    in_hand = &functions[first];
    const auto out = tw::Tensor<R>::empty(device, {count, lanes});
    run_batch<R, A, B, C>.launch(device.stream(), {1}, ta, tb, tc, out, table * 10000 + static_cast<int>(first), count,
                                 tw::Options{.contract = false});
    const auto got = out.to_host();
    for (int k = 0; k < count; ++k) {
      const Random& f = in_hand[k];
      for (int lane = 0; lane < lanes; ++lane) {
        const auto at = static_cast<std::size_t>(lane);
        const std::uint64_t bits[] = {tw::trace::bits_of(a[at]), tw::trace::bits_of(b[at]), tw::trace::bits_of(c[at])};
        compare<R>(f, lane, from<R>(f.native(bits)), from<R>(tw::trace::evaluate(f.graph(), bits)[0]),
                   got[static_cast<std::size_t>(k * lanes + lane)]);
      }
    }
  }
}

void check_table(const Random* functions, int count, int table) {
  std::vector<Random> by[4];
  for (int i = 0; i < count; ++i) by[static_cast<int>(functions[i].signature)].push_back(functions[i]);
  check<float, float, float, int>(by[0], table);
  check<double, double, double, int>(by[1], table);
  check<int, int, int, unsigned>(by[2], table);
  check<unsigned, unsigned, unsigned, float>(by[3], table);
}

}  // namespace

TEST_CASE("random functions: C++, host twin and device agree, 250 of them") {
  REQUIRE(random_1_count == 250);
  check_table(random_1_functions, random_1_count, 1);
}

TEST_CASE("random functions: C++, host twin and device agree, another 750" *
          doctest::skip(std::getenv("TILEWEAVE_LONG") == nullptr)) {
  REQUIRE(random_2_count + random_3_count + random_4_count == 750);
  check_table(random_2_functions, random_2_count, 2);
  check_table(random_3_functions, random_3_count, 3);
  check_table(random_4_functions, random_4_count, 4);
}
