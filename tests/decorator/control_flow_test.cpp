// Control flow, statement by statement: each function as C++ compiles it against its group, on the host and on the
// device.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>
#include <utility>

#include "on_device.h"

#define GROUP TILEWEAVE_FUSION_GROUP

namespace flow {

GROUP constexpr int sign(float x) { return (x > 0) - (x < 0); }
GROUP float returns_anywhere(float x, int n) {
  if (n == 0) return x;
  float y = x;
  if (x > 1) {
    if (n > 3) return y * 2;
    y += 1;
  } else if (x < -1) {
    return -y;
  } else {
    y *= 3;
    if (n < 0) return y;
  }
  return y - 0.5f;
}
GROUP int falls_through(int x) {
  int r = 0;
  switch (x & 7) {
    case 0:
      r += 1;
      [[fallthrough]];
    case 1:
      r += 10;
      break;
    case 2:
    case 3:
      return 5;
    default:
      r = 7;
      [[fallthrough]];
    case 4: {
      r += 100;
      if (x > 64) break;
      r += 1000;
      break;
    }
  }
  return r;
}
GROUP int switch_in_loop(int n) {
  int total = 0;
  for (int i = 0; i < (n & 15); ++i) {
    switch (i % 4) {
      case 1:
        continue;
      case 2:
        if (total > 40) break;
        total += 7;
        break;
      case 3:
        if (total > 60) return total;
    }
    total += i;
  }
  return -total;
}
GROUP float nested_loops(float x, int n) {
  float sum = 0;
  for (int i = 0; i < (n & 7); i++) {
    float row = x;
    for (int k = i; k > 0; --k) {
      if (k == 3) continue;
      row = row * 0.5f + static_cast<float>(k);
      if (row > 20) break;
    }
    sum += row;
    if (sum > 100) return sum - 1000;
  }
  return sum;
}
GROUP int condition_assigns(int n) {
  int steps = 0, m = n & 31;
  while (m-- > 3 && (steps += 2) < 30) ++steps;
  return steps * 100 + m;
}
GROUP int do_loops(int n) {
  int k = 0;
  do {
    k += 3;
    if (k == 12) continue;
    if (k > 40) break;
  } while (k < (n & 63));
  return k;
}
GROUP std::int64_t unrolls(int x) {
  std::int64_t sum = 0;
  for (int i = 1; i <= 4; ++i) {
    for (int k = 0; k < i; ++k) sum = sum * 3 + x;
    if (sum > 1000) break;
  }
  return sum;
}
// In a loop of the graph: a lane that left the iteration or the loop does not return after it.
GROUP int continues_before_return(int n) {
  for (int i = 0; i < (n & 15); ++i) {
    if (i < 4) continue;
    return i * 10;
  }
  return -1;
}
GROUP int breaks_before_return(int n) {
  for (int i = 0; i < (n & 15); ++i) {
    if (n > 40) {
      if (i == 2) break;
      if (i == 5) return 500;
    }
    if (i == 3) return i + n;
  }
  return -1;
}
GROUP int leaves_inner_loop_before_return(int n) {
  for (int i = 0; i < (n & 7); ++i) {
    for (int k = 0; k < (n & 3) + 2; ++k) {
      if (((k + n) & 1) != 0) continue;
      if (i == k) break;
      if (i + k > 4) return i * 100 + k;
    }
    switch (i) {
      case 3:
        if ((n & 16) != 0) break;
        return 3;
      case 2:
        if ((n & 32) != 0) continue;
        if ((n & 64) != 0) return 2;
    }
  }
  return n;
}
// Unrolled as far as the count is constant, a loop of the graph from where it is not.
GROUP int part_unrolled(int n) {
  int i = 0;
  while (i++ < 6) {
    if (n == i) continue;
    if (n == i + 2) break;
    if (n < i - 2 || n > 50 + i) return i * n;
  }
  return i;
}
GROUP double counts_far(double x) {
  double sum = 0;
  for (int i = 1; i <= 1000; ++i) sum += x / i;
  return sum;
}
GROUP float endless_with_exit(float x) {
  for (;;) {
    if (!(x > 1)) return x;
    x /= 2;
  }
}
GROUP int short_circuit(int a, int b) {
  int calls = 0;
  const bool r = (a > 0 && (calls += 1, b > 0)) || (calls += 10, a == b);
  return calls + r;
}
GROUP unsigned promotions(std::int8_t a, std::uint16_t b) {
  std::int8_t c = a;
  c += 100;
  b <<= 3;
  a = static_cast<std::int8_t>(c * c >> 2);
  const unsigned sum = static_cast<unsigned>(a) + b + (c < 0 ? 1u : 0u);
  return sum + static_cast<unsigned>(c--);
}
constexpr float weights[] = {0.5f, -1.0f, 2.0f, 8.0f};
enum Mode { add = 1, subtract = 2 };
GROUP float table_and_enum(float x, int i, int mode) {
  const float w = weights[i & 3];
  return mode == add ? x + w : mode == subtract ? x - w : weights[2] * x;
}
GROUP std::pair<float, int> pairs(float x) {
  if (x < 0) return {-x, -1};
  return std::make_pair(x * 2, 1);
}
GROUP float uses_pairs(float x) {
  const auto p = pairs(x);
  float a = p.first, b = static_cast<float>(p.second);
  if (a > 2) std::swap(a, b);
  return a - 10 * b;
}
struct Inner {
  float u, v;
};
struct Outer {
  Inner in;
  int n;
};
GROUP Outer structs(Outer o) {
  Outer r = o;
  r.in.u += o.in.v;
  if (r.n > 2) r = Outer{{o.in.v, o.in.u}, -1};
  return r;
}
template <class T>
GROUP T generic(T x, T y) {
  if constexpr (sizeof(T) == 8) {
    return x - y;
  } else {
    return x + y;
  }
}
struct Defaults {
  float u = 3;
  int n = 2;
};
struct DefaultsWithin {
  Defaults in, other{5};
  float w;
};
GROUP float default_members(float x) {
  Defaults a, b{x};
  DefaultsWithin c, d{};
  c.w = x;
  return a.u + b.u * static_cast<float>(b.n) + c.in.u + c.other.u + c.w + d.w + static_cast<float>(d.other.n);
}
// What is computed first assigns to what comes second.
GROUP int operand_order(int a, int b) {
  int n = a & 7, r = 0;
  if (n++ > 3 && n < 7) r = 1;
  if ((n += b & 3) > 6 || n == 5) r += 2;
  r += ++n > 4 ? n * 10 : n - 1;
  while (n++ < 12 && n + r < 60) r += b & 1;
  return r * 100 + n;
}
struct Ends {
  int low, high;
};
GROUP Ends ends(int a, int b) { return {a & 15, b & 15}; }
GROUP Ends list_order(int a, int b) {
  int n = a & 3;
  if (b > 40) return {n++, n};
  if (b > 20) return ends(n, b);
  const Ends e = ends(n, b), chosen = n++ > 1 ? Ends{n, e.high} : Ends{e.low, n};
  return {chosen.low + n, chosen.high + ++n};
}
GROUP int list_order_sum(int a, int b) {
  const Ends e = list_order(a, b);
  return e.low * 100 + e.high;
}
GROUP double overloaded(double x) { return x * 2; }
GROUP int overloaded(int x) { return x * 3; }

}  // namespace flow

#include "control_flow_test.fusion.h"

namespace {

namespace f = tw::fused::flow;

template <class R, class G, class F, class... P>
void check(const char* name, const G& group, const F& plain, const std::vector<P>&... x) {
  const std::vector<R> got = on_device::apply<R>(group, x...);
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK_MESSAGE(on_device::same(static_cast<R>(group(x[i]...)), plain(x[i]...)), name, " on the host, element ", i,
                  ": ", group(x[i]...), " and ", plain(x[i]...));
    CHECK_MESSAGE(on_device::same(got[i], plain(x[i]...)), name, " on the device, element ", i, ": ", got[i], " and ",
                  plain(x[i]...));
  }
}

std::vector<float> floats(int n) {
  std::vector<float> v;
  for (int i = 0; i < n; ++i) v.push_back(static_cast<float>(i % 23 - 11) * 0.37f * static_cast<float>(1 + i % 5));
  v[3] = NAN, v[7] = INFINITY, v[8] = -0.0f;
  return v;
}
std::vector<int> ints(int n) {
  std::vector<int> v;
  for (int i = 0; i < n; ++i) v.push_back((i * 37) % 129 - 20);
  return v;
}

}  // namespace

TEST_CASE("branches, returns anywhere, switches with fall-through") {
  const auto x = floats(130);
  const auto n = ints(130);
  check<int>("sign", f::sign, flow::sign, x);
  check<float>("returns_anywhere", f::returns_anywhere, flow::returns_anywhere, x, n);
  check<int>("falls_through", f::falls_through, flow::falls_through, n);
  check<int>("short_circuit", f::short_circuit, flow::short_circuit, n, ints(130));
}

TEST_CASE("loops: runtime bounds, break, continue, return inside, conditions that assign, do, unrolling") {
  const auto x = floats(130);
  const auto n = ints(130);
  check<int>("switch_in_loop", f::switch_in_loop, flow::switch_in_loop, n);
  check<float>("nested_loops", f::nested_loops, flow::nested_loops, x, n);
  check<int>("continues_before_return", f::continues_before_return, flow::continues_before_return, n);
  check<int>("breaks_before_return", f::breaks_before_return, flow::breaks_before_return, n);
  check<int>("leaves_inner_loop_before_return", f::leaves_inner_loop_before_return,
             flow::leaves_inner_loop_before_return, n);
  check<int>("part_unrolled", f::part_unrolled, flow::part_unrolled, n);
  check<int>("condition_assigns", f::condition_assigns, flow::condition_assigns, n);
  check<int>("do_loops", f::do_loops, flow::do_loops, n);
  check<std::int64_t>("unrolls", f::unrolls, flow::unrolls, n);
  check<float>("endless_with_exit", f::endless_with_exit, flow::endless_with_exit,
               std::vector<float>{0.5f, 1, 2, 1e30f, -4, NAN});
  const std::vector<double> far = on_device::apply<double>(f::counts_far, std::vector<double>{1, -2.5});
  CHECK(far[0] == flow::counts_far(1));
  CHECK(far[1] == flow::counts_far(-2.5));
  CHECK(tw::trace::graph_of<tw::trace::bodies::flow_unrolls_body>().loops.empty());
  CHECK(tw::trace::graph_of<tw::trace::bodies::flow_counts_far_body>().loops.size() == 1);
}

TEST_CASE("an operand that assigns is computed before the operands after it") {
  const auto n = ints(130);
  auto m = ints(130);
  std::reverse(m.begin(), m.end());
  check<int>("operand_order", f::operand_order, flow::operand_order, n, m);
  check<int>("list_order", f::list_order_sum, flow::list_order_sum, n, m);
}

TEST_CASE("loops on tensors end for the lanes that are there: lanes past the edge are not waited for") {
  const auto x = tw::Tensor<float>::from_host(on_device::device(), {3}, std::vector<float>{5.0f, 0.25f, 1e10f});
  const tw::Tensor<float> y =
      f::endless_with_exit(x) + 1.0f;  // at 0 this would return; at the padding nothing is asked
  const auto got = y.to_host();
  CHECK(got[0] == flow::endless_with_exit(5.0f) + 1.0f);
  CHECK(got[2] == flow::endless_with_exit(1e10f) + 1.0f);
}

TEST_CASE("integer types are C++'s: promotion, narrowing, compound assignment") {
  std::vector<std::int8_t> a;
  std::vector<std::uint16_t> b;
  for (int i = 0; i < 256; ++i)
    a.push_back(static_cast<std::int8_t>(i)), b.push_back(static_cast<std::uint16_t>(i * 997));
  check<unsigned>("promotions", f::promotions, flow::promotions, a, b);
}

TEST_CASE("arrays of constants, enums, pairs, structs, templates, overloads") {
  const auto x = floats(130);
  const auto n = ints(130);
  check<float>("table_and_enum", f::table_and_enum, flow::table_and_enum, x, n, n);
  check<float>("uses_pairs", f::uses_pairs, flow::uses_pairs, x);
  const auto pair = f::pairs(-2.0f);
  CHECK(pair.first == 2);
  CHECK(pair.second == -1);
  const auto [u, v, count] = f::structs(1.0f, 2.0f, 5);
  CHECK(u == 2);
  CHECK(v == 1);
  CHECK(count == -1);
  CHECK(f::structs(1.0f, 2.0f, 1).in_u == 3);
  check<float>("default_members", f::default_members, flow::default_members, x);
  CHECK(f::generic(5.0f, 2.0f) == 7);
  CHECK(f::generic(5.0, 2.0) == 3);
  CHECK(f::generic(5, 2) == 7);
  static_assert(std::is_same_v<decltype(f::generic(5.0f, 2.0f)), float>);
  check<double>(
      "generic", f::generic, [](double p, double q) { return flow::generic(p, q); }, std::vector<double>{1, 2},
      std::vector<double>{0.5, 7});
  CHECK(f::overloaded(2) == 6);
  CHECK(f::overloaded(2.0) == 4);
}
