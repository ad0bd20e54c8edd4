// See cpu_executor.h.
// Between the random programs and the backend under test; nothing here is cached.
#include "tests/property/cpu_executor.h"

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/compile.h"
#include "tileweave/jit/passes/passes.h"
#include "tileweave/jit/runtime/device.h"
#include "tileweave/jit/runtime/launch.h"
#include "tileweave/jit/runtime/stream.h"

namespace tileweave::property {

void prepare_for_cpu(ir::Function& f) { passes::contract_fma(f); }

Executor cpu_executor(const std::string& target) {
  return [target](const ir::Function& recorded, std::span<const std::uint64_t> slots, const ir::Grid& grid) {
    const Device device = Device::cpu();
    const Binary binary = jit::compile(recorded, target == "native" ? device.target() : target);
    runtime::load_kernel(device, binary, recorded.name)
        ->launch(device.stream().state(), grid.data(), slots.data(), static_cast<int>(slots.size()));
  };
}

}  // namespace tileweave::property
