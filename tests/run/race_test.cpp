// Checked launches on the interpreter find races between programs and between lanes of a store, with both lines, and
// find none where the order of programs cannot be seen. Other devices do not look for them: there the cases only run.
#include <doctest/doctest.h>

#include <string>

#include "reference.h"

namespace {

using Ints = tw::View<int, 1>;

constexpr int both_write_line = __LINE__ + 2;
const auto both_write =
    tw::kernel("both_write", [](Ints y) { tw::store(y, {3}, tw::full<int>(tw::program_id(0).to<int>(), 1)); });
const auto same_value = tw::kernel("same_value", [](Ints y) { tw::store(y, {3}, tw::full<int>(7, 1)); });

constexpr int neighbour_line = __LINE__ + 3;
const auto neighbour = tw::kernel("neighbour", [](Ints y) {
  auto p = tw::program_id(0);
  auto next = tw::load(y, {p + 1}, {1}, {.pad = 0});
  tw::store(y, {p}, next + 1);
});
// Each program reads what the one before wrote: found from the other side.
const auto before = tw::kernel("before", [](Ints y) {
  auto p = tw::program_id(0);
  tw::store(y, {p + 1}, tw::load(y, {p}, {1}) + 1);
});
const auto own = tw::kernel("own", [](Ints y) {
  auto p = tw::program_id(0);
  tw::store(y, {p}, tw::load(y, {p}, {1}) + 1);
  tw::store(y, {p}, tw::load(y, {p}, {1}) * 2);
});

constexpr int lanes_line = __LINE__ + 2;
const auto lanes =
    tw::kernel("lanes", [](Ints y) { tw::store(y.ptr() + tw::floor_div(tw::arange(4), 2), tw::arange(4)); });
const auto equal_lanes = tw::kernel("equal_lanes", [](Ints y) {
  tw::store(y.ptr() + tw::floor_div(tw::arange(4), 2), tw::floor_div(tw::arange(4), 2));
});

const auto counted = tw::kernel("counted", [](Ints y) { tw::atomic_add(y, {0}, tw::full<int>(1, 1)); });
const auto cleared = tw::kernel("cleared", [](Ints y) {
  tw::if_(tw::program_id(0) == 0, [&] { tw::store(y, {0}, tw::full<int>(5, 1)); });
  tw::atomic_add(y, {0}, tw::full<int>(1, 1));
});

// The last program to arrive adds up what all have written: right with release and acquire, a race without.
template <bool ordered>
const auto last_adds = tw::kernel("last_adds", [](Ints part, Ints total, tw::Const<int> n) {
  auto p = tw::program_id(0);
  tw::store(part, {p}, tw::full<int>((p + 1).template to<int>(), 1));
  auto arrived = tw::atomic_add(total, {1}, tw::full<int>(1, 1),
                                {.order = ordered ? tw::MemoryOrder::acq_rel : tw::MemoryOrder::relaxed});
  tw::if_(tw::sum(arrived, 0) == n - 1,
          [&] { tw::store(total, {0}, tw::reshape(tw::sum(tw::load(part, {0}, {n}), 0), {1})); });
});

const auto polled = tw::kernel("polled", [](Ints y) {
  auto seen = tw::load(y, {0}, {1}, {.cache = tw::Cache::volatile_});
  tw::store(y, {0}, seen + 1, {.cache = tw::Cache::volatile_});
});

template <class K, class... A>
std::string race_of(const K& kernel, int programs, const A&... a) {
  try {
    kernel.launch(device().stream(), {programs}, a..., {.checked = true});
    device().synchronize();
  } catch (const tw::LaunchError& e) {
    return e.what();
  }
  return "";
}

tw::Tensor<int> zeros(int n) { return tw::Tensor<int>::zeros(device(), {n}); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
std::string at(int line) { return "race_test.cpp:" + std::to_string(line); }

bool looks_for_races() { return device().kind() == tw::DeviceKind::interpret; }

}  // namespace

TEST_CASE("two programs that write different values to one element") {
  const std::string m = race_of(both_write, 2, zeros(8));
  if (!looks_for_races()) return;
  CHECK(has(m, at(both_write_line) + ": error: kernel 'both_write': race: program 0's store at "));
  CHECK(has(m, "and program 1's store at "));
  CHECK(has(m, "write different values, in no order, to element 3 of view 'y'"));
  CHECK(has(m, "help: give each program elements of its own, or use atomics"));
}

TEST_CASE("a program that reads what another writes, whichever the interpreter runs first") {
  const std::string m = race_of(neighbour, 3, zeros(8)), n = race_of(before, 3, zeros(8));
  if (!looks_for_races()) return;
  CHECK(has(m, "program 0's load at "));
  CHECK(has(m, at(neighbour_line) + " and program 1's store at "));
  CHECK(has(m, "element 1 of view 'y'"));
  CHECK(has(n, "program 0's store at "));
  CHECK(has(n, "and program 1's load at "));
}

TEST_CASE("two lanes of one store") {
  const std::string m = race_of(lanes, 1, zeros(8));
  if (!looks_for_races()) return;
  CHECK(has(m, "two lanes of program 0's store_ptr at "));
  CHECK(has(m, at(lanes_line)));
  CHECK(has(m, "help: mask off all but one of the lanes, or use an atomic"));
}

TEST_CASE("an atomic does not race with atomics, but with a store") {
  CHECK(race_of(counted, 5, zeros(1)).empty());
  const std::string m = race_of(cleared, 2, zeros(1));
  if (!looks_for_races()) return;
  CHECK(has(m, "program 0's store at "));
  CHECK(has(m, "program 1's atomic_rmw at "));
}

TEST_CASE("release and acquire order programs") {
  const auto total = zeros(2);
  CHECK(race_of(last_adds<true>, 4, zeros(4), total, 4).empty());
  CHECK(total.to_host()[0] == 10);
  const std::string m = race_of(last_adds<false>, 4, zeros(4), zeros(2), 4);
  if (!looks_for_races()) return;
  CHECK(has(m, "program 3's load at "));
}

TEST_CASE("no race where none can be seen") {
  CHECK(race_of(same_value, 4, zeros(8)).empty());
  CHECK(race_of(own, 8, zeros(8)).empty());
  CHECK(race_of(equal_lanes, 1, zeros(8)).empty());
  CHECK(race_of(polled, 4, zeros(1)).empty());
}
