// Devices, streams and the last error of the C interface (tileweave_c.h).
// Over jit/runtime's device and stream.
#include <charconv>
#include <new>
#include <optional>
#include <string_view>

#include "tileweave/dsl/c_status.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::c {
namespace {

// The thread's last message. Where there was no memory for it, a text that needs none.
struct LastError {
  std::string text;
  const char* fixed = nullptr;
};
LastError& last_error() {
  thread_local LastError error;
  return error;
}

tileweave_status status_of(LaunchError::Kind kind) {
  return kind == LaunchError::Kind::refused ? TILEWEAVE_LAUNCH_ERROR : TILEWEAVE_FAULT;
}

// Nothing where the name is none.
std::optional<Device> device_of(std::string_view name) {
  if (name.empty()) return Device::best();
  if (name == "cpu") return Device::cpu();
  if (name == "interpret") return Device::interpret();
  if (name == "cuda") return Device::cuda(0);
  if (name == "simt") return Device::simt();
  if (name.starts_with("simt:")) return Device::simt(std::string(name.substr(5)));
  if (!name.starts_with("cuda:")) return std::nullopt;
  int index = 0;
  const char* end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + 5, end, index);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return Device::cuda(index);
}

}  // namespace

tileweave_status failed(tileweave_status status, const std::string& message) noexcept {
  LastError& error = last_error();
  try {
    error.text = message;
    error.fixed = nullptr;
  } catch (...) {
    error.fixed = "out of memory";
  }
  return status;
}

tileweave_status failed_by_exception() noexcept {
  try {
    throw;
  } catch (const LaunchError& e) {
    return failed(status_of(e.kind()), e.what());
  } catch (const CacheError& e) {
    return failed(TILEWEAVE_CACHE_ERROR, e.what());
  } catch (const InternalError& e) {
    return failed(TILEWEAVE_INTERNAL_ERROR, e.what());
  } catch (const Error& e) {  // RecordError, CompileError
    return failed(TILEWEAVE_COMPILE_ERROR, e.what());
  } catch (const std::bad_alloc&) {
    last_error().fixed = "out of memory";
    return TILEWEAVE_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    return failed(TILEWEAVE_INTERNAL_ERROR, e.what());
  } catch (...) {
    return failed(TILEWEAVE_INTERNAL_ERROR, "an exception of unknown type");
  }
}

tileweave_status null_argument(const char* function, const char* argument) noexcept {
  return guarded(
      [&] { return failed(TILEWEAVE_INVALID_ARGUMENT, std::string(function) + ": " + argument + " is null"); });
}

}  // namespace tileweave::c

using namespace tileweave;

const char* tileweave_last_error(void) {
  const c::LastError& error = c::last_error();
  return error.fixed != nullptr ? error.fixed : error.text.c_str();
}

tileweave_status tileweave_device_open(const char* name, tileweave_device** device) {
  if (device == nullptr) return c::null_argument("tileweave_device_open", "device");
  *device = nullptr;
  return c::guarded([&] {
    const std::string wish = name == nullptr ? "" : name;
    std::optional<Device> found;
    try {
      found = c::device_of(wish);
    } catch (const LaunchError& e) {
      return c::failed(TILEWEAVE_NOT_FOUND, e.what());
    }
    if (!found) {
      return c::failed(TILEWEAVE_INVALID_ARGUMENT, "tileweave_device_open: there is no device '" + wish +
                                                       "': cpu, cuda, cuda:<index>, interpret or simt:<target>");
    }
    *device = new tileweave_device{*found};
    return TILEWEAVE_OK;
  });
}

void tileweave_device_close(tileweave_device* device) { delete device; }

const char* tileweave_device_name(const tileweave_device* device) {
  return device == nullptr ? "" : device->device.name().c_str();
}

tileweave_status tileweave_stream_create(const tileweave_device* device, int priority, tileweave_stream** stream) {
  if (device == nullptr) return c::null_argument("tileweave_stream_create", "device");
  if (stream == nullptr) return c::null_argument("tileweave_stream_create", "stream");
  *stream = nullptr;
  return c::guarded([&] {
    *stream = new tileweave_stream{Stream(device->device, priority)};
    return TILEWEAVE_OK;
  });
}

tileweave_status tileweave_stream_wrap(const tileweave_device* device, void* cuda_stream, tileweave_stream** stream) {
  if (device == nullptr) return c::null_argument("tileweave_stream_wrap", "device");
  if (stream == nullptr) return c::null_argument("tileweave_stream_wrap", "stream");
  *stream = nullptr;
  return c::guarded([&] {
    *stream = new tileweave_stream{Stream::wrap(cuda_stream, device->device)};
    return TILEWEAVE_OK;
  });
}

tileweave_status tileweave_stream_wait(const tileweave_stream* stream) {
  if (stream == nullptr) return c::null_argument("tileweave_stream_wait", "stream");
  return c::guarded([&] {
    stream->stream.synchronize();
    return TILEWEAVE_OK;
  });
}

void tileweave_stream_close(tileweave_stream* stream) { delete stream; }
