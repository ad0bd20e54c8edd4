// What compiled CPU kernels may call: one fixed table of symbols, and the object that a launch hands to them.
// The loader resolves a kernel's undefined symbols from here and from nowhere else.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "tileweave/jit/base/dtype.h"

namespace tileweave::runtime {

struct Symbol {
  const char* name;
  void* address;
};

// memcpy, memmove, memset; the libm functions that LLVM calls on hosts without the instruction (fma, floor, ...); and
// the functions declared below.
std::span<const Symbol> host_symbols();

// What a launch passes as `services`: kernels hand it on unread.
struct LaunchServices {
  const char* kernel = "";
  std::atomic<const char*> failed_assert{nullptr};  // the first one that failed; reported when the launch ends
  std::atomic<std::int64_t> failed_program{0};
};

extern "C" {
// device_assert: notes the failure; the kernel goes on. `message` is NUL-terminated and may lie in the kernel's memory.
void tileweave_assert_failed(void* services, const char* message, std::int64_t program) noexcept;
// device_print: "<kernel>[program] <label>: v0 v1 ..." on stdout, one line whole. `dtype` is a tileweave::Dtype; a lane
// whose byte in `valid` is 0 is printed as "-"; `valid` may be null (all valid).
void tileweave_print(void* services, const char* label, std::int64_t program, std::int32_t dtype, const void* values,
                     const std::uint8_t* valid, std::int64_t count) noexcept;
}

}  // namespace tileweave::runtime
