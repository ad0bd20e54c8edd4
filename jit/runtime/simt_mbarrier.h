// An mbarrier as the machine keeps it: arrivals and bytes of the phase in progress, and what its phases release.
// Kept beside the shared memory of a block (simt_cluster.h); the 8 bytes there only mark the place.
#pragma once

#include <cstdint>

#include "tileweave/jit/runtime/simt_order.h"

namespace tileweave::runtime::simt {

class MBarrier {
 public:
  enum class Problem : std::uint8_t { none, too_many_arrivals, too_many_bytes };

  MBarrier() = default;
  MBarrier(int count, int agent) : count_(count), pending_(count), agent_(agent) {}

  int count() const { return count_; }
  int pending() const { return pending_; }
  std::int64_t bytes_due() const { return bytes_due_; }
  std::uint64_t phase() const { return phase_; }
  int agent() const { return agent_; }  // stands for the copies that complete here
  void set_initialiser(int thread, Clock when) {
    initialiser_ = thread;
    initialised_ = when;
  }
  int initialiser() const { return initialiser_; }
  Clock initialised() const { return initialised_; }

  // Whether the phase of this parity is complete: the one in progress has the other parity.
  bool is_complete(int parity) const { return static_cast<int>(phase_ & 1) != (parity & 1); }
  Problem arrive();
  // More pending arrivals for the phase in progress (cp.async.mbarrier.arrive without .noinc is not emitted).
  Problem expect(std::int64_t bytes);
  Problem complete(std::int64_t bytes);
  Order::SyncPoint& in_progress() { return in_progress_; }
  const Order::SyncPoint& completed() const { return completed_; }

 private:
  void finish_phase_if_due();

  int count_ = 0, pending_ = 0, agent_ = -1, initialiser_ = 0;
  Clock initialised_ = 0;
  std::int64_t bytes_due_ = 0;  // below 0 while copies are ahead of their expect
  std::uint64_t phase_ = 0;
  Order::SyncPoint in_progress_, completed_;
};

}  // namespace tileweave::runtime::simt
