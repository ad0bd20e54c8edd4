// Tensors over a program's own memory: spans, vectors, arrays, pointers with extents, mdspans of any layout; and what
// is refused. Kernels read and write it in place. On a device that does not read host memory only the refusals are
// checked.
#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <span>
#include <string>

#include "reference.h"

namespace {

// As std::mdspan (C++23) with layout_stride, which g++ 12 does not have.
template <class T, std::size_t R>
struct Strided {
  T* handle;
  std::array<std::size_t, R> extents;
  std::array<std::ptrdiff_t, R> strides;
  bool strided = true;

  static constexpr std::size_t rank() { return R; }
  T* data_handle() const { return handle; }
  std::size_t extent(std::size_t r) const { return extents[r]; }
  std::ptrdiff_t stride(std::size_t r) const { return strides[r]; }
  bool is_strided() const { return strided; }
};
static_assert(tw::MdspanLike<Strided<float, 2>> && !tw::MdspanLike<std::vector<float>>);

const auto doubled = tw::kernel("doubled", [](tw::View<float, 2> x, tw::Const<int> cols) {
  auto row = tw::program_id(0);
  tw::store(x, {row, 0}, tw::load(x, {row, 0}, {1, cols}) * 2.0f);
});

void run(const tw::Tensor<float>& x) {
  doubled.launch(device().stream(), {x.extent(0)}, x, static_cast<int>(x.extent(1)));
  device().synchronize();
}

std::vector<float> numbers(std::size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 1.0f);
  return v;
}

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const tw::LaunchError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("vectors, arrays and spans are used where they are") {
  if (!device().is_host()) return;
  std::vector<float> v = numbers(6);
  run(tw::wrap(v, {2, 3}, device()));
  CHECK(v == std::vector<float>{2, 4, 6, 8, 10, 12});
  std::array<float, 4> a = {1, 2, 3, 4};
  run(tw::wrap(a, {1, 4}, device()));
  CHECK(a == std::array<float, 4>{2, 4, 6, 8});
  run(tw::wrap(std::span(v).subspan(1, 4), {4, 1}, device()));
  CHECK(v == std::vector<float>{2, 8, 12, 16, 20, 12});
  run(tw::wrap(v.data(), {3, 2}, device()));
  CHECK(v[5] == 24);
  const auto flat = tw::wrap(v, device());
  CHECK(flat.dims() == 1);
  CHECK(flat.extent(0) == 6);
  CHECK(flat.data() == v.data());
  float plain[3] = {1, 2, 3};
  CHECK(tw::wrap(plain, device()).extent(0) == 3);
}

TEST_CASE("an mdspan keeps its layout") {
  if (!device().is_host()) return;
  std::vector<float> v = numbers(12);
  // Column-major 2 x 3 with a gap, from the second element.
  run(tw::wrap(Strided<float, 2>{v.data() + 1, {2, 3}, {1, 4}}, device()));
  CHECK(v == std::vector<float>{1, 4, 6, 4, 5, 12, 14, 8, 9, 20, 22, 12});
  const auto scalar = tw::wrap(Strided<float, 1>{v.data(), {0}, {1}}, device());
  CHECK(scalar.size() == 0);
}

TEST_CASE("memory that does not fit is refused with both sizes") {
  std::vector<float> v = numbers(6);
  const std::string few = message_of([&] { tw::wrap(std::span(v), {2, 4}, device()); });
  CHECK(few.find("wrap: extents {2, 4} have 8 elements, the memory has 6") != std::string::npos);
  const std::string many =
      message_of([&] { tw::wrap(std::span(v), {tw::index_t{1} << 40, tw::index_t{1} << 40}, device()); });
  CHECK(many.find("have too many elements, the memory has 6") != std::string::npos);
  const std::string negative = message_of([&] { tw::wrap(v.data(), {-1, 6}, device()); });
  CHECK(negative.find("-1") != std::string::npos);
  const std::string unstrided = message_of([&] { tw::wrap(Strided<float, 1>{v.data(), {6}, {1}, false}, device()); });
  CHECK(unstrided.find("wrap: this mdspan's layout has no strides") != std::string::npos);
  if (device().is_host()) return;
  const std::string host = message_of([&] { tw::wrap(v, device()); });
  CHECK(host.find("a container's elements are in host memory") != std::string::npos);
}
