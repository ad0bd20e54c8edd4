// What happened before what in a cluster of emulated blocks: vector clocks over its threads and asynchronous agents.
// Under the race detection of simt_shared; told of every synchronisation by simt_cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tileweave::runtime::simt {

using Clock = std::uint32_t;

// An agent is a thread of the cluster (numbered block by block) or an asynchronous unit: a thread's bulk copies, a warp
// group's tensor core, the copies that complete on one mbarrier. What an agent does at clock c happened before
// everything that a thread does once it knows c of that agent.
class Order {
 public:
  // Knowledge: per agent the latest clock that is known. Shared, since after a barrier everybody knows the same.
  using Row = std::vector<Clock>;
  // What a release leaves for an acquire to pick up.
  struct SyncPoint {
    std::shared_ptr<Row> row;
  };

  Order(int threads_per_block, int blocks);

  Clock clock(int agent) const { return clocks_[static_cast<std::size_t>(agent)]; }
  void tick(int agent) { ++clocks_[static_cast<std::size_t>(agent)]; }
  int new_agent();
  bool is_thread(int agent) const { return agent < thread_count_; }

  // Whether what `agent` did at `when` happened before what `thread` does now.
  bool is_before(int agent, Clock when, int thread) const;

  // All threads of a block meet.
  void meet_block(int block);
  // The given threads of one block meet (a warp barrier).
  void meet(std::span<const int> threads);
  void release(SyncPoint& point, int thread);
  void acquire(const SyncPoint& point, int thread);
  // An asynchronous agent's work up to `when` becomes visible through the point, or to a thread directly.
  void release_agent(SyncPoint& point, int agent, Clock when);
  void learn(int thread, int agent, Clock when);
  // A thread's fence.proxy.async: what it wrote up to that clock may be read by TMA and wgmma.
  void fence_proxy(int thread) { proxy_fences_[static_cast<std::size_t>(thread)] = clock(thread), tick(thread); }
  Clock proxy_fence(int thread) const { return proxy_fences_[static_cast<std::size_t>(thread)]; }
  static void join(SyncPoint& into, const SyncPoint& from);

 private:
  Row& own_row(int thread);  // to write: not shared with others
  void raise(Row& row, int agent, Clock when);
  static void join_rows(Row& into, const Row& from);

  int threads_per_block_;
  int thread_count_;
  std::vector<Clock> clocks_;               // by agent
  std::vector<Clock> met_;                  // by thread: its clock at its block's last full barrier
  std::vector<Clock> proxy_fences_;         // by thread
  std::vector<std::shared_ptr<Row>> rows_;  // by thread: what it knows beyond its block's full barriers; may be null
};

}  // namespace tileweave::runtime::simt
