// Mistakes found at a launch, by a tensor expression or by an op: the whole message, at the user's line.
// Runs on the host: every check happens before anything is compiled.
#include <doctest/doctest.h>

#include <array>

#include "message.h"

namespace tw = tileweave;

namespace {

const auto copy = tw::kernel(
    "copy", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Scalar<int> n, tw::Const<std::int8_t> c) {
      (void)n;
      (void)c;
      tw::store(y, {0}, tw::load(x, {0}, {8}));
    });

struct Fixture {
  tw::Device device = tw::Device::interpret();
  tw::Stream stream = device.stream();
  tw::Tensor<float> x = tw::Tensor<float>::zeros(device, {8}), y = tw::Tensor<float>::zeros(device, {8});
};

template <class F>
std::string refused(F f) {
  return message_of<tw::LaunchError>(f);
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "wrong rank") {
  const auto m = tw::Tensor<float>::zeros(device, {4, 2});
  CHECK(refused([&] { copy.launch(stream, {1}, m, y, 1, 1); }) ==
        HERE(-1) +
            ": error: kernel 'copy': argument 1 has 2 axes, extents {4, 2}; its parameter is a view of rank 1\n"
            "  help: reshape the tensor, or give the kernel a view of that rank");
}

TEST_CASE_FIXTURE(Fixture, "an empty handle") {
  CHECK(refused([&] { copy.launch(stream, {1}, x, tw::Tensor<float>(), 1, 1); }) ==
        HERE(-1) +
            ": error: kernel 'copy': argument 2 is an empty handle, not a tensor\n"
            "  help: make one, e.g. with tw::Tensor<T>::empty(device, {n})");
}

TEST_CASE_FIXTURE(Fixture, "a null pointer with elements") {
  const std::string text =
      refused([&] { copy.launch(stream, {1}, tw::wrap<float>(nullptr, {8}, {1}, device), y, 1, 1); });
  CHECK(text.find("null") != std::string::npos);
  CHECK(text.starts_with(HERE(-2) + ": error: "));
}

TEST_CASE_FIXTURE(Fixture, "a number that does not fit its parameter") {
  CHECK(refused([&] { copy.launch(stream, {1}, x, y, 5'000'000'000, 1); }) ==
        HERE(-1) +
            ": error: kernel 'copy': argument 3 is 5000000000, which does not fit i32\n"
            "  help: give the parameter a wider type, or pass a smaller number");
  CHECK(refused([&] { copy.launch(stream, {1}, x, y, 1, 128u); }) ==
        HERE(-1) +
            ": error: kernel 'copy': argument 4 is 128, which does not fit i8\n"
            "  help: give the parameter a wider type, or pass a smaller number");
}

TEST_CASE_FIXTURE(Fixture, "a negative grid") {
  CHECK(refused([&] { copy.launch(stream, {2, -3}, x, y, 1, 1); }) ==
        HERE(-1) +
            ": error: kernel 'copy': the grid has -3 programs along axis 1\n"
            "  help: a grid's axes are zero or more");
}

TEST_CASE_FIXTURE(Fixture, "a grid of 2^64 programs") {
  const std::string text = refused([&] { copy.launch(stream, {1LL << 40, 1LL << 24}, x, y, 1, 1); });
  CHECK(text == HERE(-1) +
                    ": error: grid {1099511627776, 16777216, 1}: with axis y the number of programs passes the limit "
                    "9223372036854775807 (2^63 - 1)\n  help: let each program do more work");
}

TEST_CASE_FIXTURE(Fixture, "an output whose elements share one place") {
  const auto one = tw::Tensor<float>::zeros(device, {1});
  CHECK(refused([&] { copy.launch(stream, {1}, x, one.broadcast_to({8}), 1, 1); }) ==
        HERE(-1) +
            ": error: kernel 'copy': argument 2 is written but has stride 0 along axis 0: many elements share one "
            "place\n  help: write to a tensor of its own and read the broadcast one through tw::View<const T, R>");
  std::array<float, 16> memory{};
  const auto folded = tw::wrap(memory.data(), {4, 3}, {1, 2}, device);
  const auto k = tw::kernel("two", [](tw::View<float, 2> out) { tw::store(out, {0, 0}, tw::zeros<float>(4, 4)); });
  CHECK(refused([&] { k.launch(stream, {1}, folded); }) ==
        HERE(-1) +
            ": error: kernel 'two': argument 1 is written but two of its elements share one place\n"
            "  help: write to a tensor of its own");
}

TEST_CASE_FIXTURE(Fixture, "tensor expressions: shapes, empty handles") {
  const auto m = tw::Tensor<float>::zeros(device, {4, 3});
  CHECK(refused([&] { tw::Tensor<float> z = m + x; }) ==
        HERE(-1) +
            ": error: tensor expression: extents {4, 3} and {8} do not broadcast: axis 1 has 3 and 8\n"
            "  help: the extents of an axis are equal, or one of them is 1");
  CHECK(refused([&] { tw::Tensor<float> z = x * tw::Tensor<float>(); }) ==
        HERE(-1) + ": error: tensor expression: an operand is an empty handle, not a tensor");
  CHECK(refused([&] { y.assign(x.slice(0, 0, 4) + 1); }) ==
        HERE(-1) +
            ": error: assign: the target has extents {8}, the expression {4}\n"
            "  help: assign to a tensor or view of the expression's shape");
}

TEST_CASE_FIXTURE(Fixture, "tensor expressions: a target that overlaps an operand elsewhere") {
  CHECK(refused([&] { x.slice(0, 0, 7).assign(x.slice(0, 1, 8) + 1); }) ==
        HERE(-1) +
            ": error: assign: the target, f32 of extents {7}, overlaps an operand, f32 of extents {7}, and is not "
            "the same view\n  help: assign to a new tensor, then copy");
  CHECK(refused([&] { x.assign(x + 1); }) == "nothing thrown");
  CHECK(x.to_host() == std::vector<float>(8, 1.0f));
}

TEST_CASE_FIXTURE(Fixture, "ops name the op, the operand and both shapes") {
  const auto m = tw::Tensor<float>::zeros(device, {4, 3});
  CHECK(refused([&] { tw::ops::layer_norm(m, x, x, 1e-5); }) ==
        HERE(-1) + ": error: layer_norm: weight has extents {8}, {3} is needed");
  CHECK(refused([&] { tw::ops::matmul(m, m); }) ==
        HERE(-1) + ": error: matmul: inner extents differ: a is {4, 3}, b is {4, 3}");
  CHECK(refused([&] { tw::ops::matmul(m, x); }) == HERE(0) + ": error: matmul: b has extents {8}, a matrix is needed");
  CHECK(refused([&] { tw::ops::softmax(m, 2); }) ==
        HERE(-1) + ": error: softmax: there is no axis 2 in a tensor of extents {4, 3}");
  CHECK(refused([&] { tw::ops::sum(tw::Tensor<float>(), 0); }) ==
        HERE(-1) + ": error: sum: x is an empty handle, not a tensor");
}

TEST_CASE_FIXTURE(Fixture, "after every refusal the next launch works") {
  const auto a = tw::Tensor<float>::from_host(device, {8}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(refused([&] { copy.launch(stream, {-1}, a, y, 1, 1); }) != "nothing thrown");
  copy.launch(stream, {1}, a, y, 1, 1);
  CHECK(y.to_host() == a.to_host());
  copy.launch(stream, {0}, a, x, 1, 1);  // legal: nothing runs
  CHECK(x.to_host() == std::vector<float>(8, 0.0f));
}

TEST_CASE_FIXTURE(Fixture, "options out of range") {
  CHECK(refused([&] { copy.launch(stream, {1}, x, y, 1, 1, {.warps = 3}); }) ==
        HERE(-1) +
            ": error: kernel 'copy': warps is not 0 or a power of two up to 32\n  help: 0 lets the compiler choose");
  CHECK(refused([&] { copy.launch(stream, {1}, x, y, 1, 1, {.stages = -1}); }) ==
        HERE(-1) + ": error: kernel 'copy': stages is not from 0 to 16\n  help: 0 lets the compiler choose");
}

TEST_CASE_FIXTURE(Fixture, "a literal that does not fit the tensor, and an axis that is not there") {
  const auto bytes = tw::Tensor<std::uint8_t>::zeros(device, {4});
  CHECK(refused([&] { tw::Tensor<std::uint8_t> z = bytes + 300; }) ==
        HERE(-1) +
            ": error: tensor expression: the literal 300 does not fit u8\n"
            "  help: convert the tensor to a wider type with .to<T>()");
  CHECK(refused([&] { tw::Tensor<std::uint8_t> z = bytes - (-1); }) ==
        HERE(-1) +
            ": error: tensor expression: the literal -1 does not fit u8\n"
            "  help: convert the tensor to a wider type with .to<T>()");
  CHECK(refused([&] { (void)x.extent(1); }) == HERE(0) + ": error: there is no axis 1 in a tensor of extents {8}");
}
