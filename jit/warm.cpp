// Records to entries, one by one or in the background. See warm.h and jit.h.
// Every record is verified before it is compiled: a manifest may come from anywhere.
#include "tileweave/jit/warm.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "tileweave/jit/background.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/generic.h"
#include "tileweave/jit/jit.h"
#include "tileweave/jit/keys.h"
#include "tileweave/jit/process_cache.h"
#include "tileweave/jit/recording.h"

namespace tileweave::jit {

std::vector<cache::Record> with_generic_variants(const std::vector<cache::Record>& records) {
  std::vector<cache::Record> all = records;
  for (const cache::Record& r : records) {
    try {
      all.push_back(record_of(ir::generic_variant(function_of(r))));
    } catch (const Error&) {
      // Not a kernel; whoever compiles the record itself reports it.
    }
  }
  std::ranges::sort(all);
  const auto repeated = std::ranges::unique(all);
  all.erase(repeated.begin(), repeated.end());
  return all;
}

std::string full_target(const std::string& target) { return target == "native" ? Device::cpu().target() : target; }

Warmed compile_record(const cache::Record& record, const std::string& target, AssemblerChoice assembler) {
  const ErrorContext context("kernel '" + record.kernel_name + "' for " + target);
  const ir::Function f = function_of(record);
  return {keys_of(f, {profile_for(target, assembler)}).front(), compile_entry(f, target)};
}

class WarmupState {
 public:
  std::vector<std::shared_ptr<Task>> tasks;
  mutable std::mutex mutex;
  std::vector<WarmupFailure> failures;
  std::vector<Kernel> kept;  // loaded, for launches to come
};

namespace {
void warm_one(WarmupState& state, const cache::Record& record, const Device& device) {
  try {
    const ErrorContext context("kernel '" + record.kernel_name + "'");
    const ir::Function f = function_of(record);
    const std::string target = compile_target(device);
    (void)process_cache().get_or_compile(candidate_keys(f, device), [&] { return compile_entry(f, target); });
  } catch (const std::exception& e) {
    const std::lock_guard lock(state.mutex);
    state.failures.push_back({record.kernel_name, e.what()});
  }
}
}  // namespace

std::shared_ptr<WarmupState> warm_in_background(const std::string& manifest, const Device& device) {
  auto state = std::make_shared<WarmupState>();
  for (cache::Record& r : with_generic_variants(cache::read_manifest(manifest).records)) {
    // The state outlives its tasks: they hold it, and it drops them never before they have run.
    state->tasks.push_back(
        run_in_background([state, device, record = std::move(r)] { warm_one(*state, record, device); }));
  }
  return state;
}

std::shared_ptr<WarmupState> warm_in_background(ir::Function f, const Device& device) {
  auto state = std::make_shared<WarmupState>();
  const auto function = std::make_shared<const ir::Function>(std::move(f));
  state->tasks.push_back(run_in_background([state, device, function] {
    try {
      Kernel kernel = get(*function, device);
      const std::lock_guard lock(state->mutex);
      state->kept.push_back(std::move(kernel));
    } catch (const std::exception& e) {
      const std::lock_guard lock(state->mutex);
      state->failures.push_back({function->name, e.what()});
    }
  }));
  return state;
}

std::size_t warm_total(const WarmupState& state) { return state.tasks.size(); }

std::size_t warm_done(const WarmupState& state) {
  return static_cast<std::size_t>(std::ranges::count_if(state.tasks, [](const auto& t) { return t->is_done(); }));
}

void warm_wait(WarmupState& state) {
  for (const auto& task : state.tasks) task->wait();
}

std::vector<WarmupFailure> warm_failures(const WarmupState& state) {
  const std::lock_guard lock(state.mutex);
  return state.failures;
}

}  // namespace tileweave::jit
