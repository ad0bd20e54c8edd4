// See process_cache.h. The profiles that a device accepts are worked out once a process.
// What lies in layers is announced at a device's first use, so that a layer of another build is reported.
#include "tileweave/jit/process_cache.h"

#include <map>
#include <mutex>

#include "tileweave/cache/fork.h"
#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/fork.h"
#include "tileweave/jit/dump.h"
#include "tileweave/jit/jit_library.h"
#include "tileweave/jit/keys.h"

namespace tileweave::jit {
namespace {

bool is_for_gpu(const cache::Profile& p) { return p.target.starts_with("sm_"); }

// A pack for other devices of this build is no mistake: only what no device of this process could use is reported.
void announce(const Device& device, const std::vector<cache::Profile>& accepted) {
  std::vector<cache::Profile> usable = accepted;
  for (cache::Profile& p : process_cache().read_only_profiles()) {
    const bool for_another = is_for_gpu(p) != (device.kind() == DeviceKind::cuda);
    if (for_another && p.codegen == codegen_id() && p.llvm == llvm_version()) usable.push_back(std::move(p));
  }
  process_cache().announce(usable);
}

struct Accepted final : cache::ForkAware {
  std::mutex mutex;
  std::map<const runtime::DeviceState*, std::vector<cache::Profile>> of_device;

  Accepted() { cache::watch_forks(*this); }
  void before_fork() override { mutex.lock(); }
  void after_fork(bool) override { mutex.unlock(); }
};

const std::vector<cache::Profile>& profiles_of(const Device& device) {
  static constinit Once<Accepted> once;
  Accepted& known = once.get([] { return new Accepted; });
  cache::Cache& cache = process_cache();  // before the mutex: a first use
  const std::lock_guard lock(known.mutex);
  const auto at = known.of_device.find(&device.state());
  if (at != known.of_device.end()) return at->second;
  std::vector<cache::Profile> accepted = accepted_profiles(device, cache, env());
  announce(device, accepted);
  return known.of_device.emplace(&device.state(), std::move(accepted)).first->second;
}

}  // namespace

cache::Cache& process_cache() {
  // Never destroyed: kernels may be launched from other objects' destructors at exit.
  static constinit Once<cache::Cache> once;
  return once.get([] { return new cache::Cache(cache::settings_from(env())); });
}

std::vector<cache::Key> candidate_keys(const ir::Function& f, const Device& device) {
  return keys_of(f, profiles_of(device));
}

cache::Entry compile_entry(const ir::Function& f, const std::string& target) {
  std::string directory;
  const StageObserver observer = dump_observer(f.name, target, directory);
  const Binary b = compile_in_library(f, target, observer);
  dump_binary(directory, b);
  return {f.name, b.meta, serialize(b)};
}

}  // namespace tileweave::jit
