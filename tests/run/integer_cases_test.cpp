// Cases from the field on integers and addressing: division, ceiling division, narrow unsigned indices, i8 products,
// offsets beyond 31 bits, grids. Run on the device that TILEWEAVE_DEVICE names.
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <memory>

#include "reference.h"

namespace {

const auto divisions =
    tw::kernel("divisions", [](tw::View<const int, 1> x, tw::View<const int, 1> d, tw::View<int, 2> out,
                               tw::Specialized<int> known, tw::Const<int> constant) {
      auto a = tw::load(x, {0}, {4}), b = tw::load(d, {0}, {4});
      tw::store(out, {0, 0}, a / b);
      tw::store(out, {1, 0}, a % b);
      tw::store(out, {2, 0}, a / known);
      tw::store(out, {3, 0}, a % known);
      tw::store(out, {4, 0}, a / constant);
      tw::store(out, {5, 0}, a % constant);
      // All literals: the same rules when the kernel is recorded.
      tw::store(out, {6, 0}, tw::full<int>(-7, 4) / constant);
      tw::store(out, {7, 0}, tw::full<int>(-7, 4) % constant);
    });

const auto ceilings =
    tw::kernel("ceilings", [](tw::View<const int, 1> x, tw::View<const int, 1> d, tw::View<int, 1> y) {
      tw::store(y, {0}, tw::cdiv(tw::load(x, {0}, {8}), tw::load(d, {0}, {8})));
    });

template <class I>
const auto picks = tw::kernel(
    "picks", [](tw::View<const float, 1> x, tw::View<const I, 1> at, tw::View<float, 1> y, tw::Const<int> n) {
      tw::store(y, {0}, tw::load(x.ptr() + tw::load(at, {0}, {n})));
      tw::store(y, {n}, tw::load_at(x, std::tuple(tw::load(at, {0}, {n}))));
    });

const auto bytes_at = tw::kernel(
    "bytes_at", [](tw::View<const std::int8_t, 1> x, tw::View<const std::uint32_t, 1> at, tw::View<std::int8_t, 1> y) {
      tw::store(y, {0}, tw::load_at(x, std::tuple(tw::load(at, {0}, {2}))));
    });

const auto i8_product = tw::kernel("i8_product", [](tw::View<const std::int8_t, 2> a, tw::View<const std::int8_t, 2> b,
                                                    tw::View<int, 2> c, tw::Const<int> block) {
  tw::Var acc = tw::zeros<int>(2, 2);
  for (auto k : tw::range(0, a.extent(1), block)) {
    acc = tw::dot(tw::load(a, {0, k}, {2, block}), tw::load(b, {k, 0}, {block, 2}), acc);
  }
  tw::store(c, {0, 0}, acc);
});

// Address space that takes no memory before it is touched.
class Reservation {
 public:
  explicit Reservation(std::size_t bytes) : bytes_(bytes) {
    data_ = static_cast<std::int8_t*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    REQUIRE(data_ != MAP_FAILED);
  }
  ~Reservation() { munmap(data_, bytes_); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  std::int8_t* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::int8_t* data_;
};

bool on_host() { return device().kind() != tw::DeviceKind::cuda; }

}  // namespace

TEST_CASE("case 1: division of negatives truncates in every spelling") {
  const std::vector<int> x{-7, -6, 7, 6};
  for (const int d : {2, -2, 3, -3}) {
    const auto out = tw::Tensor<int>::zeros(device(), {8, 4});
    divisions.launch(device().stream(), {1}, tw::Tensor<int>::from_host(device(), {4}, x),
                     tw::Tensor<int>::from_host(device(), {4}, std::vector<int>(4, d)), out, d, d);
    std::vector<int> expected;
    for (int spelling = 0; spelling < 3; ++spelling) {
      for (const int v : x) expected.push_back(v / d);
      for (const int v : x) expected.push_back(v % d);
    }
    expected.insert(expected.end(), 4, -7 / d);
    expected.insert(expected.end(), 4, -7 % d);
    CHECK(out.to_host() == expected);
  }
}

TEST_CASE("case 2: ceiling division of negatives and near the largest integer") {
  const auto x = tensor<int>({8}, {-36, 0, 1, 128, 2147483647, 36, -36, 7}),
             d = tensor<int>({8}, {5, 128, 128, 128, 1024, -5, -5, 0});
  const auto y = tw::Tensor<int>::zeros(device(), {8});
  ceilings.launch(device().stream(), {1}, x, d, y);
  CHECK(y.to_host() == std::vector<int>{-7, 0, 1, 1, 2097152, -7, 8, 0});
  CHECK(tw::cdiv(-36, 5) == -7);
  CHECK(tw::cdiv(2147483647, 1024) == 2097152);
}

TEST_CASE("case 4: narrow unsigned indices are never negative") {
  const auto x = tensor<float>({256}, counting(256)), y = tw::Tensor<float>::zeros(device(), {512});
  picks<std::uint8_t>.launch(device().stream(), {1}, x, tensor<std::uint8_t>({256}, counting(256)), y, 256);
  std::vector<double> expected = counting(256);
  expected.insert(expected.end(), expected.begin(), expected.begin() + 256);
  CHECK(doubles(y) == expected);
  const auto wide = tensor<float>({65536}, counting(65536)), two = tw::Tensor<float>::zeros(device(), {4});
  picks<std::uint16_t>.launch(device().stream(), {1}, wide, tensor<std::uint16_t>({2}, {60000, 65535}), two, 2);
  CHECK(doubles(two) == std::vector<double>{60000, 65535, 60000, 65535});
}

TEST_CASE("case 4: a u32 index past 2^31 into bytes" * doctest::skip(!on_host())) {
  const Reservation memory((std::size_t{1} << 31) + 16);
  memory.data()[(std::size_t{1} << 31) + 5] = 77;
  memory.data()[3] = 11;
  const auto x = tw::wrap<std::int8_t>(memory.data(), {(tw::index_t{1} << 31) + 16}, {1}, device());
  const auto y = tw::Tensor<std::int8_t>::zeros(device(), {2});
  bytes_at.launch(device().stream(), {1}, x, tensor<std::uint32_t>({2}, {2147483653.0, 3}), y);
  CHECK(y.to_host() == std::vector<std::int8_t>{77, 11});
}

TEST_CASE("case 5: i8 products accumulate in i32") {
  const auto a = tensor<std::int8_t>({2, 2}, {-44, -20, -126, 6}),
             b = tensor<std::int8_t>({2, 2}, {24, -75, 127, -101});
  const auto c = tw::Tensor<int>::zeros(device(), {2, 2});
  for (const int block : {1, 2, 4, 16, 32}) {  // zero-padded to the block
    i8_product.launch(device().stream(), {1}, a, b, c, block);
    CHECK(c.to_host() == std::vector<int>{-3596, 5320, -2262, 8844});
  }
  for (const auto& [depth, sum] : {std::pair(2049, 33048321), std::pair(2052, 33096708)}) {
    const auto ones = tensor<std::int8_t>({2, depth}, std::vector<double>(2 * depth, 127));
    for (const int block : {16, 32}) {
      i8_product.launch(device().stream(), {1}, ones, ones.transpose(), c, block);
      CHECK(c.to_host() == std::vector<int>(4, sum));
    }
  }
}

TEST_CASE("case 7: offsets beyond 31 bits" * doctest::skip(!on_host())) {
  const Reservation memory((std::size_t{17} << 27) + 64);
  const auto rows = tw::wrap<std::int8_t>(memory.data(), {18, 1}, {tw::index_t{1} << 27, 1}, device());
  const auto mark = tw::kernel("mark", [](tw::View<std::int8_t, 2> x) {
    auto row = tw::program_id(0);
    tw::store(x, {row, 0}, (row + 1).to<std::int8_t>());
  });
  mark.launch(device().stream(), {18}, rows);
  for (std::size_t r = 0; r < 18; ++r) CHECK(memory.data()[r << 27] == static_cast<std::int8_t>(r + 1));

  memory.data()[std::size_t{16} << 27] = 0;
  const tw::index_t length = (tw::index_t{1} << 31) + 7;
  const auto all = tw::wrap<std::int8_t>(memory.data(), {length}, {1}, device());
  const auto add = tw::kernel("add_one", [](tw::View<std::int8_t, 1> x, tw::Scalar<tw::index_t> first) {
    auto at = first + tw::program_id(0) * 16;
    tw::store(x, {at}, tw::load(x, {at}, {16}) + 1);
  });
  add.launch(device().stream(), {2}, all, (tw::index_t{1} << 31) - 16);
  for (tw::index_t i = length - 7; i < length; ++i) CHECK(memory.data()[i] == 1);
  CHECK(memory.data()[length] == 0);  // beyond the end

  // The strides of a packed 49152 x 65536 matrix.
  const auto packed = tw::wrap<std::int8_t>(memory.data(), {49152, 65536}, {65536, 1}, device());
  CHECK(packed.size() == 3221225472);
}

TEST_CASE("case 8: grids beyond an axis' limit are folded, with the right program ids") {
  const auto where = tw::kernel("where", [](tw::View<std::int64_t, 2> out) {
    auto y = tw::program_id(1);
    tw::if_(y >= 70000 - 3, [&] {
      tw::store(out, {y - (70000 - 3), 0}, y);
      tw::store(out, {y - (70000 - 3), 1}, tw::num_programs(1) * 1000 + tw::program_id(0));
    });
  });
  const auto out = tw::Tensor<std::int64_t>::zeros(device(), {3, 2});
  where.launch(device().stream(), {1, 70000, 1}, out);
  CHECK(out.to_host() == std::vector<std::int64_t>{69997, 70000000, 69998, 70000000, 69999, 70000000});
}
