// Kernel names and the dispatch of load_kernel.
// Between the cache and the kinds of kernels.
#include "tileweave/jit/runtime/launch.h"

#include <mutex>
#include <unordered_set>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/fork.h"
#include "tileweave/jit/runtime/device_state.h"

namespace tileweave::runtime {

const char* intern(const std::string& text) {
  static constinit LeafMutex mutex;
  const std::lock_guard lock(mutex);
  static auto& texts = *new std::unordered_set<std::string>;  // lives for ever: faults are reported late
  return texts.insert(text).first->c_str();
}

LoadedKernel::LoadedKernel(const std::string& name) : name_(intern(name)) {}

void LoadedKernel::refuse_slot_count(int n, const Place& place) const {
  throw_launch_error(place,
                     "kernel '" + std::string(name_) + "': the arguments take " + std::to_string(n) +
                         " slots of 8 bytes; 500 is the limit",
                     "pass fewer views, or views of lower rank");
}

std::shared_ptr<const LoadedKernel> load_kernel(const Device& device, const Binary& binary, const std::string& name,
                                                const Place& place) {
  return device.state().load(binary, name, place);
}

}  // namespace tileweave::runtime
