// Loading and launching CPU kernels.
// Between load_kernel and the pool.
#include "tileweave/jit/runtime/cpu_kernel.h"

#include <utility>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/print_text.h"
#include "tileweave/jit/runtime/cpu_pool.h"
#include "tileweave/jit/runtime/grid.h"
#include "tileweave/jit/runtime/services.h"

namespace tileweave::runtime {

CpuKernel::CpuKernel(const std::string& name, CpuEntry entry, std::int64_t scratch_bytes)
    : LoadedKernel(name), entry_(entry), scratch_bytes_(scratch_bytes) {}

std::shared_ptr<const LoadedKernel> CpuKernel::load(const Binary& binary, const std::string& name, const Place& place) {
  std::unique_ptr<LoadedObject> object = LoadedObject::load(binary.code);
  void* entry = object->function(binary.entry);
  if (entry == nullptr) {
    throw_launch_error(place, "kernel '" + name + "': its object has no function '" + binary.entry + "'",
                       "the stored object is damaged or not ours; clear the cache and let it be compiled again");
  }
  auto kernel = std::make_shared<CpuKernel>(name, reinterpret_cast<CpuEntry>(entry), binary.scratch_bytes);
  kernel->object_ = std::move(object);
  kernel->serial_ = binary.meta.find("serial=1") != std::string::npos;
  return kernel;
}

void CpuKernel::launch(StreamState&, const std::int64_t grid[3], const std::uint64_t* slots, int n,
                       const Place& place) const {
  check_slot_count(n, place);
  const std::int64_t total = count_programs(grid, place);
  LaunchServices services;
  services.kernel = name();
  const bool complete = run_on_all_cores({entry_, slots, grid, scratch_bytes_, &services, serial_}, total);
  if (!complete) {
    throw_launch_error(place, std::string("kernel '") + name() + "': no memory for " + std::to_string(scratch_bytes_) +
                                  " bytes of scratch per worker");
  }
  if (!services.failure.empty()) {
    const Place at = place_from_text(services.place);
    throw_launch_error(at.known() ? at : place, services.failure, {}, LaunchError::Kind::fault);
  }
}

}  // namespace tileweave::runtime
