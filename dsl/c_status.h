// From exceptions to the codes and messages of the C interface.
// Used by c_device.cpp and c_kernel.cpp: every function of tileweave_c.h that can fail runs inside guarded().
#pragma once

#include <string>

#include "tileweave/dsl/tileweave_c.h"
#include "tileweave/jit/runtime/device.h"
#include "tileweave/jit/runtime/stream.h"

struct tileweave_device {
  tileweave::Device device;
};
struct tileweave_stream {
  tileweave::Stream stream;
};

namespace tileweave::c {

// Keeps the message for tileweave_last_error, and gives the status back.
tileweave_status failed(tileweave_status status, const std::string& message) noexcept;
// The status and message of the exception in flight.
tileweave_status failed_by_exception() noexcept;

// "tileweave_stream_wait: stream is null"
tileweave_status null_argument(const char* function, const char* argument) noexcept;

template <class F>
tileweave_status guarded(const F& f) noexcept {
  try {
    return f();
  } catch (...) {
    return failed_by_exception();
  }
}

}  // namespace tileweave::c
