// Tensors over memory that a C++ program has already: spans, vectors, arrays, pointers with extents, and mdspans.
// Over Tensor (tensor.h). The memory stays its owner's: never freed, copied or ordered by us.
#pragma once

#include <concepts>
#include <ranges>
#include <span>
#include <vector>

#include "tileweave/dsl/tensor.h"

namespace tileweave {

namespace detail {

// Strides of a row-major tensor without gaps; the extents are checked where the tensor is made.
inline Shape row_major(const Shape& extents) {
  const runtime::Dims& e = extents.dims();
  runtime::Dims strides = runtime::Dims::filled(e.rank(), 1);
  for (int i = std::min(e.rank(), runtime::max_rank) - 2; i >= 0; --i) {
    // Unsigned: what overflows is refused for its size.
    strides[i] = static_cast<index_t>(static_cast<std::uint64_t>(strides[i + 1]) *
                                      static_cast<std::uint64_t>(std::max<index_t>(e[i + 1], 1)));
  }
  return Shape(strides);
}

// Elements that the extents ask for; SIZE_MAX where there are more than a size can say.
inline std::size_t elements_of(const Shape& extents) {
  std::size_t n = 1;
  for (const index_t e : extents.dims()) {
    if (__builtin_mul_overflow(n, static_cast<std::size_t>(e), &n)) return SIZE_MAX;
  }
  return n;
}

template <class R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                       ElementType<std::remove_cv_t<std::ranges::range_value_t<R>>>;
template <class R>
using range_pointer_t = decltype(std::ranges::data(std::declval<R&>()));
template <class R>
concept WritableRange = ElementRange<R> && !std::is_const_v<std::remove_pointer_t<range_pointer_t<R>>>;
// A vector, an array and their like own their elements, in host memory; a span may see a device's.
template <class R>
concept OwningRange = !std::ranges::view<std::remove_cvref_t<R>>;

template <class R>
void check_range(const R& range, const Shape& extents, const Device& device, const Place& p) {
  const auto n = static_cast<std::size_t>(std::ranges::size(range));
  if (OwningRange<R> && !device.is_host()) {
    throw_launch_error(p, "wrap: a container's elements are in host memory, and " + device.name() + " does not read it",
                       "copy them with tw::Tensor<T>::from_host, or wrap a std::span of memory on the device");
  }
  const std::size_t wanted = elements_of(extents);
  if (wanted != n) {
    throw_launch_error(p,
                       "wrap: extents " + runtime::to_string(extents.dims()) + " have " +
                           (wanted == SIZE_MAX ? std::string("too many") : std::to_string(wanted)) +
                           " elements, the memory has " + std::to_string(n),
                       "give extents whose product is the number of elements");
  }
}

}  // namespace detail

// What std::mdspan has, whoever's it is: a pointer to the element with all indices 0, and for each axis an extent and a
// stride in elements.
template <class M>
concept MdspanLike = requires(const M& m) {
  { M::rank() } -> std::convertible_to<std::size_t>;
  { m.extent(0) } -> std::convertible_to<index_t>;
  { m.stride(0) } -> std::convertible_to<index_t>;
  requires std::is_pointer_v<std::remove_cvref_t<decltype(m.data_handle())>>;
  requires ElementType<std::remove_cv_t<std::remove_pointer_t<std::remove_cvref_t<decltype(m.data_handle())>>>>;
};

// Row-major memory from a pointer and extents.
template <ElementType T>
  requires(!std::is_const_v<T>)
Tensor<T> wrap(T* pointer, const Shape& extents, const Device& device,
               const Place& p = std::source_location::current()) {
  return wrap(pointer, extents, detail::row_major(extents), device, p);
}

// One axis over a span, vector or array; or any extents with as many elements, row-major.
template <detail::WritableRange R>
auto wrap(R&& range, const Device& device, const Place& p = std::source_location::current()) {
  const Shape extents{static_cast<index_t>(std::ranges::size(range))};
  detail::check_range(range, extents, device, p);
  return wrap(std::ranges::data(range), extents, device, p);
}
template <detail::WritableRange R>
auto wrap(R&& range, const Shape& extents, const Device& device, const Place& p = std::source_location::current()) {
  detail::check_range(range, extents, device, p);
  return wrap(std::ranges::data(range), extents, device, p);
}

// An mdspan of any layout that has strides.
template <MdspanLike M>
  requires(
      !std::is_const_v<std::remove_pointer_t<std::remove_cvref_t<decltype(std::declval<const M&>().data_handle())>>>)
auto wrap(const M& m, const Device& device, const Place& p = std::source_location::current()) {
  if constexpr (requires { m.is_strided(); }) {
    if (!m.is_strided()) {
      throw_launch_error(p, "wrap: this mdspan's layout has no strides", "copy its elements into a layout that has");
    }
  }
  std::vector<index_t> extents, strides;
  for (std::size_t r = 0; r < M::rank(); ++r) {
    extents.push_back(static_cast<index_t>(m.extent(r)));
    strides.push_back(static_cast<index_t>(m.stride(r)));
  }
  return wrap(m.data_handle(), Shape(extents), Shape(strides), device, p);
}

#define TILEWEAVE_CONST_MEMORY \
  "wrap: the memory is const, and a tensor can be written: copy it with tw::Tensor<T>::from_host"
template <class T>
TILEWEAVE_REFUSED(TILEWEAVE_CONST_MEMORY)
Tensor<T> wrap(const T*, const Shape&, const Device&);
template <class R>
  requires(detail::ElementRange<const R> && !detail::WritableRange<const R>)
TILEWEAVE_REFUSED(TILEWEAVE_CONST_MEMORY)
int wrap(const R&, const Device&);
template <class R>
  requires(detail::ElementRange<const R> && !detail::WritableRange<const R>)
TILEWEAVE_REFUSED(TILEWEAVE_CONST_MEMORY)
int wrap(const R&, const Shape&, const Device&);
#undef TILEWEAVE_CONST_MEMORY

}  // namespace tileweave
