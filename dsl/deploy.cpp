// The deployment functions of the language, on top of the front door. See deploy.h.
#include "tileweave/dsl/deploy.h"

namespace tileweave {

CacheCounters cache_counters() { return jit::cache_counters(); }
void set_meanwhile(Meanwhile how) { jit::set_meanwhile(how); }
void record_to(const std::string& directory) { jit::record_to(directory); }

std::size_t Warmup::total() const { return jit::warm_total(*state_); }
std::size_t Warmup::done() const { return jit::warm_done(*state_); }
void Warmup::wait() { jit::warm_wait(*state_); }

std::vector<Warmup::Failure> Warmup::failures() const {
  std::vector<Failure> out;
  for (jit::WarmupFailure& f : jit::warm_failures(*state_)) {
    out.push_back({std::move(f.kernel), std::move(f.message)});
  }
  return out;
}

Warmup warmup_async(const std::string& manifest, const Device& device) {
  Warmup w;
  w.state_ = jit::warm_in_background(manifest, device);
  return w;
}

}  // namespace tileweave
