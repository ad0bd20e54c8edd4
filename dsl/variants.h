// Variants: the compiled forms of one kernel by key, found without a lock; the slow path records, specialises,
// compiles. Behind launch.h; a key is words: device, options, constants, then one word of facts for each view.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tileweave/dsl/launch.h"
#include "tileweave/dsl/launch_mark.h"
#include "tileweave/dsl/requirements.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/jit.h"
#include "tileweave/jit/runtime/launch.h"

namespace tileweave::launch {

using Key = std::span<const std::uint64_t>;

struct Entry {
  std::uint64_t hash;
  std::vector<std::uint64_t> key;
  std::shared_ptr<const runtime::LoadedKernel> kernel;
  std::shared_ptr<const Requirements> requirements;
  std::atomic<const Entry*> next{nullptr};  // an older one
};

// Loaded variants, and recorded sets of constants, that a kernel keeps: the oldest go, and come back from the cache.
inline constexpr std::size_t most_entries = 256, most_groups = 256;

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

class Variants final : cache::ForkAware {
 public:
  Variants() { cache::watch_forks(*this, cache::ForkOrder::variants); }
  ~Variants() { cache::unwatch_forks(*this); }
  // The variant for the key, or null. No lock, no allocation. The caller is in a LaunchScope of this table.
  const Entry* find(Key key) const;
  // Checks the launch against the kernel's requirements before anything is compiled. Makes the variant, or what stands
  // in for it, and marks it in the scope, which is at rest.
  const Entry& make(const Request& request, LaunchScope& scope);
  // What `make` would compile, after the same checks; the kernel's variants stay as they are.
  ir::Function record_variant(const Request& request);
  int count() const;

 private:
  // A child that is forked while another thread compiles for this kernel must find the table whole and the mutex free.
  void before_fork() override { mutex_.lock(); }
  void after_fork(bool) override { mutex_.unlock(); }

  // All variants of one set of constants on one device: recorded once.
  struct Group {
    std::vector<std::uint64_t> prefix;
    ir::Function recorded;
    std::shared_ptr<const Requirements> requirements;
    std::vector<std::uint64_t> last_facts;
    int variants = 0;
    std::shared_ptr<const runtime::LoadedKernel> generic;
  };
  // A variant that is compiled in the background, and what runs until it is there.
  struct Pending {
    jit::PendingKernel kernel;
    std::unique_ptr<Entry> stand_in;
  };
  Group& group_of(const Request& request);
  static ir::Function specialized(const Request& request, const Group& group, std::span<const std::uint64_t> facts);
  const Entry& obtain(const Request& request);
  const Entry& obtain_checked(const Request& request, Group& group);
  const Entry* settle(Key key);
  void note_variant(const Request& request, Group& group, Key facts);
  const Entry& publish(Key key, std::shared_ptr<const Requirements> requirements,
                       std::shared_ptr<const runtime::LoadedKernel> kernel);
  void drop_oldest();
  void free_retired();

  mutable std::atomic<const Entry*> last_{nullptr};  // the last hit
  std::atomic<const Entry*> newest_{nullptr};        // a list: grows at its head, is cut at its tail
  mutable std::mutex mutex_;                         // guards what follows; taken on misses only
  std::deque<std::unique_ptr<Group>> groups_;        // the oldest first
  std::deque<std::unique_ptr<Entry>> entries_;       // the oldest first
  std::vector<Pending> pending_;
  std::vector<std::unique_ptr<Entry>> retired_;  // not in the list any more, but another thread may be launching them
  int compiled_ = 0;
};

// The facts of a view as one word of a key, and back.
std::uint64_t pack_facts(const ir::ViewFacts& f);
ir::ViewFacts unpack_facts(std::uint64_t word);
// True for every argument: nothing is known, and anything may overlap.
std::uint64_t generic_facts();

void log(bool is_warning, const std::string& line);

}  // namespace tileweave::launch
