// Deployment from inside a program: warming kernels while it runs, what launches do meanwhile, recording what it uses,
// and the cache's counters. docs/deployment.md walks through all of it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tileweave/jit/jit.h"

namespace tileweave {

// What the cache has done in this process; at rest lookups == memory + layer + disk + compiled + waited + failed.
using CacheCounters = cache::Counters;
CacheCounters cache_counters();

// What launches do from now on while their kernel is compiled; the environment's TILEWEAVE_MEANWHILE until then.
//   wait     the launch compiles, or waits for whoever does
//   generic  it runs the kernel's generic variant (compiling that one if it must); its own comes in the background
//   cpu      on a CUDA device it runs on the CPU, on copies of its tensors; where that cannot be (pointer parameters,
//            written views with gaps) it waits. Not while a stream is being captured. On other devices as `generic`.
void set_meanwhile(Meanwhile how);

// Writes every variant that this process uses from now on into a manifest of its own in the directory (made if its
// parent exists); an empty name stops it. As TILEWEAVE_RECORD. A directory that cannot be written costs one warning.
void record_to(const std::string& directory);

namespace launch {
class Frame;
}

// A warm-up that runs in the background. Copies are handles of the same.
class Warmup {
 public:
  struct Failure {
    std::string kernel, message;
  };
  std::size_t total() const;  // variants, generic ones included
  std::size_t done() const;
  bool is_done() const { return done() == total(); }
  void wait();
  std::vector<Failure> failures() const;

 private:
  friend Warmup warmup_async(const std::string&, const Device&);
  friend class launch::Frame;
  std::shared_ptr<jit::WarmupState> state_;
};

// Compiles the kernels of a manifest (a .rec file) for the device into the cache, in a few threads of this process.
// Throws CacheError where the file is no manifest; what cannot be compiled is a failure of the handle.
// One kernel with its arguments: kernel.warmup_async(device, arguments...), see kernel.h.
Warmup warmup_async(const std::string& manifest, const Device& device = Device::best());

}  // namespace tileweave
