// What compiled CPU kernels may call: one fixed table of symbols, and the object that a launch hands to them.
// The loader resolves a kernel's undefined symbols from here and from nowhere else.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>

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
  // Of the failures the one of the lowest program, so that the report is the same from run to run; thrown when the
  // launch ends.
  std::mutex mutex;
  std::string failure, place;  // empty: none; "file:line"
  std::int64_t failed_program = 0;

  void note(std::string&& text, const char* where, std::int64_t program);
};

extern "C" {
// device_assert: notes the failure; the kernel goes on. Texts are NUL-terminated and may lie in the kernel's memory.
void tileweave_assert_failed(void* services, const char* place, const char* message, std::int64_t program) noexcept;
// An access outside its view in checked mode.
void tileweave_check_failed(void* services, const char* place, const char* what, std::int64_t program,
                            std::int64_t index, std::int64_t extent) noexcept;
// device_print: "<file:line>: <kernel>[program] <label>: v0 v1 ..." on stdout, one line whole. `dtype` is a
// tileweave::Dtype; `place` is "file:line".
void tileweave_print(void* services, const char* place, const char* label, std::int64_t program, std::int32_t dtype,
                     const void* values, std::int64_t count) noexcept;
}

}  // namespace tileweave::runtime
