// Mistakes with ops along lanes, ops that move elements and contracts at launch: the whole message, at the user's line.
// Runs under the interpreter: nothing is compiled.
#include <doctest/doctest.h>

#include <array>

#include "message.h"

namespace tw = tileweave;
using View = tw::View<const float, 2>;
using Out = tw::View<float, 2>;

TEST_CASE("slice outside of its tile") {
  const auto k = tw::kernel("slice", [](View x, Out y) {
    auto v = tw::load(x, {0, 0}, {4, 8});
    tw::store(y, {0, 0}, tw::slice(v, {2, 0}, {3, 8}));
  });
  CHECK(recorded(k) == HERE(-2) +
                           ": error: slice: the block of extents {3, 8} at {2, 0} is not inside f32[4,8]\n"
                           "  in kernel 'slice'");
}

TEST_CASE("cat of extents that do not fit") {
  const auto k = tw::kernel("cat", [](View x, Out y) {
    tw::store(y, {0, 0}, tw::cat(tw::load(x, {0, 0}, {4, 8}), tw::load(x, {0, 0}, {2, 4}), 0));
  });
  CHECK(recorded(k) == HERE(-2) +
                           ": error: cat: extents differ: lhs f32[4,8], rhs f32[2,4]\n  in kernel 'cat'\n"
                           "  help: all axes but axis 0 must be equal");
}

TEST_CASE("gather with an index of another shape") {
  const auto k = tw::kernel("gather", [](View x, Out y) {
    auto index = tw::zeros<int>(2, 8);
    tw::store(y, {0, 0}, tw::gather(tw::load(x, {0, 0}, {4, 8}), index, 1));
  });
  CHECK(recorded(k) == HERE(-2) +
                           ": error: gather: extents differ: the tile is f32[4,8], the index i32[2,8]\n"
                           "  in kernel 'gather'\n  help: all axes but axis 1 must be equal");
}

TEST_CASE("split, squeeze and topk of the wrong extent") {
  const auto split = tw::kernel("split", [](View x, Out y) {
    auto [a, b] = tw::split(tw::load(x, {0, 0}, {4, 8}));
    tw::store(y, {0, 0}, tw::expand(a + b, 1));
  });
  CHECK(recorded(split) == HERE(-3) +
                               ": error: split: the last axis of f32[4,8] has extent 8, not 2\n  in kernel 'split'\n"
                               "  help: use tw::reshape to make it a pair, or tw::slice");
  const auto squeeze =
      tw::kernel("squeeze", [](View x, Out y) { tw::store(y, {0, 0}, tw::squeeze(tw::load(x, {0, 0}, {4, 8}), 0)); });
  CHECK(recorded(squeeze) == HERE(-1) +
                                 ": error: squeeze: axis 0 of f32[4,8] has extent 4, not 1\n  in kernel 'squeeze'\n"
                                 "  help: reduce the axis, or merge it with another by tw::reshape");
  const auto topk = tw::kernel(
      "topk", [](View x, Out y) { tw::store(y, {0, 0}, tw::topk(tw::load(x, {0, 0}, {4, 8}), 9, 1).values); });
  CHECK(recorded(topk) == HERE(-1) +
                              ": error: topk: there are no 9 largest of the 8 along axis 1\n  in kernel 'topk'\n"
                              "  help: k is at least 1 and at most the axis' extent");
}

TEST_CASE("axes that are not there, and no bins") {
  const auto flip =
      tw::kernel("flip", [](View x, Out y) { tw::store(y, {0, 0}, tw::flip(tw::load(x, {0, 0}, {4, 8}), 2)); });
  CHECK(recorded(flip) == HERE(-1) + ": error: flip: there is no axis 2 in f32[4,8]\n  in kernel 'flip'");
  const auto sort =
      tw::kernel("sort", [](View x, Out y) { tw::store(y, {0, 0}, tw::sort(tw::load(x, {0, 0}, {4, 8}), -3)); });
  CHECK(recorded(sort) == HERE(-1) + ": error: sort: there is no axis -3 in f32[4,8]\n  in kernel 'sort'");
  const auto scan =
      tw::kernel("scan", [](View x, Out y) { tw::store(y, {0, 0}, tw::cumsum(tw::load(x, {0, 0}, {4, 8}), 5)); });
  CHECK(recorded(scan) == HERE(-1) + ": error: scan: there is no axis 5 in f32[4,8]\n  in kernel 'scan'");
  const auto bins = tw::kernel("bins", [](View x, Out y) {
    tw::store(y, {0, 0}, tw::histogram(tw::load(x, {0, 0}, {4, 8}).to<int>(), 0).to<float>());
  });
  CHECK(recorded(bins) ==
        HERE(-3) + ": error: histogram: 0 bins\n  in kernel 'bins'\n  help: there is at least one bin");
}

TEST_CASE("a combining function that does more than arithmetic on scalars") {
  const auto k = tw::kernel("function", [](View x, Out y) {
    auto v = tw::load(x, {0, 0}, {4, 8});
    auto sums =
        tw::scan(v, 1, [&](auto a, auto b) { return a + b * tw::sum(tw::sum(tw::load(x, {0, 0}, {1, 8}), 1), 0); });
    tw::store(y, {0, 0}, sums);
  });
  CHECK(recorded(k) ==
        HERE(-4) + ": error: scan: the combining function uses load, which is not arithmetic on scalars\n" + HERE(-4) +
            ": note: the scan is here\n  in kernel 'function'\n"
            "  help: compute it before the scan, as a tile or a scalar");
}

TEST_CASE("tiles of different extents combined together") {
  const auto k = tw::kernel("together", [](View x, Out y) {
    auto a = tw::load(x, {0, 0}, {4, 8}), b = tw::load(x, {0, 0}, {4, 4});
    auto [s, t] = tw::reduce(std::tuple(a, b), 1, [](auto l, auto r) {
      return std::tuple(std::get<0>(l) + std::get<0>(r), std::get<1>(l) + std::get<1>(r));
    });
    tw::store(y, {0, 0}, tw::expand(s + t, 1));
  });
  CHECK(recorded(k) == HERE(-5) +
                           ": error: reduce: extents differ: f32[4,8] and f32[4,4]\n  in kernel 'together'\n"
                           "  help: tiles that are combined together have the same extents");
}

// --- contracts at launch

namespace {

const auto careful = tw::kernel("careful", [](View x, Out y, tw::Scalar<int> steps, tw::Const<int> block) {
  tw::requires_(x.extent(1) % 8 == 0);
  tw::requires_(tw::same_extents(x, y), "equal extents");
  tw::requires_(tw::is_contiguous(x), "a contiguous input");
  tw::requires_(tw::aligned(x, 16));
  tw::requires_(steps > 0, "at least one step");
  tw::requires_(block <= 64, "a block of at most 64");
  tw::store(y, {0, 0}, tw::load(x, {0, 0}, {1, block}));
});
constexpr int careful_line = __LINE__ - 9;

struct Launches {
  tw::Device device = tw::Device::interpret();
  tw::Stream stream = device.stream();
  tw::Tensor<float> x = tw::Tensor<float>::zeros(device, {4, 8}), y = tw::Tensor<float>::zeros(device, {4, 8});
  std::string source = std::string(__FILE__).substr(std::string(__FILE__).rfind('/') + 1) + ":";
  template <class F>
  std::string refused(F f) {
    return message_of<tw::LaunchError>(f);
  }
};

}  // namespace

TEST_CASE_FIXTURE(Launches, "requirements that a launch breaks") {
  CHECK(refused([&] { careful.launch(stream, {1}, x, y, 1, 8); }) == "nothing thrown");
  const auto narrow = tw::Tensor<float>::zeros(device, {4, 7});
  CHECK(refused([&] { careful.launch(stream, {1}, narrow, narrow, 1, 8); }) ==
        HERE(-1) + ": error: kernel 'careful' requires what its source says: argument 1 has extent 7 along axis 1\n" +
            "  help: see the requirement at " + source + std::to_string(careful_line + 1));
  const auto other = tw::Tensor<float>::zeros(device, {5, 8});
  CHECK(refused([&] { careful.launch(stream, {1}, x, other, 1, 8); }) ==
        HERE(-1) +
            ": error: kernel 'careful' requires equal extents: argument 1 has extent 4 along axis 0, argument 2 has "
            "extent 5 along axis 0, argument 1 has extent 8 along axis 1, argument 2 has extent 8 along axis 1\n"
            "  help: see the requirement at " +
            source + std::to_string(careful_line + 2));
  const auto square = tw::Tensor<float>::zeros(device, {8, 8});
  const std::string transposed = refused([&] { careful.launch(stream, {1}, square.transpose(), square, 1, 8); });
  CHECK(transposed.find("requires a contiguous input: ") != std::string::npos);
  CHECK(transposed.find("argument 1 has stride 8 along axis 1") != std::string::npos);
  CHECK(refused([&] { careful.launch(stream, {1}, x, y, 0, 8); }) ==
        HERE(-1) + ": error: kernel 'careful' requires at least one step: a scalar argument is 0\n" +
            "  help: see the requirement at " + source + std::to_string(careful_line + 5));
  alignas(64) static std::array<float, 64> memory{};
  const auto shifted = tw::wrap(memory.data() + 1, {4, 8}, {8, 1}, device);
  CHECK(refused([&] { careful.launch(stream, {1}, shifted, y, 1, 8); }) ==
        HERE(-1) +
            ": error: kernel 'careful' requires its first element at a multiple of 16 bytes: argument 1 has an address "
            "that is a multiple of 4 bytes\n  help: see the requirement at " +
            source + std::to_string(careful_line + 4));
  // Checked again at every launch, also where the variant is known.
  CHECK(refused([&] { careful.launch(stream, {1}, x, y, 1, 8); }) == "nothing thrown");
  CHECK(refused([&] { careful.launch(stream, {1}, x, y, -1, 8); }) != "nothing thrown");
}

TEST_CASE_FIXTURE(Launches, "a requirement on constants is known when the kernel is recorded") {
  CHECK(message_of<tw::RecordError>([&] { careful.launch(stream, {1}, x, y, 1, 128); }) ==
        source + std::to_string(careful_line + 6) +
            ": error: requires_: the kernel's constants do not meet a block of at most 64\n"
            "  in kernel 'careful' with constants 128\n  help: launch it with other constants");
}

TEST_CASE("a requirement that hangs on more than the launch") {
  const auto k = tw::kernel("program", [](View x, Out y) {
    tw::requires_(tw::program_id(0) < x.extent(0));
    tw::store(y, {0, 0}, tw::load(x, {0, 0}, {1, 8}));
  });
  CHECK(recorded(k) == HERE(-3) +
                           ": error: requires_: the condition hangs on program_id, which is not known before the "
                           "launch\n  in kernel 'program'\n  help: use extents, strides and scalar arguments");
  const auto alignment = tw::kernel("alignment", [](View x, Out y) {
    tw::requires_(tw::aligned(x, 12));
    tw::store(y, {0, 0}, tw::load(x, {0, 0}, {1, 8}));
  });
  CHECK(recorded(alignment) == HERE(-3) +
                                   ": error: requires_: an alignment of 12 bytes\n  in kernel 'alignment'\n"
                                   "  help: an alignment is a power of two");
}
