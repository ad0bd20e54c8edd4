// The devices whose kernels run on the host: the CPU, the interpreter, the emulator of GPU lowering.
// Behind Device; work on them is done when a call returns, so their streams only stand for the order.
#include <sys/sysinfo.h>

#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/fork.h"
#include "tileweave/jit/runtime/cpu_kernel.h"
#include "tileweave/jit/runtime/cpu_pool.h"
#include "tileweave/jit/runtime/cpu_target.h"
#include "tileweave/jit/runtime/device_state.h"
#include "tileweave/jit/runtime/host_pool.h"
#include "tileweave/jit/runtime/simt_kernel.h"

namespace tileweave::runtime {
namespace {

using Clock = std::chrono::steady_clock;

class HostEvent final : public EventState {
 public:
  explicit HostEvent(DeviceState& device) : EventState(device) {}
  bool has_passed(const Place&) override { return true; }
  void synchronize(const Place&) override {}
  double elapsed_ms_since(EventState& start, const Place& place) override {
    auto* other = dynamic_cast<HostEvent*>(&start);
    if (other == nullptr) {
      throw_launch_error(
          place, "the time between events of " + start.device().name() + " and " + device().name() + " has no meaning",
          "record both events on one device");
    }
    return std::chrono::duration<double, std::milli>(time_ - other->time_).count();
  }

 private:
  Clock::time_point time_ = Clock::now();
};

class HostStream final : public StreamState {
 public:
  HostStream(DeviceState& device, int priority) : StreamState(device, priority) {}
  bool is_idle(const Place&) override { return true; }
  void synchronize(const Place&) override {}
  std::shared_ptr<EventState> record(const Place&) override { return std::make_shared<HostEvent>(device()); }
  void wait(EventState& event, const Place& place) override { event.synchronize(place); }
  void follow(StreamState& earlier, const Place& place) override { earlier.synchronize(place); }
};

class HostDevice final : public DeviceState {
 public:
  HostDevice(DeviceKind kind, const std::string& name, const std::string& target) : DeviceState(kind, 0) {
    name_ = name;
    target_ = target;
    facts_.units = cpu_workers();
    facts_.vector_bits = host_cpu_target().vector_bits;
    struct sysinfo info = {};
    if (sysinfo(&info) == 0) facts_.memory_bytes = static_cast<std::int64_t>(info.totalram) * info.mem_unit;
    facts_.max_grid_x = facts_.max_grid_y = INT64_MAX;
    if (kind == DeviceKind::simt) {
      facts_.warp_size = 32;
      facts_.max_threads_per_block = 1024;
      facts_.smem_per_block_bytes = target == "simt:sm_80" ? 166912 : target == "simt:sm_90a" ? 232448 : 101376;
      const char digit = target[target.find("sm_") + 3];
      facts_.compute_major = digit - '0';
      facts_.compute_minor = target[target.find("sm_") + 4] - '0';
    }
    default_.retain();
    watch_forks();
  }

  StreamState& default_stream(const Place&) override { return default_; }
  StreamState& make_stream(int priority, const Place&) override {
    const std::lock_guard lock(mutex_);
    StreamState* s = nullptr;
    if (idle_.empty()) {
      s = new HostStream(*this, priority);
    } else {
      s = idle_.back();
      idle_.pop_back();
    }
    s->retain();
    return *s;
  }
  StreamState& wrap_stream(void* foreign, const Place& place) override {
    if (foreign != nullptr) {
      throw_launch_error(place, "a CUDA stream cannot be wrapped for " + name(),
                         "pass the CUDA device it belongs to, or nullptr");
    }
    default_.retain();
    return default_;
  }
  void retire_stream(StreamState& stream) noexcept override {
    try {
      const std::lock_guard lock(mutex_);
      idle_.push_back(&stream);
    } catch (const std::bad_alloc&) {  // one stream fewer to hand out again
    }
  }
  void synchronize(const Place&) override {}

  Allocation allocate(std::int64_t bytes, Memory, const Place& place) override {
    std::byte* base = HostPool::instance().allocate(bytes);
    if (base == nullptr) {
      throw_launch_error(place, "no memory for " + std::to_string(bytes) + " bytes on " + name(),
                         "the host has " + std::to_string(facts().memory_bytes) + " bytes in all");
    }
    return {base, nullptr};
  }
  void free(std::byte* base, std::int64_t bytes, Memory, std::span<StreamState* const>) noexcept override {
    HostPool::instance().free(base, bytes);
  }
  void trim_pool() noexcept override { HostPool::instance().trim(); }

  void copy(StreamState&, std::byte* target, const std::byte* source, const CopyShape& s, const Place&) override {
    for (std::int64_t row = 0; row < s.rows; ++row) {
      std::memmove(target + row * s.target_pitch, source + row * s.source_pitch, static_cast<std::size_t>(s.bytes));
    }
  }
  void fill_zero(StreamState&, std::byte* target, std::int64_t bytes, const Place&) override {
    std::memset(target, 0, static_cast<std::size_t>(bytes));
  }

  std::shared_ptr<const LoadedKernel> load(const Binary& binary, const std::string& name, const Place& place) override {
    if (kind() == DeviceKind::simt && binary.target == target()) return load_simt_kernel(binary, name, place);
    if (kind() != DeviceKind::cpu || binary.kind != Binary::Kind::elf_object) {
      throw_launch_error(place, "kernel '" + name + "' for " + binary.target + " cannot be loaded on " + this->name(),
                         "compile it for " + target());
    }
    return CpuKernel::load(binary, name, place);
  }

 private:
  HostStream default_{*this, 0};
  LeafMutex mutex_;
  std::vector<StreamState*> idle_;
};

}  // namespace

DeviceState& cpu_device() {
  static constinit Once<DeviceState> once;
  return once.get([] { return new HostDevice(DeviceKind::cpu, host_cpu_target().brand, host_cpu_target().text); });
}

DeviceState& interpret_device() {
  static constinit Once<DeviceState> once;
  return once.get([] { return new HostDevice(DeviceKind::interpret, "interpreter", "interpret"); });
}

DeviceState& simt_device(const std::string& target, const Place& place) {
  static constexpr std::array known = {"sm_80", "sm_86", "sm_89", "sm_90a"};
  bool found = false;
  for (const char* k : known) found |= target == k;
  if (!found) {
    throw_launch_error(place, "there is no emulator for target '" + target + "'", "use sm_80, sm_86, sm_89 or sm_90a");
  }
  const FirstUse first_use;
  static constinit std::mutex mutex;
  const std::lock_guard lock(mutex);
  static auto& devices = *new std::map<std::string, DeviceState*>;
  DeviceState*& device = devices[target];
  if (device == nullptr) device = new HostDevice(DeviceKind::simt, "simt " + target, "simt:" + target);
  return *device;
}

}  // namespace tileweave::runtime
