// The front door: key, memory, disk, compile, load. See jit.h.
// Reached at a kernel's first launch with new facts; later launches go from dsl/kernel.h straight to the loaded kernel.
#include "tileweave/jit/jit.h"

#include <map>
#include <mutex>

#include "tileweave/cache/cache.h"
#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/dump.h"
#include "tileweave/jit/interpret_kernel.h"
#include "tileweave/jit/jit_library.h"
#include "tileweave/jit/runtime/simt_kernel.h"

namespace tileweave::jit {
namespace {
using runtime::LoadedKernel;

cache::Cache& process_cache() {
  // Never destroyed: kernels may be launched from other objects' destructors at exit.
  static auto* const cache = new cache::Cache(cache::settings_from(env()));
  return *cache;
}

// What code is made for. LLVM 19 ends at sm_90a; a newer device gets the plain sm_90 variant.
std::string compile_target(const Device& device) {
  const std::string& target = device.target();
  if (device.kind() != DeviceKind::cuda) return target;
  return device.facts().compute_major > 9 ? "sm_90" : target;
}

std::string_view artefact(const Device& device) {
  switch (device.kind()) {
    case DeviceKind::cuda:
      return "cubin";
    case DeviceKind::interpret:
      return "tile-ir";
    default:
      return "elf-obj";
  }
}

cache::Key key_of(const ir::Function& f, const Device& device, const std::string& target) {
  cache::Profile profile;
  profile.codegen = codegen_id();
  profile.target = target;
  profile.artefact = artefact(device);
  cache::KeyWriter writer(profile);
  writer.text("settings", env().key_text());
  // Debug and checked builds carry source lines in their code, so there the lines are part of the key.
  const bool with_places = f.options.debug > 0 || f.options.checked;
  writer.text("ir", with_places ? ir::to_readable(f) : ir::to_text(f));
  return writer.finish(f.name);
}

cache::Entry compile_entry(const ir::Function& f, const std::string& target) {
  std::string directory;
  const StageObserver observer = dump_observer(f.name, target, directory);
  const Binary b = compile_in_library(f, target, observer);
  dump_binary(directory, b);
  return {f.name, b.meta, serialize(b)};
}

std::shared_ptr<const LoadedKernel> load(const Device& device, const Binary& b, const ir::Function& f) {
  if (device.kind() == DeviceKind::interpret) return load_interpreted(b, f.name);
  if (device.kind() == DeviceKind::simt) return runtime::load_simt_kernel(b, f.name, f.place);
  return runtime::load_kernel(device, b, f.name, f.place);
}

// A cached binary that the loader refuses is dropped and compiled once more; the second refusal is the user's to see.
std::shared_ptr<const LoadedKernel> load_or_recompile(const Device& device, const ir::Function& f,
                                                      const cache::Key& key, const std::string& target) {
  const auto compile = [&] { return compile_entry(f, target); };
  bool compiled = false;
  const cache::Entry entry = process_cache().get_or_compile(key, [&] {
    compiled = true;
    return compile();
  });
  try {
    return load(device, deserialize(entry.payload), f);
  } catch (const Error&) {
    if (compiled) throw;
  }
  process_cache().reject(key);
  return load(device, deserialize(process_cache().get_or_compile(key, compile).payload), f);
}

// Kernels that this process has loaded: the only global table of the JIT.
struct LoadedTable {
  std::mutex mutex;
  std::map<std::pair<const runtime::DeviceState*, std::vector<std::byte>>, std::shared_ptr<const LoadedKernel>> kernels;
};
LoadedTable& loaded() {
  static auto* const table = new LoadedTable;
  return *table;
}
}  // namespace

std::shared_ptr<const LoadedKernel> get(const ir::Function& recorded, const Device& device) {
  const ErrorContext context("kernel '" + recorded.name + "'");
  const std::string target = compile_target(device);
  const cache::Key key = key_of(recorded, device, target);
  const auto blob = key.blob();
  const std::pair slot(&device.state(), std::vector<std::byte>(blob.begin(), blob.end()));
  {
    const std::lock_guard lock(loaded().mutex);
    const auto found = loaded().kernels.find(slot);
    if (found != loaded().kernels.end()) return found->second;
  }
  // Two threads may load one kernel at once: the first one's stays.
  auto kernel = load_or_recompile(device, recorded, key, target);
  const std::lock_guard lock(loaded().mutex);
  return loaded().kernels.emplace(slot, std::move(kernel)).first->second;
}

}  // namespace tileweave::jit
