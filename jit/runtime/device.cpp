// Device: which one to use, and the handle's way to its state.
// First object of a user's host code.
#include "tileweave/jit/runtime/device.h"

#include <charconv>

#include "tileweave/jit/base/env.h"
#include "tileweave/jit/runtime/device_state.h"
#include "tileweave/jit/runtime/stream.h"

namespace tileweave {
namespace {

// The index behind "cuda:"; env.def has checked that it is a number.
int index_of(std::string_view text) {
  int index = 0;
  std::from_chars(text.data(), text.data() + text.size(), index);
  return index;
}

}  // namespace

Device Device::best(const Place& place) {
  const std::string& wish = env().device;
  if (wish == "cpu") return cpu();
  if (wish == "interpret") return interpret();
  if (wish == "cuda") return cuda(0, place);
  if (wish.starts_with("cuda:")) return cuda(index_of(std::string_view(wish).substr(5)), place);
  if (wish == "simt") return simt("sm_90a", place);
  if (wish.starts_with("simt:")) return simt(wish.substr(5), place);
  const int index = runtime::first_usable_cuda_device();
  return index >= 0 ? cuda(index, place) : cpu();
}

Device Device::cpu() { return Device(runtime::cpu_device()); }
Device Device::interpret() { return Device(runtime::interpret_device()); }
Device Device::cuda(int index, const Place& place) { return Device(runtime::cuda_device_state(index, place)); }
Device Device::simt(const std::string& target, const Place& place) {
  return Device(runtime::simt_device(target, place));
}
int Device::count_cuda() noexcept { return runtime::count_cuda_devices(); }
std::string Device::why_no_cuda() { return runtime::why_no_cuda_device(); }

DeviceKind Device::kind() const { return state_->kind(); }
int Device::index() const { return state_->index(); }
const std::string& Device::name() const { return state_->name(); }
const std::string& Device::target() const { return state_->target(); }
const DeviceFacts& Device::facts() const { return state_->facts(); }
Stream Device::stream() const { return Stream(state_->default_stream({})); }
void Device::synchronize(const Place& place) const { state_->synchronize(place); }
void Device::trim_pool() const { state_->trim_pool(); }

}  // namespace tileweave
