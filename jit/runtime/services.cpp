// The functions that compiled CPU kernels call, and the table the loader resolves them from.
// Nothing here throws: no exception may cross a kernel.
#include "tileweave/jit/runtime/services.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "tileweave/jit/base/print_text.h"

namespace tileweave::runtime {
namespace {

template <class R, class... A>
void* address(R (*f)(A...)) {
  return reinterpret_cast<void*>(f);
}
using F1 = float (*)(float);
using D1 = double (*)(double);
using F3 = float (*)(float, float, float);
using D3 = double (*)(double, double, double);

}  // namespace

void LaunchServices::note(std::string&& text, const char* where, std::int64_t program) {
  const std::lock_guard lock(mutex);
  if (!failure.empty() && failed_program <= program) return;
  failure = std::move(text);
  place = where;
  failed_program = program;
}

extern "C" void tileweave_assert_failed(void* services, const char* place, const char* message,
                                        std::int64_t program) noexcept {
  auto& s = *static_cast<LaunchServices*>(services);
  try {
    s.note(assert_text(s.kernel, program, message), place, program);
  } catch (const std::bad_alloc&) {
    std::fputs("tileweave: no memory for the message of a failed device_assert\n", stderr);
  }
}

extern "C" void tileweave_check_failed(void* services, const char* place, const char* what, std::int64_t program,
                                       std::int64_t index, std::int64_t extent) noexcept {
  auto& s = *static_cast<LaunchServices*>(services);
  try {
    s.note(check_text(s.kernel, program, what, index, extent), place, program);
  } catch (const std::bad_alloc&) {
    std::fputs("tileweave: no memory for the message of a failed check\n", stderr);
  }
}

extern "C" void tileweave_print(void* services, const char* place, const char* label, std::int64_t program,
                                std::int32_t dtype, const void* values, std::int64_t count) noexcept {
  if (dtype < 0 || dtype >= dtype_count) return;
  const auto type = static_cast<Dtype>(dtype);
  const auto* at = static_cast<const std::byte*>(values);
  try {
    std::string line = print_prefix(place, static_cast<const LaunchServices*>(services)->kernel, program, label);
    for (std::int64_t i = 0; i < count; ++i, at += dtype_bytes(type)) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, at, static_cast<std::size_t>(dtype_bytes(type)));
      line += " " + element_text(type, bits);
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
      {"tileweave_check_failed", address(tileweave_check_failed)},
      {"tileweave_print", address(tileweave_print)},
  };
  return table;
}

}  // namespace tileweave::runtime
