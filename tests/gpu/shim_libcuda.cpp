// A stand-in for libcuda.so.1: memory is malloc, streams run nothing, every call is counted, errors come on request.
// Loaded instead of the driver by the unit tests of the CUDA runtime and the launch benchmark; no GPU is needed.
//
// Environment (read at load): SHIM_DEVICES (default 2), SHIM_COMPUTE ("90"), SHIM_NO_POOLS, SHIM_FAIL="cuMemAlloc_v2:2"
// (that function always returns that result), SHIM_BUSY (a stream with a launch is not idle until it is waited for).
// The test reads counters and the last launch through shim_* functions found with dlsym. Built with SHIM_OLD it lacks
// functions, as an old driver does.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#define SHIM extern "C" __attribute__((visibility("default")))

namespace {

using Result = int;
constexpr Result ok = 0, invalid_value = 1, out_of_memory = 2, not_found = 500, invalid_context = 201,
                 invalid_handle = 400, not_ready = 600, invalid_image = 200, illegal_capture = 900;

struct Context {
  int device;
};
struct Stream {
  Context* context;
  bool is_capturing = false, is_busy = false, is_destroyed = false;
  int priority = 0;
};
struct Event {
  Stream* recorded_on = nullptr;
  bool is_destroyed = false;
};
struct Module {
  Context* context;
  std::string image;
};
struct Function {
  Module* module;
  std::string name;
  std::map<int, int> attributes;
};

struct LastLaunch {
  unsigned x, y, threads, smem, attributes;
  std::size_t bytes;
  std::uint64_t parameters[504];
};

struct State {
  std::mutex mutex;
  long calls = 0;
  std::map<std::string, long> by_name;
  std::string fail_name;
  Result fail_result = 0;
  int devices = 2, compute = 90;
  bool has_pools = true, is_busy = false;
  Context contexts[8] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
  Stream legacy{&contexts[0]};
  std::set<void*> allocations;
  LastLaunch last{};
};

State& state() {
  static State& s = *[] {
    auto* fresh = new State;
    const auto text = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
    if (!text("SHIM_DEVICES").empty()) fresh->devices = std::stoi(text("SHIM_DEVICES"));
    if (!text("SHIM_COMPUTE").empty()) fresh->compute = std::stoi(text("SHIM_COMPUTE"));
    fresh->has_pools = text("SHIM_NO_POOLS").empty();
    fresh->is_busy = !text("SHIM_BUSY").empty();
    const std::string fail = text("SHIM_FAIL");
    if (const std::size_t colon = fail.find(':'); colon != std::string::npos) {
      fresh->fail_name = fail.substr(0, colon);
      fresh->fail_result = std::stoi(fail.substr(colon + 1));
    }
    return fresh;
  }();
  return s;
}

// The thread's stack of contexts. Without a destructor: kernels of static life are unloaded after the main thread's
// thread_local objects are gone.
class ContextStack {
 public:
  bool empty() const { return size_ == 0; }
  Context* back() const { return entries_[size_ - 1]; }
  void push_back(Context* c) { entries_.at(size_++) = c; }
  void pop_back() { --size_; }

 private:
  std::array<Context*, 64> entries_{};
  std::size_t size_ = 0;
};
thread_local ContextStack current;
thread_local int capture_mode = 0;  // 0 global, 2 relaxed

// Counts a call; what it must return, if an error was asked for.
Result enter(const char* name) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  ++s.calls;
  ++s.by_name[name];
  if (s.fail_name == name) return s.fail_result;
  return ok;
}
#define ENTER(name)                                       \
  if (const Result r_ = enter(name); r_ != ok) return r_; \
  static_assert(true)

// The launch path must not allocate or lock, or the test of it would measure the shim.
std::atomic<long>& launch_calls() {
  static std::atomic<long>& n = *new std::atomic<long>(0);
  return n;
}

Stream* stream_of(void* handle) { return handle == nullptr ? &state().legacy : static_cast<Stream*>(handle); }

bool some_stream_captures = false;
// What CUDA calls potentially unsafe is refused while a stream of the process is captured in global mode.
Result refuse_in_capture() { return some_stream_captures && capture_mode != 2 ? illegal_capture : ok; }
#define NOT_IN_CAPTURE() \
  if (const Result r_ = refuse_in_capture(); r_ != ok) return r_

void* allocate(std::size_t bytes) {
  void* p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  const std::lock_guard lock(state().mutex);
  state().allocations.insert(p);
  return p;
}
Result release(void* p) {
  {
    const std::lock_guard lock(state().mutex);
    if (state().allocations.erase(p) == 0) return invalid_value;
  }
  std::free(p);
  return ok;
}

}  // namespace

// ---- for the test ----
SHIM long shim_calls() { return state().calls + launch_calls(); }
SHIM long shim_launches() { return launch_calls(); }
SHIM long shim_count(const char* name) { return state().by_name[name]; }
SHIM long shim_live_allocations() { return static_cast<long>(state().allocations.size()); }
SHIM void shim_fail(const char* name, int result) {
  state().fail_name = name;
  state().fail_result = result;
}
SHIM void shim_set_busy(bool busy) { state().is_busy = busy; }
SHIM const LastLaunch* shim_last_launch() { return &state().last; }
SHIM void* shim_current_context() { return current.empty() ? nullptr : current.back(); }
SHIM int shim_function_attribute(void* f, int which) { return static_cast<Function*>(f)->attributes[which]; }

// ---- the driver ----
SHIM Result cuInit(unsigned) {
  ENTER("cuInit");
  return ok;
}
SHIM Result cuDriverGetVersion(int* v) {
  *v = 12080;
  return ok;
}
SHIM Result cuGetErrorName(Result r, const char** text) {
  switch (r) {
    case 2:
      *text = "CUDA_ERROR_OUT_OF_MEMORY";
      return ok;
    case 3:
      *text = "CUDA_ERROR_NOT_INITIALIZED";
      return ok;
    case 100:
      *text = "CUDA_ERROR_NO_DEVICE";
      return ok;
    case 200:
      *text = "CUDA_ERROR_INVALID_IMAGE";
      return ok;
    case 209:
      *text = "CUDA_ERROR_NO_BINARY_FOR_GPU";
      return ok;
    case 700:
      *text = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return ok;
    case 702:
      *text = "CUDA_ERROR_LAUNCH_TIMEOUT";
      return ok;
    default:
      *text = "CUDA_ERROR_OTHER";
      return ok;
  }
}
SHIM Result cuGetErrorString(Result r, const char** text) {
  *text = r == 700 ? "an illegal memory access was encountered" : "an error";
  return ok;
}
SHIM Result cuDeviceGet(int* d, int ordinal) {
  *d = ordinal;
  return ok;
}
SHIM Result cuDeviceGetCount(int* n) {
  *n = state().devices;
  return ok;
}
SHIM Result cuDeviceGetName(char* name, int bytes, int) {
  std::strncpy(name, "Shim GPU", static_cast<std::size_t>(bytes));
  return ok;
}
SHIM Result cuDeviceGetAttribute(int* v, int which, int) {
  ENTER("cuDeviceGetAttribute");
  switch (which) {
    case 1:
      *v = 1024;
      break;
    case 5:
      *v = 2147483647;
      break;
    case 6:
      *v = 65535;
      break;
    case 10:
      *v = 32;
      break;
    case 16:
      *v = 132;
      break;
    case 38:
      *v = 50 << 20;
      break;
    case 75:
      *v = state().compute / 10;
      break;
    case 76:
      *v = state().compute % 10;
      break;
    case 97:
      *v = 232448;
      break;
    case 115:
      *v = state().has_pools ? 1 : 0;
      break;
    default:
      *v = 0;
  }
  return ok;
}
SHIM Result cuDeviceTotalMem_v2(std::size_t* n, int) {
  *n = std::size_t{141} << 30;
  return ok;
}
SHIM Result cuDevicePrimaryCtxRetain(void** c, int device) {
  ENTER("cuDevicePrimaryCtxRetain");
  *c = &state().contexts[device];
  return ok;
}
SHIM Result cuCtxPushCurrent_v2(void* c) {
  ENTER("cuCtxPushCurrent_v2");
  current.push_back(static_cast<Context*>(c));
  return ok;
}
SHIM Result cuCtxPopCurrent_v2(void** c) {
  ENTER("cuCtxPopCurrent_v2");
  if (current.empty()) return invalid_context;
  *c = current.back();
  current.pop_back();
  return ok;
}
SHIM Result cuCtxSynchronize() {
  ENTER("cuCtxSynchronize");
  if (current.empty()) return invalid_context;
  if (some_stream_captures) return illegal_capture;
  return ok;
}
SHIM Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return ok;
}
SHIM Result cuModuleLoadDataEx(void** m, const void* image, unsigned n, int* options, void** values) {
  ENTER("cuModuleLoadDataEx");
  NOT_IN_CAPTURE();
  if (current.empty()) return invalid_context;
  const std::string text = static_cast<const char*>(image);
  if (text.find("BAD") != std::string::npos) {
    for (unsigned i = 0; i < n; ++i) {
      if (options[i] == 5) std::strcpy(static_cast<char*>(values[i]), "ptxas error : line 7; parsing error near 'BAD'");
    }
    return invalid_image;
  }
  *m = new Module{current.back(), text};
  return ok;
}
SHIM Result cuModuleUnload(void* m) {
  ENTER("cuModuleUnload");
  delete static_cast<Module*>(m);
  return ok;
}
SHIM Result cuModuleGetFunction(void** f, void* m, const char* name) {
  ENTER("cuModuleGetFunction");
  auto* module = static_cast<Module*>(m);
  if (module->image.find(name) == std::string::npos) return not_found;
  *f = new Function{module, name, {}};
  return ok;
}
SHIM Result cuFuncSetAttribute(void* f, int which, int value) {
  ENTER("cuFuncSetAttribute");
  static_cast<Function*>(f)->attributes[which] = value;
  return ok;
}
SHIM Result cuFuncGetAttribute(int* v, int which, void*) {
  *v = which == 1 ? 1024 : 40;  // static shared memory, registers
  return ok;
}
SHIM Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void*, int threads, std::size_t) {
  *n = threads > 512 ? 0 : 2;
  return ok;
}

static Result launch(Function* f, unsigned x, unsigned y, unsigned threads, unsigned smem, unsigned attributes,
                     void* stream, void** parameters, void** extra) {
  launch_calls().fetch_add(1, std::memory_order_relaxed);
  State& s = state();
  if (s.fail_name.size() == 14 && s.fail_name == "cuLaunchKernel") return s.fail_result;
  if (current.empty()) return invalid_context;
  if (current.back() != f->module->context || (stream && static_cast<Stream*>(stream)->context != current.back())) {
    return invalid_handle;
  }
  LastLaunch& l = s.last;
  if (extra != nullptr) {
    l = {x, y, threads, smem, attributes, *static_cast<std::size_t*>(extra[3]), {}};
    std::memcpy(l.parameters, extra[1], l.bytes);
  } else {
    // As many as the image says; the first word of each.
    const std::size_t said = f->module->image.find("parameters ");
    const std::size_t n = std::stoul(f->module->image.substr(said + 11));
    l = {x, y, threads, smem, attributes, 8 * n, {}};
    for (std::size_t i = 0; i < n; ++i) std::memcpy(&l.parameters[i], parameters[i], 8);
  }
  if (s.is_busy) stream_of(stream)->is_busy = true;
  return ok;
}
SHIM Result cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned, unsigned bx, unsigned, unsigned, unsigned smem,
                           void* stream, void** parameters, void** extra) {
  return launch(static_cast<Function*>(f), gx, gy, bx, smem, 0, stream, parameters, extra);
}
struct Config {
  unsigned grid[3], block[3], smem;
  void* stream;
  void* attributes;
  unsigned count;
};
#ifndef SHIM_OLD
SHIM Result cuLaunchKernelEx(const Config* c, void* f, void** parameters, void** extra) {
  return launch(static_cast<Function*>(f), c->grid[0], c->grid[1], c->block[0], c->smem, c->count, c->stream,
                parameters, extra);
}
// A map begins with the view's base, its inner extent and its pitch.
SHIM Result cuTensorMapEncodeTiled(std::uint64_t* map, int, unsigned, void* base, const std::uint64_t* extents,
                                   const std::uint64_t* strides, const unsigned*, const unsigned*, int, int, int, int) {
  ENTER("cuTensorMapEncodeTiled");
  if (current.empty()) return invalid_context;
  map[0] = reinterpret_cast<std::uint64_t>(base) + extents[0] + strides[0];
  return ok;
}
#endif

SHIM Result cuMemAlloc_v2(std::uint64_t* p, std::size_t bytes) {
  ENTER("cuMemAlloc_v2");
  NOT_IN_CAPTURE();
  if (bytes > (std::size_t{1} << 40)) return out_of_memory;
  *p = reinterpret_cast<std::uint64_t>(allocate(bytes));
  return ok;
}
SHIM Result cuMemFree_v2(std::uint64_t p) {
  ENTER("cuMemFree_v2");
  NOT_IN_CAPTURE();
  return release(reinterpret_cast<void*>(p));
}
SHIM Result cuMemAllocManaged(std::uint64_t* p, std::size_t bytes, unsigned) {
  ENTER("cuMemAllocManaged");
  NOT_IN_CAPTURE();
  *p = reinterpret_cast<std::uint64_t>(allocate(bytes));
  return ok;
}
SHIM Result cuMemHostAlloc(void** p, std::size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  NOT_IN_CAPTURE();
  *p = allocate(bytes);
  return ok;
}
SHIM Result cuMemFreeHost(void* p) {
  ENTER("cuMemFreeHost");
  NOT_IN_CAPTURE();
  return release(p);
}
SHIM Result cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total) {
  *free_bytes = 5;
  *total = 10;
  return ok;
}
SHIM Result cuMemPoolCreate(void** pool, const void*) {
  ENTER("cuMemPoolCreate");
  *pool = &state();
  return ok;
}
SHIM Result cuMemPoolSetAttribute(void*, int, void*) {
  ENTER("cuMemPoolSetAttribute");
  return ok;
}
SHIM Result cuMemPoolTrimTo(void*, std::size_t) {
  ENTER("cuMemPoolTrimTo");
  return ok;
}
SHIM Result cuMemAllocFromPoolAsync(std::uint64_t* p, std::size_t bytes, void*, void* stream) {
  ENTER("cuMemAllocFromPoolAsync");
  if (stream_of(stream)->is_capturing) return illegal_capture;  // it would become a node of the graph
  if (bytes > (std::size_t{1} << 40)) return out_of_memory;
  *p = reinterpret_cast<std::uint64_t>(allocate(bytes));
  return ok;
}
SHIM Result cuMemFreeAsync(std::uint64_t p, void* stream) {
  ENTER("cuMemFreeAsync");
  if (stream_of(stream)->is_capturing) return illegal_capture;
  return release(reinterpret_cast<void*>(p));
}

static Result copy(void* target, const void* source, std::size_t bytes) {
  std::memmove(target, source, bytes);
  return ok;
}
SHIM Result cuMemcpyAsync(std::uint64_t t, std::uint64_t s, std::size_t bytes, void*) {
  ENTER("cuMemcpyAsync");
  return copy(reinterpret_cast<void*>(t), reinterpret_cast<void*>(s), bytes);
}
SHIM Result cuMemcpyHtoDAsync_v2(std::uint64_t t, const void* s, std::size_t bytes, void*) {
  ENTER("cuMemcpyHtoDAsync_v2");
  return copy(reinterpret_cast<void*>(t), s, bytes);
}
SHIM Result cuMemcpyDtoHAsync_v2(void* t, std::uint64_t s, std::size_t bytes, void*) {
  ENTER("cuMemcpyDtoHAsync_v2");
  return copy(t, reinterpret_cast<void*>(s), bytes);
}
struct Copy2D {
  std::size_t sx, sy;
  int source_type;
  const void* source_host;
  std::uint64_t source_device;
  void* source_array;
  std::size_t source_pitch, tx, ty;
  int target_type;
  void* target_host;
  std::uint64_t target_device;
  void* target_array;
  std::size_t target_pitch, width, height;
};
SHIM Result cuMemcpy2DAsync_v2(const Copy2D* c, void*) {
  ENTER("cuMemcpy2DAsync_v2");
  if (c->width > c->source_pitch || c->width > c->target_pitch) return invalid_value;
  const char* s =
      c->source_type == 1 ? static_cast<const char*>(c->source_host) : reinterpret_cast<const char*>(c->source_device);
  char* t = c->target_type == 1 ? static_cast<char*>(c->target_host) : reinterpret_cast<char*>(c->target_device);
  for (std::size_t i = 0; i < c->height; ++i) copy(t + i * c->target_pitch, s + i * c->source_pitch, c->width);
  return ok;
}
SHIM Result cuMemsetD8Async(std::uint64_t t, unsigned char value, std::size_t bytes, void*) {
  ENTER("cuMemsetD8Async");
  std::memset(reinterpret_cast<void*>(t), value, bytes);
  return ok;
}

SHIM Result cuStreamCreateWithPriority(void** s, unsigned, int priority) {
  ENTER("cuStreamCreateWithPriority");
  if (current.empty()) return invalid_context;
  auto* stream = new Stream{current.back()};
  stream->priority = priority;
  *s = stream;
  return ok;
}
SHIM Result cuStreamDestroy_v2(void* s) {
  ENTER("cuStreamDestroy_v2");
  static_cast<Stream*>(s)->is_destroyed = true;
  return ok;
}
SHIM Result cuStreamGetCtx(void* s, void** c) {
  ENTER("cuStreamGetCtx");
  *c = static_cast<Stream*>(s)->context;
  return ok;
}
SHIM Result cuStreamSynchronize(void* s) {
  ENTER("cuStreamSynchronize");
  Stream* stream = stream_of(s);
  if (stream->is_destroyed) return invalid_handle;
  if (stream->is_capturing) return illegal_capture;
  NOT_IN_CAPTURE();
  stream->is_busy = false;
  return ok;
}
SHIM Result cuStreamQuery(void* s) {
  ENTER("cuStreamQuery");
  Stream* stream = stream_of(s);
  if (stream->is_destroyed) return invalid_handle;
  if (stream->is_capturing) return illegal_capture;
  NOT_IN_CAPTURE();
  return stream->is_busy ? not_ready : ok;
}
SHIM Result cuStreamWaitEvent(void* s, void* e, unsigned) {
  ENTER("cuStreamWaitEvent");
  const auto* event = static_cast<Event*>(e);
  const bool from_outside = event->recorded_on != nullptr && !event->recorded_on->is_capturing;
  if (stream_of(s)->is_capturing && from_outside) return illegal_capture;  // isolation
  return ok;
}
SHIM Result cuStreamIsCapturing(void* s, int* status) {
  ENTER("cuStreamIsCapturing");
  *status = stream_of(s)->is_capturing ? 1 : 0;
  return ok;
}
SHIM Result cuStreamBeginCapture_v2(void* s, int) {
  ENTER("cuStreamBeginCapture_v2");
  stream_of(s)->is_capturing = some_stream_captures = true;
  return ok;
}
SHIM Result cuStreamEndCapture(void* s, void** graph) {
  ENTER("cuStreamEndCapture");
  stream_of(s)->is_capturing = some_stream_captures = false;
  *graph = s;
  return ok;
}
#ifndef SHIM_OLD
SHIM Result cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, capture_mode);
  return ok;
}
#endif

SHIM Result cuEventCreate(void** e, unsigned) {
  ENTER("cuEventCreate");
  *e = new Event;
  return ok;
}
SHIM Result cuEventRecord(void* e, void* s) {
  ENTER("cuEventRecord");
  if (stream_of(s)->is_destroyed) return invalid_handle;
  static_cast<Event*>(e)->recorded_on = stream_of(s);
  return ok;
}
SHIM Result cuEventQuery(void* e) {
  ENTER("cuEventQuery");
  NOT_IN_CAPTURE();
  const Stream* on = static_cast<Event*>(e)->recorded_on;
  return on != nullptr && on->is_busy ? not_ready : ok;
}
SHIM Result cuEventSynchronize(void* e) {
  ENTER("cuEventSynchronize");
  if (Stream* on = static_cast<Event*>(e)->recorded_on) on->is_busy = false;
  return ok;
}
SHIM Result cuEventElapsedTime(float* ms, void*, void*) {
  *ms = 1.5f;
  return ok;
}
SHIM Result cuEventDestroy_v2(void* e) {
  ENTER("cuEventDestroy_v2");
  delete static_cast<Event*>(e);
  return ok;
}
