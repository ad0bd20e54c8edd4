// device_print, device_assert, static_check, static_print and checked mode: the same lines and errors on every device.
// Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "reference.h"

namespace {

const std::string file = __FILE__;

// What `f` writes to the descriptor, line by line.
template <class F>
std::vector<std::string> lines_written(int descriptor, F f) {
  std::fflush(nullptr);
  char name[] = "/tmp/tileweave_debug_XXXXXX";
  const int to = mkstemp(name), saved = dup(descriptor);
  dup2(to, descriptor);
  f();
  std::fflush(nullptr);
  dup2(saved, descriptor);
  close(saved);
  close(to);
  std::ifstream in(name);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  unlink(name);
  return lines;
}

constexpr int print_line = __LINE__ + 4;
const auto printing =
    tw::kernel("printing", [](tw::View<const float, 2> x, tw::View<const int, 1> n, tw::Const<int> cols) {
      auto p = tw::program_id(0);
      tw::device_print("row", tw::load(x, {p, 0}, {1, cols}));
      tw::device_print("n", tw::load(n, {p}, {1}));
      for (auto i : tw::range(2)) tw::device_print("i", i);
      tw::device_print("big", tw::load(x, {p, 0}, {1, cols}) > 3.0f);
    });

constexpr int assert_line = __LINE__ + 5;
const auto asserting =
    tw::kernel("asserting", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Const<int> block) {
      auto at = tw::program_id(0) * block;
      auto v = tw::load(x, {at}, {block});
      tw::device_assert(v >= 0.0f, "values are not negative");
      tw::store(y, {at}, tw::sqrt(v));
    });

const auto checking = tw::kernel("checking", [](tw::View<const float, 1> x, tw::Const<int> block) {
  tw::static_check(block % 2 == 0, "the block is even");
  tw::static_print("block", block);
  tw::static_print("tile", tw::load(x, {0}, {block}));
});

constexpr int gather_line = __LINE__ + 4;
const auto gathering =
    tw::kernel("gathering", [](tw::View<const float, 1> values, tw::View<const int, 1> index, tw::View<float, 1> y) {
      auto i = tw::load(index, {0}, {8});
      auto v = tw::load(values.ptr() + i);
      tw::store(y, {0}, v);
    });

constexpr int scatter_line = __LINE__ + 4;
const auto scattering =
    tw::kernel("scattering", [](tw::Ptr<float> values, tw::View<const int, 1> index, tw::View<const float, 1> x) {
      auto i = tw::load(index, {0}, {8});
      tw::store(values + i, tw::load(x, {0}, {8}));
    });

std::string at(int line) { return file + ":" + std::to_string(line); }

template <class F>
std::string launch_error(F f) {
  try {
    f();
    device().synchronize();
  } catch (const tw::LaunchError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("device_print gives one line a program and visit, with the user's place") {
  const auto x = tensor<float>({2, 3}, {0.5, -1.25, 3, 4, 5, 1e30});
  const auto n = tensor<int>({2}, {7, -8});
  std::vector<std::string> got = lines_written(1, [&] {
    printing.launch(device().stream(), {2}, x, n, 4);
    device().synchronize();
  });
  const auto line = [](int offset, int program, const std::string& rest) {
    return at(print_line + offset) + ": printing[" + std::to_string(program) + "] " + rest;
  };
  std::vector<std::string> expected = {line(0, 0, "row: 0.5 -1.25 3 0"),
                                       line(1, 0, "n: 7"),
                                       line(2, 0, "i: 0"),
                                       line(2, 0, "i: 1"),
                                       line(3, 0, "big: false false false false"),
                                       line(0, 1, "row: 4 5 1.00000002e+30 0"),
                                       line(1, 1, "n: -8"),
                                       line(2, 1, "i: 0"),
                                       line(2, 1, "i: 1"),
                                       line(3, 1, "big: true true true false")};
  // Programs may run at the same time; within one the order is that of the text.
  std::ranges::stable_sort(got, {}, [](const std::string& s) { return s.substr(s.find('[') + 1, 1); });
  CHECK(got == expected);
}

TEST_CASE("device_assert ends the launch at the user's line, with the lowest program that failed") {
  const auto y = tensor<float>({40}, std::vector<double>(40, -1));
  std::vector<double> values(40, 4);
  const auto good = tensor<float>({40}, values);
  CHECK(launch_error([&] { asserting.launch(device().stream(), {5}, good, y, 8); }) == "no error");
  values[17] = values[38] = -2;
  const auto bad = tensor<float>({40}, values);
  CHECK(launch_error([&] { asserting.launch(device().stream(), {5}, bad, y, 8); }) ==
        at(assert_line) + ": error: kernel 'asserting': device_assert failed in program 2: values are not negative");
  // The program went on, and so did the others.
  const auto got = doubles(y);
  CHECK(got[16] == 2);
  CHECK(std::isnan(got[17]));
  CHECK(got[39] == 2);
}

TEST_CASE("an assertion does not look at lanes that are not valid") {
  const auto y = tensor<float>({5}, std::vector<double>(5, -1));
  const auto x = tensor<float>({5}, {1, 4, 9, 16, 25});
  CHECK(launch_error([&] { asserting.launch(device().stream(), {1}, x, y, 8); }) == "no error");
  CHECK(doubles(y) == std::vector<double>{1, 2, 3, 4, 5});
}

TEST_CASE("static_check and static_print act while the kernel is recorded") {
  const auto x = tensor<float>({8}, counting(8));
  auto lines = lines_written(2, [&] { checking.launch(device().stream(), {1}, x, 4); });
  if (lines.size() == 4) lines.resize(2);  // TILEWEAVE_CHECK records twice
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].ends_with(": checking: block = 4"));
  CHECK(lines[1].ends_with(": checking: tile is f32[4]"));
  CHECK(lines[0].starts_with(file + ":"));
  CHECK_THROWS_WITH_AS(checking.launch(device().stream(), {1}, x, 5),
                       doctest::Contains("static_check: the block is even"), tw::RecordError);
}

TEST_CASE("checked mode leaves a bad access out and names the view, the index and the extent") {
  const auto values = tensor<float>({10}, counting(10));
  const auto index = tensor<int>({8}, {0, 9, 3, 10, 2, 1, 77, 4});
  const auto y = tensor<float>({8}, std::vector<double>(8, -1));
  const tw::Options checked{.checked = true};
  CHECK(launch_error([&] { gathering.launch(device().stream(), {1}, values, index, y, checked); }) ==
        at(gather_line) +
            ": error: kernel 'gathering': load_ptr: a pointer outside view 'values': index 10, extent "
            "10, in program 0");
  CHECK(doubles(y) == std::vector<double>{0, 9, 3, 0, 2, 1, 0, 4});
  const auto good = tensor<int>({8}, {0, 9, 3, 1, 2, 1, 7, 4});
  CHECK(launch_error([&] { gathering.launch(device().stream(), {1}, values, good, y, checked); }) == "no error");
  CHECK(doubles(y) == std::vector<double>{0, 9, 3, 1, 2, 1, 7, 4});
}

TEST_CASE("checked mode knows how far a pointer parameter's tensor reaches") {
  const auto whole = tensor<float>({12}, std::vector<double>(12, 0));
  const auto values = whole.slice(0, 2, 10);
  const auto index = tensor<int>({8}, {0, 1, 2, 3, 4, 5, 8, -1});
  const auto x = tensor<float>({8}, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(launch_error([&] {
          scattering.launch(device().stream(), {1}, values, index, x, tw::Options{.checked = true});
        }) == at(scatter_line) +
                  ": error: kernel 'scattering': store_ptr: a pointer outside view 'values': index -1, "
                  "extent 8, in program 0");
  CHECK(doubles(whole) == std::vector<double>{0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0});
}
