// Escape hatches: a user's own device function in CUDA C++, or a piece of PTX, applied to each element of tiles.
// Over tile.h. On the GPU the text is compiled into the kernel; elsewhere the host twin runs, a C++ function of the
// user's that does the same.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "tileweave/dsl/tile.h"
#include "tileweave/jit/base/host_function.h"

namespace tileweave {

namespace detail {

template <class T>
concept ExternalElem =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::uint32_t> || std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t>;

struct NoTwin {};

// The twin over arrays, as the kernels call it.
template <class F, class R, class... A>
struct Twin {
  static void run(void* result, const void* const* operands, std::int64_t count) {
    run(result, operands, count, std::index_sequence_for<A...>{});
  }

 private:
  template <std::size_t... K>
  static void run(void* result, const void* const* operands, std::int64_t count, std::index_sequence<K...>) {
    for (std::int64_t i = 0; i < count; ++i) {
      static_cast<R*>(result)[i] = static_cast<R>(F{}(static_cast<const A*>(operands[K])[i]...));
    }
  }
};

}  // namespace detail

// What tw::cuda_function and tw::inline_ptx give: called with tiles (or numbers) inside a kernel.
template <class Signature, class F>
class DeviceFunction;

template <class R, class... A, class F>
class DeviceFunction<R(A...), F> {
 public:
  static_assert((detail::ExternalElem<R> && ... && detail::ExternalElem<A>),
                "a device function takes and gives float, double and 32- or 64-bit integers");
  static_assert(sizeof...(A) >= 1 && sizeof...(A) <= 8, "a device function has one to eight parameters");

  DeviceFunction(std::string_view name, std::string_view text, std::string_view constraints)
      : name_(record::external_name(name, text, constraints, dtypes, sizeof...(A) + 1)),
        text_(text),
        constraints_(constraints) {
    if constexpr (!std::same_as<F, detail::NoTwin>) register_host_function(name_, &detail::Twin<F, R, A...>::run);
  }

  // One call for each element of the operands, broadcast to one shape; valid where all operands are.
  template <Operand... E>
    requires(sizeof...(E) == sizeof...(A) && (... && ConvertsTo<E, A>))
  auto operator()(const E&... e) const {
    constexpr int rank = std::max({0, rank_v<E>...});
    const record::Raw operands[] = {record_as(e, dtype_of<A>, {})...};
    return Tile<R, rank>(record::external(name_, text_, constraints_, operands, dtype_of<R>, {}));
  }
  template <Operand... E>
    requires(sizeof...(E) != sizeof...(A))
  TILEWEAVE_REFUSED("wrong number of arguments for this device function")
  int operator()(const E&...) const;
  template <Operand... E>
    requires(sizeof...(E) == sizeof...(A) && !(... && ConvertsTo<E, A>))
  TILEWEAVE_REFUSED("an argument has another element type than the device function's parameter: use .to<T>()")
  int operator()(const E&...) const;

 private:
  static constexpr Dtype dtypes[] = {dtype_of<R>, dtype_of<A>...};
  std::string name_, text_, constraints_;
};

// A `__device__` function in CUDA C++, compiled by NVRTC (which is loaded at run time; a kernel that is in the cache
// needs it no more) and called once an element:
//   const auto mix = tw::cuda_function<float(float, float)>("mix",
//       "__device__ float mix(float a, float b) { return __fmaf_rn(a, 0.5f, b); }",
//       [](float a, float b) { return std::fma(a, 0.5f, b); });
// `twin` is the same for the CPU, a lambda without captures; without one only a GPU can run the kernel.
template <class Signature, class F = detail::NoTwin>
DeviceFunction<Signature, F> cuda_function(std::string_view name, std::string_view source, F = {}) {
  static_assert(std::is_empty_v<F>, "the host twin captures nothing");
  return {name, source, {}};
}

// A piece of PTX with operands $0 (the result), $1, $2, ... and LLVM's constraints for PTX: "=f" a float result, f d r
// l operands of 32- and 64-bit floats and integers.
//   const auto approximate = tw::inline_ptx<float(float)>("ex2.approx.f32 $0, $1;", "=f,f",
//       [](float a) { return std::exp2(a); });
template <class Signature, class F = detail::NoTwin>
DeviceFunction<Signature, F> inline_ptx(std::string_view text, std::string_view constraints, F = {}) {
  static_assert(std::is_empty_v<F>, "the host twin captures nothing");
  return {"inline_ptx", text, constraints};
}

}  // namespace tileweave
