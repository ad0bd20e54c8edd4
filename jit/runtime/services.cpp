// The functions that compiled CPU kernels call, and the table the loader resolves them from.
// Nothing here throws: no exception may cross a kernel.
#include "tileweave/jit/runtime/services.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "tileweave/jit/runtime/launch.h"

namespace tileweave::runtime {
namespace {

template <class T>
std::string number_text(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(static_cast<float>(value)));
    if constexpr (std::is_same_v<T, double>) std::snprintf(text, sizeof text, "%.17g", value);
    return text;
  }
}

template <class R, class... A>
void* address(R (*f)(A...)) {
  return reinterpret_cast<void*>(f);
}
using F1 = float (*)(float);
using D1 = double (*)(double);
using F3 = float (*)(float, float, float);
using D3 = double (*)(double, double, double);

}  // namespace

extern "C" void tileweave_assert_failed(void* services, const char* message, std::int64_t program) noexcept {
  auto& s = *static_cast<LaunchServices*>(services);
  if (s.failed_assert.load(std::memory_order_relaxed) != nullptr) return;
  try {
    const char* const kept = intern(message);
    const char* none = nullptr;
    if (s.failed_assert.compare_exchange_strong(none, kept)) s.failed_program = program;
  } catch (const std::bad_alloc&) {
    s.failed_assert = "(no memory for the message)";
  }
}

extern "C" void tileweave_print(void* services, const char* label, std::int64_t program, std::int32_t dtype,
                                const void* values, const std::uint8_t* valid, std::int64_t count) noexcept {
  if (dtype < 0 || dtype >= dtype_count) return;
  const auto type = static_cast<Dtype>(dtype);
  const auto* at = static_cast<const std::byte*>(values);
  try {
    std::string line = std::string(static_cast<const LaunchServices*>(services)->kernel) + "[" +
                       std::to_string(program) + "] " + label + ":";
    for (std::int64_t i = 0; i < count; ++i, at += dtype_bytes(type)) {
      const bool is_valid = valid == nullptr || valid[i] != 0;
      line += ' ';
      line += is_valid ? visit_dtype(type, [&]<class T>(std::type_identity<T>) { return number_text<T>(at); }) : "-";
    }
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stdout);
  } catch (const std::bad_alloc&) {
    std::fputs("tileweave: no memory to print a value\n", stderr);
  }
}

std::span<const Symbol> host_symbols() {
  static const Symbol table[] = {
      {"memcpy", address(static_cast<void* (*)(void*, const void*, std::size_t)>(std::memcpy))},
      {"memmove", address(static_cast<void* (*)(void*, const void*, std::size_t)>(std::memmove))},
      {"memset", address(static_cast<void* (*)(void*, int, std::size_t)>(std::memset))},
      {"fmaf", address(static_cast<F3>(::fmaf))},
      {"fma", address(static_cast<D3>(::fma))},
      {"sqrtf", address(static_cast<F1>(::sqrtf))},
      {"sqrt", address(static_cast<D1>(::sqrt))},
      {"floorf", address(static_cast<F1>(::floorf))},
      {"floor", address(static_cast<D1>(::floor))},
      {"ceilf", address(static_cast<F1>(::ceilf))},
      {"ceil", address(static_cast<D1>(::ceil))},
      {"truncf", address(static_cast<F1>(::truncf))},
      {"trunc", address(static_cast<D1>(::trunc))},
      {"rintf", address(static_cast<F1>(::rintf))},
      {"rint", address(static_cast<D1>(::rint))},
      {"nearbyintf", address(static_cast<F1>(::nearbyintf))},
      {"nearbyint", address(static_cast<D1>(::nearbyint))},
      {"tileweave_assert_failed", address(tileweave_assert_failed)},
      {"tileweave_print", address(tileweave_print)},
  };
  return table;
}

}  // namespace tileweave::runtime
