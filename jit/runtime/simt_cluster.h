// One cluster of emulated blocks while it runs: its threads as fibres, warps, barriers, and what went wrong.
// Between run_grid (simt_machine.h), which runs clusters one after another on each core, and the primitives
// (simt_call.h).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tileweave/jit/runtime/simt_fiber.h"
#include "tileweave/jit/runtime/simt_global.h"
#include "tileweave/jit/runtime/simt_machine.h"
#include "tileweave/jit/runtime/simt_mbarrier.h"
#include "tileweave/jit/runtime/simt_order.h"
#include "tileweave/jit/runtime/simt_shared.h"

namespace tileweave::runtime::simt {

inline constexpr int warp_size = 32;

class Cluster;
struct Block;
struct Warp;
struct Thread;

// A primitive in execution: which one, from which instruction and user's place.
struct Call {
  const char* name = "";  // "shared_load"
  int number = 0;         // two calls are the same instruction where name and number are equal
  int site = 0;
  bool is_same_as(const Call& other) const { return name == other.name && number == other.number; }
};

// What a thread waits for.
enum class Wait : std::uint8_t { nothing, warp, block, named, warp_group, mbarrier, cluster, ended };

// What all lanes of a warp do together once the last one has come. May leave lanes waiting for more.
using WarpAction = void (*)(Warp& warp);

struct Thread {
  Block* block = nullptr;
  Warp* warp = nullptr;
  int number = 0;  // in the cluster: its agent of the Order
  int id = 0;      // threadIdx.x
  int lane = 0;
  Wait wait = Wait::nothing;
  bool gave_up = false;  // its last act was a try_wait that found nothing
  Call call;
  void* data = nullptr;  // a collective's operands and result, on the fibre's stack
  // Asynchronous copies (cp.async) by group; the last group is open.
  struct Copy {
    std::int64_t offset = 0;
    int bytes = 0;
    std::array<std::byte, 16> data{};
  };
  std::deque<std::vector<Copy>> copies{1};
  // Bulk stores: the agent that reads shared memory for them, its clock at each commit.
  int bulk_agent = -1;
  std::vector<Clock> bulk_groups;
  bool bulk_open = false;
  Order::SyncPoint fenced;    // what it knew at its last fence: a following atomic releases it
  Order::SyncPoint observed;  // what its atomics have found: a following fence acquires it
  std::int64_t waits_mbarrier = 0;
  int waits_parity = 0;
  const GlobalRange* last_range = nullptr;  // where its last global access was
};

struct Warp {
  Block* block = nullptr;
  std::array<Thread*, warp_size> lanes{};
  int arrived = 0, ended = 0;
};

struct NamedBarrier {
  int threads = 0, arrived = 0;
  Order::SyncPoint point;
  std::vector<Thread*> waiting;
};

struct WarpGroup {
  int arrived = 0;  // warps at the current collective
  int agent = -1;   // reads shared memory for wgmma
  std::vector<Clock> groups;
  bool is_open = false;
  bool is_fenced = false;
};

struct Block {
  explicit Block(Order& order) : shared(order) {}
  Cluster* cluster = nullptr;
  int rank = 0;
  int first_thread = 0;
  SharedMemory shared;
  std::vector<Warp> warps;
  std::vector<WarpGroup> groups;
  int at_barrier = 0;  // warps
  std::map<int, NamedBarrier> named;
  std::map<std::int64_t, MBarrier> mbarriers;
};

// What went wrong, before it is worded as a LaunchError.
struct Fault {
  std::string message, help;
  int site = 0;
  std::int64_t block = 0;
  int thread = -1;
  std::string primitive;
};

class Cluster {
 public:
  Cluster(const Grid& grid, std::int64_t first_block, Fibers& fibers);
  // Runs every thread to its end; the first fault stops it.
  std::optional<Fault> run();

  const Grid& grid() const { return grid_; }
  Order& order() { return order_; }
  GlobalMemory& global() { return global_; }
  std::int64_t first_block() const { return first_block_; }
  std::vector<Block>& blocks() { return blocks_; }
  std::vector<Thread>& threads() { return threads_; }

  // --- For primitives, on the running fibre.
  // Waits for the other lanes; the last one to come runs `action`, with every lane's call checked to be the same.
  void converge(Thread& t, WarpAction action);
  // The warp has come to its block's (or group's, or cluster's) barrier; called from actions.
  void arrive_at_block_barrier(Warp& warp);
  void arrive_named(Warp& warp, int id, int threads, bool waits);
  void arrive_at_group(Warp& warp, void (*action)(Block& block, int group));
  void arrive_at_cluster(Warp& warp, bool waits);
  // Lets others run. Without effect on what is ready.
  void yield(Thread& t);
  // With a seed: sometimes yields before a memory access.
  void maybe_yield(Thread& t) {
    if (random_ != 0 && next_random() % 8 == 0) yield(t);
  }
  // Sleeps until wake() finds the thread; t.wait must say why.
  void sleep(Thread& t);
  void wake_mbarrier_waiters(Block& block, std::int64_t offset);
  // Work of the asynchronous units, done when nobody else can run (or, with a seed, at any time), in order of issue.
  void queue(std::function<void()> work) { pending_.push_back(std::move(work)); }
  // Something changed that a failed try_wait could now see.
  void note_progress() { ++progress_; }
  // Records the fault of this thread; `leave` must follow in a statement of its own, so that no temporary is alive.
  void fail(Thread& t, Fault&& fault);
  // Leaves a fibre for ever: the cluster ends with the fault, and nothing is unwound.
  [[noreturn]] void leave();
  // The fault of queued work, which runs on the scheduler.
  void fail_async(Fault&& fault);
  // What atomics on one address release and acquire through fences.
  Order::SyncPoint& atomic_point(std::uint64_t address) { return atomic_points_[address]; }

  std::string who(int agent) const;   // "thread 17", "an asynchronous copy"
  std::string where(int site) const;  // " at file.cpp:12", or ""

 private:
  friend void run_thread(void*);
  std::uint32_t next_random();
  bool run_one_round(bool fair);
  bool run_warp(Warp& warp);
  void run_lane(Thread& t);
  void find_divergence(Warp& warp);
  void fail_mismatch(Thread& t, const Thread& other, const char* unit);
  bool run_pending();
  Fault deadlock() const;
  void meet_cluster();

  const Grid& grid_;
  std::int64_t first_block_;
  Fibers& fibers_;
  Order order_;
  GlobalMemory global_{order_};
  std::vector<Block> blocks_;
  std::vector<Thread> threads_;
  std::deque<std::function<void()>> pending_;
  int alive_ = 0;
  int cluster_arrived_ = 0;  // threads at the cluster barrier
  std::uint64_t cluster_phase_ = 0;
  Order::SyncPoint cluster_point_;
  std::vector<std::uint64_t> cluster_arrival_;  // by thread: arrivals made
  std::unordered_map<std::uint64_t, Order::SyncPoint> atomic_points_;
  std::uint64_t progress_ = 0;
  std::uint64_t random_ = 0;
  std::optional<Fault> fault_;
};

// The thread whose fibre runs on this OS thread.
Thread& current_thread();

}  // namespace tileweave::runtime::simt
