// Tensor<T>: a typed array on a device, a leaf of tensor expressions and the argument for a View parameter.
// Over runtime::AnyTensor, which owns memory, strides and copies; expressions are evaluated in tensor_expr.h.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tileweave/dsl/tile.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/npy.h"
#include "tileweave/jit/runtime/random.h"
#include "tileweave/jit/runtime/tensor.h"

namespace tileweave {

// Extents, strides or axes in braces: integers of any type.
class Shape {
 public:
  template <std::integral... I>
  Shape(I... i) : dims_{static_cast<index_t>(i)...} {}
  Shape(const runtime::Dims& d) : dims_(d) {}
  Shape(const std::vector<index_t>& v) : dims_(v) {}
  const runtime::Dims& dims() const { return dims_; }

 private:
  runtime::Dims dims_;
};

namespace detail {
// Evaluates a tensor expression into a new tensor, or into an existing one; defined in tensor_expr.h.
template <class T, class E>
runtime::AnyTensor evaluate(const E& e, const Place& p);
template <class T, class E>
void evaluate_into(const runtime::AnyTensor& out, const E& e, const Stream* stream, const Place& p);

template <class E>
inline constexpr bool is_tensor = false;
template <class T>
inline constexpr bool is_tensor<Tensor<T>> = true;
}  // namespace detail

template <class E>
concept TensorNode = Node<E> && leaf_v<E> == Leaf::tensor;

// A strided array on a device. A cheap handle: copies share the memory.
template <class T>
class Tensor : public NodeBase<Tensor<T>> {
 public:
  static_assert(ElementType<T>, "a tensor's element is one of the language's element types");
  using elem = canonical_t<T>;
  static constexpr int rank = any_rank, nodes = 1;
  static constexpr bool weak = false;
  static constexpr Leaf leaf = Leaf::tensor;
  using Base = NodeBase<Tensor<T>>;

  Tensor() = default;
  explicit Tensor(runtime::AnyTensor any) : any_(std::move(any)) {}
  // Runs the expression as one kernel, into a new tensor.
  template <Node E>
    requires(!std::same_as<E, Tensor> && leaf_v<E> == Leaf::tensor && std::same_as<elem_t<E>, elem>)
  Tensor(const E& e, const Place& p = std::source_location::current()) : any_(detail::evaluate<elem>(e, p)) {}
  template <Node E>
    requires(leaf_v<E> == Leaf::tensor && !std::same_as<elem_t<E>, elem>)
  TILEWEAVE_REFUSED("the expression has another element type than the tensor: convert it with .to<T>()")
  Tensor(const E&);

  // Row-major, uninitialised.
  static Tensor empty(const Device& device, const Shape& extents, Memory memory = Memory::device,
                      const Place& p = std::source_location::current()) {
    return Tensor(runtime::AnyTensor::empty(device, dtype_of<T>, extents.dims(), memory, p));
  }
  static Tensor zeros(const Device& device, const Shape& extents, Memory memory = Memory::device,
                      const Place& p = std::source_location::current()) {
    return Tensor(runtime::AnyTensor::zeros(device, dtype_of<T>, extents.dims(), memory, p));
  }
  // A copy of host values, row-major.
  static Tensor from_host(const Device& device, const Shape& extents, std::span<const T> values,
                          Memory memory = Memory::device, const Place& p = std::source_location::current()) {
    return Tensor(runtime::AnyTensor::from_host(device, dtype_of<T>, extents.dims(), std::as_bytes(values), memory, p));
  }
  static Tensor load_npy(const std::string& path, const Device& device, Memory memory = Memory::device,
                         const Place& p = std::source_location::current());
  void save_npy(const std::string& path, const Place& p = std::source_location::current()) const {
    runtime::save_npy(path, any_, p);
  }

  bool defined() const { return any_.defined(); }
  int dims() const { return any_.rank(); }
  // Negative axes count from the end.
  index_t extent(int axis, const Place& p = std::source_location::current()) const {
    return any_.extent(checked_axis(axis, p));
  }
  index_t stride(int axis, const Place& p = std::source_location::current()) const {
    return any_.stride(checked_axis(axis, p));
  }
  Shape shape() const { return Shape(any_.extents()); }
  index_t size() const { return any_.size(); }
  T* data() const { return static_cast<T*>(any_.data()); }
  Device device() const { return any_.device(); }
  bool is_contiguous() const { return any_.is_contiguous(); }

  // Writes the expression into this tensor's own memory, which other handles and views share.
  template <Node E>
    requires(leaf_v<E> == Leaf::tensor && std::same_as<elem_t<E>, elem>)
  const Tensor& assign(const E& e, const Place& p = std::source_location::current()) const {
    detail::evaluate_into<elem>(any_, e, nullptr, p);
    return *this;
  }
  template <Node E>
    requires(leaf_v<E> == Leaf::tensor && std::same_as<elem_t<E>, elem>)
  const Tensor& assign(const E& e, const Stream& stream, const Place& p = std::source_location::current()) const {
    detail::evaluate_into<elem>(any_, e, &stream, p);
    return *this;
  }

  // The elements in row-major order; waits for the work that makes them.
  std::vector<T> to_host(const Place& p = std::source_location::current()) const {
    if constexpr (std::same_as<T, bool>) {
      std::vector<T> out;
      for (const std::byte b : any_.to_host(p)) out.push_back(b != std::byte{0});
      return out;
    } else {
      std::vector<T> out(static_cast<std::size_t>(any_.size()));
      any_.to_host(std::as_writable_bytes(std::span(out)), p);
      return out;
    }
  }
  void copy_from(const Tensor& source, const Place& p = std::source_location::current()) const {
    any_.copy_from(source.any_, nullptr, p);
  }
  void copy_from(const Tensor& source, const Stream& stream, const Place& p = std::source_location::current()) const {
    any_.copy_from(source.any_, &stream, p);
  }
  void copy_from(std::span<const T> values, const Place& p = std::source_location::current()) const {
    any_.copy_from_host(std::as_bytes(values), p);
  }
  using Base::to;
  // A row-major copy on another device.
  Tensor to(const Device& device, const Place& p = std::source_location::current()) const {
    return Tensor(any_.to(device, p));
  }

  // Views: the same memory.
  Tensor transpose(int axis_a = -2, int axis_b = -1, const Place& p = std::source_location::current()) const {
    return Tensor(any_.transpose(axis_a, axis_b, p));
  }
  Tensor permute(const Shape& axes, const Place& p = std::source_location::current()) const {
    return Tensor(any_.permute(axes.dims(), p));
  }
  Tensor slice(int axis, index_t lo, index_t hi, index_t step = 1,
               const Place& p = std::source_location::current()) const {
    return Tensor(any_.slice(axis, lo, hi, step, p));
  }
  Tensor flip(int axis, const Place& p = std::source_location::current()) const { return Tensor(any_.flip(axis, p)); }
  Tensor select(int axis, index_t index, const Place& p = std::source_location::current()) const {
    return Tensor(any_.select(axis, index, p));
  }
  Tensor squeeze(int axis, const Place& p = std::source_location::current()) const {
    return Tensor(any_.squeeze(axis, p));
  }
  Tensor unsqueeze(int axis, const Place& p = std::source_location::current()) const {
    return Tensor(any_.unsqueeze(axis, p));
  }
  Tensor broadcast_to(const Shape& extents, const Place& p = std::source_location::current()) const {
    return Tensor(any_.broadcast_to(extents.dims(), p));
  }
  Tensor reshape(const Shape& extents, const Place& p = std::source_location::current()) const {
    return Tensor(any_.reshape(extents.dims(), p));
  }
  template <ElementType U>
  Tensor<U> view_as(const Place& p = std::source_location::current()) const {
    return Tensor<U>(any_.view_as(dtype_of<U>, p));
  }
  // Itself where it is row-major without gaps, else a copy that is.
  Tensor contiguous(const Place& p = std::source_location::current()) const { return Tensor(any_.contiguous(p)); }

  const runtime::AnyTensor& any() const { return any_; }

  // --- as a leaf of an expression
  template <class C>
  record::Raw record(C& context, Dtype want) const {
    const record::Raw r = context.tensor();
    return want == dtype_of<elem> ? r : record::convert(r, want, false, context.place);
  }
  template <class S>
  Tensor bind(const S&) const {
    return *this;
  }
  template <class Visit>
  void leaves(Visit&& visit, Dtype want) const {
    visit(*this, want);
  }

 private:
  int checked_axis(int axis, const Place& p) const {
    const int at = axis < 0 ? axis + any_.rank() : axis;
    if (at >= 0 && at < any_.rank()) return at;
    throw_launch_error(p, "there is no axis " + std::to_string(axis) + " in a tensor of extents " +
                              runtime::to_string(any_.extents()));
  }

  runtime::AnyTensor any_;
};

namespace detail {
runtime::AnyTensor load_npy_as(const std::string& path, Dtype dtype, const Device& device, Memory memory,
                               const Place& p);
}

template <class T>
Tensor<T> Tensor<T>::load_npy(const std::string& path, const Device& device, Memory memory, const Place& p) {
  return Tensor(detail::load_npy_as(path, dtype_of<T>, device, memory, p));
}

// Other people's memory: never freed or ordered by us. Strides in elements.
template <class T>
Tensor<T> wrap(T* pointer, const Shape& extents, const Shape& strides, const Device& device,
               const Place& p = std::source_location::current()) {
  return Tensor<T>(runtime::AnyTensor::wrap(pointer, dtype_of<T>, extents.dims(), strides.dims(), device, p));
}

// Standard normal numbers; the same for a seed on every device.
template <FloatElem T>
Tensor<T> random_normal(const Device& device, const Shape& extents, std::uint64_t seed,
                        const Place& p = std::source_location::current()) {
  return Tensor<T>(runtime::random_normal(device, dtype_of<T>, extents.dims(), seed, p));
}
// Uniform in [lo, hi).
template <ElementType T>
Tensor<T> random_uniform(const Device& device, const Shape& extents, std::uint64_t seed, double lo = 0, double hi = 1,
                         const Place& p = std::source_location::current()) {
  return Tensor<T>(runtime::random_uniform(device, dtype_of<T>, extents.dims(), seed, lo, hi, p));
}

}  // namespace tileweave
