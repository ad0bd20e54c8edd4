// Variants: the compiled forms of one kernel by key, found without a lock; the slow path records, specialises,
// compiles. Behind launch.h; a key is words: device, options, constants, then one word of facts for each view.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tileweave/dsl/launch.h"
#include "tileweave/dsl/requirements.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/runtime/launch.h"

namespace tileweave::launch {

using Key = std::span<const std::uint64_t>;

struct Entry {
  std::uint64_t hash;
  std::vector<std::uint64_t> key;
  std::shared_ptr<const runtime::LoadedKernel> kernel;
  const Requirements* requirements;
  const Entry* next;  // an older one
};

// What the slow path needs to make a variant.
struct Request {
  const KernelState& kernel;
  Device device;
  Key key;
  int facts_at;  // where the views' facts begin in the key
  const Body& body;
  std::string (*text)(const void*);
  const void* text_object;
  std::span<const int> view_numbers;  // the parameter number of each view
  const std::uint64_t* slots;         // of this launch
  Place place;
};

class Variants {
 public:
  // The variant for the key, or null. No lock, no allocation.
  const Entry* find(Key key) const;
  // Checks the launch against the kernel's requirements before anything is compiled.
  const Entry& make(const Request& request);
  int count() const;

 private:
  // All variants of one set of constants on one device: recorded once.
  struct Group {
    std::vector<std::uint64_t> prefix;
    ir::Function recorded;
    Requirements requirements;
    std::vector<std::uint64_t> last_facts;
    int variants = 0;
    std::shared_ptr<const runtime::LoadedKernel> generic;
  };
  Group& group_of(const Request& request);
  std::shared_ptr<const runtime::LoadedKernel> compile(const Request& request, const Group& group,
                                                       std::span<const std::uint64_t> facts) const;
  const Entry& publish(Key key, const Group& group, std::shared_ptr<const runtime::LoadedKernel> kernel);

  mutable std::atomic<const Entry*> last_{nullptr};  // the last hit
  std::atomic<const Entry*> newest_{nullptr};        // a list that only grows at its head
  mutable std::mutex mutex_;                         // guards what follows; taken on misses only
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::unique_ptr<Entry>> entries_;
  int compiled_ = 0;
};

// The facts of a view as one word of a key, and back.
std::uint64_t pack_facts(const ir::ViewFacts& f);
ir::ViewFacts unpack_facts(std::uint64_t word);
// True for every argument: nothing is known, and anything may overlap.
std::uint64_t generic_facts();

void log(bool is_warning, const std::string& line);

}  // namespace tileweave::launch
