// Opens libcuda.so.1, fills the table, turns its results into errors.
// The only file with the driver's symbols. The library is never closed: its own threads outlive us.
#include "tileweave/jit/runtime/cuda_driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <string_view>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/fork.h"

namespace tileweave::runtime::cuda {
namespace {

enum Need { required, optional };

struct Row {
  const char* member;
  const char* symbol;
  int since;
  Need need;
};
constexpr Row rows[] = {
#define TILEWEAVE_CUDA(member, symbol, since, need, parameters) {#member, symbol, since, need},
#include "tileweave/jit/runtime/cuda_driver.def"
};

const char* symbol_of(std::string_view member) {
  for (const Row& r : rows) {
    if (member == r.member) return r.symbol;
  }
  return "a CUDA call";
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

struct Loaded {
  Driver driver;
  std::string why_not;  // empty: usable
  pid_t process = getpid();
};

void resolve(Loaded& l, void* library) {
  std::string missing;
  int needed = 0;
  const auto find = [&](const Row& row) {
    void* address = dlsym(library, row.symbol);
    if (address == nullptr && row.need == required) {
      missing = missing.empty() ? row.symbol : missing;
      needed = row.since > needed ? row.since : needed;
    }
    return address;
  };
  int i = 0;
#define TILEWEAVE_CUDA(member, symbol, since, need, parameters) \
  l.driver.member = reinterpret_cast<decltype(l.driver.member)>(find(rows[i++]));
#include "tileweave/jit/runtime/cuda_driver.def"
  if (!missing.empty()) {
    l.why_not = "the CUDA driver is too old: it has no " + missing + " (needed: a driver of CUDA " +
                version_text(needed) + " or newer)";
  }
}

Loaded load() {
  Loaded l;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    l.why_not = std::string("there is no CUDA driver: ") + (reason != nullptr ? reason : "libcuda.so.1 does not load");
    return l;
  }
  resolve(l, library);
  if (!l.why_not.empty()) return l;
  if (const Result r = l.driver.init(0); r != success) {
    const char* name = nullptr;
    l.driver.get_error_name(r, &name);
    l.why_not = std::string("the CUDA driver does not start: ") + (name != nullptr ? name : "unknown error") + " (" +
                std::to_string(r) + ")";
    return l;
  }
  l.driver.driver_get_version(&l.driver.version);
  return l;
}

const Loaded& loaded() {
  static constinit Once<const Loaded> once;
  return once.get([] { return new Loaded(load()); });
}

}  // namespace

const Driver* driver() noexcept {
  const Loaded& l = loaded();
  return l.why_not.empty() ? &l.driver : nullptr;
}

const std::string& why_no_driver() { return loaded().why_not; }

const Driver& require_driver(const Place& place) {
  const Loaded& l = loaded();
  if (!l.why_not.empty()) throw_launch_error(place, l.why_not, "use Device::cpu(), or install a newer NVIDIA driver");
  return l.driver;
}

std::string describe(Result r) {
  const char* name = nullptr;
  const char* text = nullptr;
  const Driver& d = loaded().driver;
  if (d.get_error_name == nullptr || d.get_error_name(r, &name) != success || name == nullptr) {
    return "CUDA error " + std::to_string(r);
  }
  d.get_error_string(r, &text);
  return std::string(name) + (text != nullptr ? " (" + std::string(text) + ")" : "");
}

bool is_fatal(Result r) {
  return r == illegal_address || r == launch_timeout || r == assert_failed ||
         (r >= hardware_stack_error && r <= launch_failed) || r == context_is_destroyed || r == 214 || r == 220 ||
         r == 721;  // uncorrectable memory or NVLink error, tensor memory leak
}

bool is_shutting_down(Result r) { return r == deinitialized || r == context_is_destroyed; }

void check(Result r, const char* call, const std::string& doing, const Place& place, const std::string& suspects) {
  if (r == success) return;
  std::string message = doing + ": " + symbol_of(call) + " failed with " + describe(r);
  if (r == not_initialized && getpid() != loaded().process) {
    throw_launch_error(place, message, "CUDA does not work in a child after fork(); start the child with exec");
  }
  if (!is_fatal(r)) throw_launch_error(place, std::move(message));
  if (!suspects.empty()) message += "; launched since the last wait, the newest first: " + suspects;
  throw_launch_error(
      place, std::move(message),
      "the device cannot be used again in this process; TILEWEAVE_DEVICE=interpret finds a wrong access in a kernel",
      r == launch_timeout ? LaunchError::Kind::timeout : LaunchError::Kind::context_lost);
}

}  // namespace tileweave::runtime::cuda
