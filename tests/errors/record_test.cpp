// Mistakes found while a kernel is recorded: the whole message, at the user's line; and the process stays usable.
// Runs under the interpreter: nothing is compiled.
#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>

#include "message.h"
#include "tileweave/jit/base/env.h"

namespace tw = tileweave;
using View = tw::View<const float, 2>;
using Out = tw::View<float, 2>;

TEST_CASE("shapes that do not broadcast name both, at the consuming statement") {
  const auto k = tw::kernel("shapes", [](View x, Out y) {
    auto a = tw::load(x, {0, 0}, {4, 8});
    auto b = tw::load(x, {0, 0}, {4, 4});
    tw::store(y, {0, 0}, a + b);
  });
  CHECK(recorded(k) == HERE(-2) +
                           ": error: add: extents differ: lhs f32[4,8], rhs f32[4,4]\n  in kernel 'shapes'\n"
                           "  help: an axis must have the same extent in both, or extent 1 in one");
}

TEST_CASE("dot names both operands and where the right one was made") {
  const auto k = tw::kernel("inner", [](View x, Out y) {
    auto a = tw::load(x, {0, 0}, {4, 8});
    auto b = tw::load(x, {0, 0}, {4, 4});
    tw::store(y, {0, 0}, tw::dot(a, b));
  });
  CHECK(recorded(k) == HERE(-2) + ": error: dot: inner extents differ: lhs f32[4,8] has 8, rhs f32[4,4] has 4\n" +
                           HERE(-4) + ": note: rhs was made here\n" +
                           "  in kernel 'inner'\n  help: load rhs as {k, n}, or pass tw::trans(rhs)");
}

TEST_CASE("dot's accumulator has the product's extents") {
  const auto k = tw::kernel("acc", [](View x, Out y) {
    auto a = tw::load(x, {0, 0}, {4, 4});
    tw::store(y, {0, 0}, tw::dot(a, a, tw::zeros<float>(4, 8)));
  });
  CHECK(recorded(k) == HERE(-2) +
                           ": error: dot: the accumulator is f32[4,8], lhs times rhs is {4, 4}\n"
                           "  in kernel 'acc'\n  help: make it with tw::zeros of these extents");
}

TEST_CASE("a block without lanes") {
  const auto k = tw::kernel("empty", [](View x, Out y) { tw::store(y, {0, 0}, tw::load(x, {0, 0}, {0, 4})); });
  CHECK(recorded(k) == HERE(-1) +
                           ": error: load: a block of extents {0, 4} of view<const f32, 2> has no lanes\n"
                           "  in kernel 'empty'\n  help: every extent of a block is at least 1");
}

TEST_CASE("an axis that is not there") {
  const auto sum = tw::kernel("axis", [](View x, Out y) {
    auto s = tw::sum(tw::load(x, {0, 0}, {4, 4}), 2);
    tw::store(y, {0, 0}, s);
  });
  CHECK(recorded(sum) == HERE(-3) + ": error: reduction: there is no axis 2 in f32[4,4]\n  in kernel 'axis'");
  const auto extent = tw::kernel("extent", [](View x, Out y) { tw::store(y, {x.extent(2), 0}, 1.0f); });
  CHECK(recorded(extent) ==
        HERE(-2) + ": error: extent: there is no axis 2 in view<const f32, 2>\n  in kernel 'extent'");
  const auto grid = tw::kernel("grid", [](View, Out y) { tw::store(y, {tw::program_id(3), 0}, 1.0f); });
  CHECK(recorded(grid) == HERE(-1) + ": error: program_id: a grid has the axes 0, 1 and 2, not 3\n  in kernel 'grid'");
  const auto expand = tw::kernel(
      "expand", [](View x, Out y) { tw::store(y, {0, 0}, tw::sum(tw::expand(tw::load(x, {0, 0}, {4, 4}), 3), 0)); });
  CHECK(recorded(expand) == HERE(-1) + ": error: expand: there is no axis 3 in a tile of rank 3\n  in kernel 'expand'");
}

TEST_CASE("a loop left early is reported with the loop's line") {
  const auto k = tw::kernel("early", [](View x, Out y) {
    for (auto i : tw::range(0, 4)) {
      tw::store(y, {i, 0}, tw::load(x, {i, 0}, {1, 8}));
      break;
    }
    tw::store(y, {0, 0}, 1.0f);
  });
  CHECK(recorded(k) == HERE(-6) +
                           ": error: a tw::range loop is left early, by break, return or goto\n  in kernel 'early'\n"
                           "  help: a loop is recorded once and runs to its end: use tw::while_ with a condition");
}

TEST_CASE("return from a loop, as the last thing a kernel does") {
  const auto k = tw::kernel("return", [](View, Out) {
    for (auto i : tw::range(0, 4)) {
      (void)i;
      return;
    }
  });
  CHECK(recorded(k) == HERE(-5) +
                           ": error: a tw::range loop is left early, by break, return or goto\n  in kernel 'return'\n"
                           "  help: a loop is recorded once and runs to its end: use tw::while_ with a condition");
}

TEST_CASE("a tile used after the loop that made it") {
  const auto k = tw::kernel("escape", [](View x, Out y) {
    std::optional<tw::Tile<float, 2>> last;
    for (auto i : tw::range(0, 4)) {
      last.emplace(tw::load(x, {i, 0}, {1, 8}));
    }
    tw::store(y, {0, 0}, *last);
  });
  CHECK(recorded(k) == HERE(-2) + ": error: a tile made inside a loop or a branch is used after its end\n" + HERE(-4) +
                           ": note: the tile was made here\n  in kernel 'escape'\n"
                           "  help: declare a tw::Var before it and assign to it inside");
}

TEST_CASE("a tile kept beyond its kernel") {
  static std::optional<tw::Tile<float, 2>> kept;
  const auto first = tw::kernel("first", [](View x, Out) { kept.emplace(tw::load(x, {0, 0}, {4, 4})); });
  CHECK(recorded(first) == "nothing thrown");
  const auto second = tw::kernel("second", [](View, Out y) { tw::store(y, {0, 0}, *kept); });
  CHECK(recorded(second) == HERE(-1) +
                                ": error: a tile of another recording is used in kernel 'second'\n"
                                "  in kernel 'second'\n  help: a tile lives while its kernel's lambda runs: keep "
                                "no tile in a global or static variable");
}

TEST_CASE("a tile operation outside of a kernel") {
  CHECK(message_of<tw::RecordError>([] { tw::program_id(0); }) ==
        HERE(-1) +
            ": error: a tile operation is used outside of a kernel\n"
            "  help: call it from the lambda given to tw::kernel; whole tensors have operators of their own");
}

TEST_CASE("assigning other extents to a Var") {
  const auto k = tw::kernel("var", [](View x, Out y) {
    tw::Var v = tw::load(x, {0, 0}, {1, 4});
    v.set(tw::load(x, {0, 0}, {1, 8}));
    tw::store(y, {0, 0}, v);
  });
  CHECK(recorded(k) == HERE(-3) +
                           ": error: assignment: extents differ: lhs f32[1,4], rhs f32[1,8]\n  in kernel 'var'\n"
                           "  help: an axis must have the same extent in both, or extent 1 in one");
  const auto grown = tw::kernel("grown", [](View x, Out y) {
    tw::Var v = tw::load(x, {0, 0}, {1, 4});
    v.set(tw::load(x, {0, 0}, {2, 4}));
    tw::store(y, {0, 0}, v);
  });
  CHECK(recorded(grown) ==
        HERE(-4) + ": error: the extents of a tw::Var are fixed: it is f32[1,4], the value assigned is f32[2,4]\n" +
            HERE(-6) +
            ": note: the tw::Var was declared here\n  in kernel 'grown'\n"
            "  help: reduce or reshape the value, or declare another tw::Var");
}

TEST_CASE("a literal that does not fit the tile") {
  const auto k = tw::kernel("literal", [](View x, Out y) {
    auto small = tw::load(x, {0, 0}, {1, 8}).to<std::uint8_t>();
    tw::store(y, {0, 0}, (small + 300).to<float>());
  });
  CHECK(recorded(k) == HERE(-2) +
                           ": error: the literal 300 does not fit u8\n  in kernel 'literal'\n"
                           "  help: convert the tile to a wider type with .to<T>()");
}

TEST_CASE("reshape keeps the number of elements") {
  const auto k = tw::kernel(
      "reshape", [](View x, Out y) { tw::store(y, {0, 0}, tw::reshape(tw::load(x, {0, 0}, {4, 4}), {3, 5})); });
  CHECK(recorded(k) == HERE(-1) + ": error: reshape: f32[4,4] has 16 elements, f32[3,5] has 15\n  in kernel 'reshape'");
}

TEST_CASE("a kernel launched while another is recorded") {
  static const auto inner = tw::kernel("inner", [](View, Out) {});
  const auto outer = tw::kernel("outer", [](View, Out) {
    static const auto x = tw::Tensor<float>::zeros(tw::Device::interpret(), {8, 8});
    inner.launch(tw::Device::interpret().stream(), {1}, x, x);
  });
  CHECK(recorded(outer) ==
        HERE(-3) +
            ": error: kernel 'inner' is launched while a kernel is being recorded\n"
            "  in kernel 'outer'\n  help: launch kernels and use tensors outside of a kernel's lambda");
}

TEST_CASE("constants stand in the context, and an exception of the user's leaves everything usable") {
  struct Blocks {
    int m, n;
  };
  const auto k = tw::kernel("constants", [](View x, Out y, tw::Const<Blocks> b, tw::Const<int> n) {
    if (n == 7) throw std::runtime_error("mine");
    tw::store(y, {0, 0}, tw::load(x, {0, 0}, {b->m, b->n}));
  });
  const tw::Device device = tw::Device::interpret();
  const auto x = tw::Tensor<float>::from_host(device, {2, 2}, std::vector<float>{1, 2, 3, 4});
  const auto y = tw::Tensor<float>::zeros(device, {2, 2});
  CHECK(message_of<tw::RecordError>([&] { k.launch(device.stream(), {1}, x, y, {.m = 0, .n = 2}, 3); }) ==
        HERE(-6) +
            ": error: load: a block of extents {0, 2} of view<const f32, 2> has no lanes\n"
            "  in kernel 'constants' with constants {0, 2}, 3\n  help: every extent of a block is at least 1");
  CHECK_THROWS_WITH(k.launch(device.stream(), {1}, x, y, {.m = 2, .n = 2}, 7), "mine");
  k.launch(device.stream(), {1}, x, y, {.m = 2, .n = 2}, 3);
  CHECK(y.to_host() == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("TILEWEAVE_CHECK finds a kernel that reads a global") {
  static int calls = 0;
  const auto k =
      tw::kernel("global", [](View x, Out y) { tw::store(y, {0, 0}, tw::load(x, {0, 0}, {1, 4}) + ++calls); });
  ::setenv("TILEWEAVE_CHECK", "1", 1);
  tw::reload_env_for_test();
  const std::string text = recorded(k);
  ::unsetenv("TILEWEAVE_CHECK");
  tw::reload_env_for_test();
  CHECK(text == HERE(-6) +
                    ": error: kernel 'global' records differently the second time\n  in kernel 'global'\n"
                    "  help: its lambda reads something that changes: pass it as a tw::Const or tw::Scalar parameter");
  CHECK(recorded(k) == "nothing thrown");
}

TEST_CASE("a kernel of too many operations: C++ loops unroll") {
  const auto k = tw::kernel("unrolled", [](View x, Out y) {
    tw::Var v = tw::load(x, {0, 0}, {1, 4});
    for (int i = 0; i < 5000; ++i) v = v * 2 + static_cast<float>(i);
    tw::store(y, {0, 0}, v);
  });
  const std::string text = recorded(k);
  CHECK(text.starts_with("record_test.cpp:"));
  CHECK(text.find(" operations is over the limit of 4096") != std::string::npos);
  CHECK(text.find("in kernel 'unrolled'") != std::string::npos);
}
