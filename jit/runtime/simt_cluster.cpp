// Scheduling of emulated threads, convergence of warps, the barriers, and the words for what is stuck.
// See simt_cluster.h. Everything here is deterministic: the order depends on the seed and the block alone.
#include "tileweave/jit/runtime/simt_cluster.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace tileweave::runtime::simt {
namespace {

thread_local Thread* running = nullptr;

std::string count_of(int n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

const char* wait_text(Wait w) {
  switch (w) {
    case Wait::warp:
      return "its warp";
    case Wait::block:
      return "the block barrier";
    case Wait::named:
      return "a named barrier";
    case Wait::warp_group:
      return "its warp group";
    case Wait::mbarrier:
      return "an mbarrier";
    case Wait::cluster:
      return "the cluster barrier";
    default:
      return "nothing";
  }
}

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 29);
}

}  // namespace

Thread& current_thread() { return *running; }

void run_thread(void* argument) {
  Thread& t = *static_cast<Thread*>(argument);
  Cluster& c = *t.block->cluster;
  c.grid().entry(c.grid().slots);
  if (t.bulk_open || !t.bulk_groups.empty()) {
    t.call.name = "the end of the kernel";
    c.fail(t, {"the kernel ends while bulk stores may still read shared memory", "end with bulk_wait or bulk_wait_read",
               t.call.site, 0, 0, ""});
    c.leave();
  }
  t.wait = Wait::ended;
  ++t.warp->ended;
  --c.alive_;
  c.note_progress();
}

Cluster::Cluster(const Grid& grid, std::int64_t first_block, Fibers& fibers)
    : grid_(grid), first_block_(first_block), fibers_(fibers), order_(grid.threads, grid.cluster) {
  const auto per_block = static_cast<std::size_t>(grid.threads);
  threads_.resize(per_block * static_cast<std::size_t>(grid.cluster));
  cluster_arrival_.resize(threads_.size());
  alive_ = static_cast<int>(threads_.size());
  if (grid.seed != 0) random_ = mix(grid.seed * 0x2545f4914f6cdd1du + static_cast<std::uint64_t>(first_block)) | 1;
  blocks_.reserve(static_cast<std::size_t>(grid.cluster));
  for (int rank = 0; rank < grid.cluster; ++rank) {
    Block& b = blocks_.emplace_back(order_);
    b.cluster = this;
    b.rank = rank;
    b.first_thread = rank * grid.threads;
    b.shared.reset(grid.smem_bytes);
    b.warps.resize(per_block / warp_size);
    b.groups.resize((per_block + 127) / 128);
    for (int id = 0; id < grid.threads; ++id) {
      Thread& t = threads_[static_cast<std::size_t>(b.first_thread + id)];
      t.block = &b;
      t.warp = &b.warps[static_cast<std::size_t>(id / warp_size)];
      t.warp->block = &b;
      t.number = b.first_thread + id;
      t.id = id;
      t.lane = id % warp_size;
      t.warp->lanes[static_cast<std::size_t>(t.lane)] = &t;
    }
  }
}

std::uint32_t Cluster::next_random() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return static_cast<std::uint32_t>(random_ >> 32);
}

std::optional<Fault> Cluster::run() {
  std::vector<void*> arguments;
  for (Thread& t : threads_) arguments.push_back(&t);
  fibers_.start(run_thread, arguments);
  while (alive_ > 0 && !fault_) {
    const std::uint64_t before = progress_;
    run_one_round(false);
    if (progress_ == before && !fault_) run_one_round(true);
    if (progress_ == before && !fault_ && !run_pending()) fault_ = deadlock();
  }
  while (!fault_ && run_pending()) {
  }
  return std::exchange(fault_, std::nullopt);
}

// Every warp once: in order, or with a seed in an order of its own that (where not `fair`) skips warps now and then.
bool Cluster::run_one_round(bool fair) {
  std::vector<Warp*> order;
  for (Block& b : blocks_) {
    for (Warp& w : b.warps) order.push_back(&w);
  }
  if (random_ != 0) {
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next_random() % i]);
  }
  bool ran = false;
  for (Warp* w : order) {
    if (random_ != 0) {
      if (!fair && next_random() % 4 == 0) run_pending();
      if (!fair && next_random() % 4 == 0) continue;
    }
    ran = run_warp(*w) || ran;
    if (fault_) return true;
  }
  return ran;
}

bool Cluster::run_warp(Warp& warp) {
  std::array<Thread*, warp_size> lanes = warp.lanes;
  if (random_ != 0) {
    for (std::size_t i = lanes.size(); i > 1; --i) std::swap(lanes[i - 1], lanes[next_random() % i]);
  }
  bool ran = false;
  for (Thread* t : lanes) {
    if (t->wait != Wait::nothing) continue;
    run_lane(*t);
    ran = true;
    if (fault_) return true;
  }
  if (ran) find_divergence(warp);
  return ran;
}

void Cluster::run_lane(Thread& t) {
  running = &t;
  t.gave_up = false;
  fibers_.resume(static_cast<std::size_t>(t.number));
  if (!t.gave_up) ++progress_;
  running = nullptr;
}

// Lanes that wait for the whole warp while others have left the kernel will wait for ever.
void Cluster::find_divergence(Warp& warp) {
  if (warp.arrived == 0 || warp.ended == 0 || warp.arrived + warp.ended < warp_size || fault_) return;
  const auto waits = [](const Thread* t) { return t->wait == Wait::warp; };
  const Thread& t = **std::find_if(warp.lanes.begin(), warp.lanes.end(), waits);
  fault_ = Fault{std::string("divergent ") + t.call.name + ": " + count_of(warp.arrived, "lane") + " of the warp wait" +
                     (warp.arrived == 1 ? "s" : "") + " there, but " + count_of(warp.ended, "lane") +
                     (warp.ended == 1 ? " has" : " have") + " left the kernel",
                 "every lane of a warp must execute it",
                 t.call.site,
                 first_block_ + t.block->rank,
                 t.id,
                 t.call.name};
}

bool Cluster::run_pending() {
  if (pending_.empty()) return false;
  const std::function<void()> work = std::move(pending_.front());
  pending_.pop_front();
  work();
  ++progress_;
  return true;
}

Fault Cluster::deadlock() const {
  const Thread* first = nullptr;
  int ended = 0, same = 0;
  for (const Thread& t : threads_) {
    if (t.wait == Wait::ended) {
      ++ended;
      continue;
    }
    if (first == nullptr || (first->wait == Wait::warp && t.wait != Wait::warp)) first = &t;
  }
  for (const Thread& t : threads_) same += t.wait == first->wait && t.call.is_same_as(first->call) ? 1 : 0;
  const Wait wait = first->wait == Wait::nothing ? Wait::mbarrier : first->wait;  // a loop around try_wait
  std::string others;
  for (const Thread& t : threads_) {
    if (t.wait == Wait::ended || (t.wait == first->wait && t.call.is_same_as(first->call))) continue;
    others = "; " + who(t.number) + " waits for " + wait_text(t.wait == Wait::nothing ? Wait::mbarrier : t.wait) +
             " in " + t.call.name + where(t.call.site);
    break;
  }
  return Fault{
      std::string("deadlock: ") + count_of(same, "thread") + " wait" + (same == 1 ? "s" : "") + " for " +
          wait_text(wait) + " in " + first->call.name + ", which never completes" + others +
          (ended > 0 ? "; " + count_of(ended, "thread") + (ended == 1 ? " has" : " have") + " left the kernel" : ""),
      wait == Wait::mbarrier ? "count the arrivals and bytes of a phase, and check the parity waited for"
                             : "every thread that the barrier counts must reach it",
      first->call.site,
      first_block_ + first->block->rank,
      first->id,
      first->call.name};
}

void Cluster::yield(Thread&) { fibers_.pause(); }

void Cluster::sleep(Thread&) { fibers_.pause(); }

void Cluster::fail(Thread& t, Fault&& fault) {
  fault.block = first_block_ + t.block->rank;
  fault.thread = t.id;
  if (fault.primitive.empty()) fault.primitive = t.call.name;
  if (fault.site == 0) fault.site = t.call.site;
  if (!fault_) fault_ = std::move(fault);
}

void Cluster::leave() {
  for (;;) fibers_.pause();
}

void Cluster::fail_async(Fault&& fault) {
  if (!fault_) fault_ = std::move(fault);
}

void Cluster::fail_mismatch(Thread& t, const Thread& other, const char* unit) {
  const bool is_lane = std::string(unit) == "lane";
  const std::string here = t.call.name + where(t.call.site), there = other.call.name + where(other.call.site);
  fail(t, {"divergent " + here + ": " + unit + " " + std::to_string(is_lane ? other.lane : other.id / warp_size) +
               " is at " + (here == there ? "another such call" : there),
           is_lane ? "every lane of a warp must execute the same one"
                   : "the four warps of a warp group must execute the same one",
           t.call.site, 0, 0, ""});
}

void Cluster::converge(Thread& t, WarpAction action) {
  Warp& w = *t.warp;
  t.wait = Wait::warp;
  if (++w.arrived < warp_size) {
    fibers_.pause();
    return;
  }
  for (const Thread* lane : w.lanes) {
    if (lane->call.is_same_as(t.call)) continue;
    fail_mismatch(t, *lane, "lane");
    leave();
  }
  w.arrived = 0;
  for (Thread* lane : w.lanes) lane->wait = Wait::nothing;
  action(w);
  if (t.wait != Wait::nothing) fibers_.pause();
}

void Cluster::arrive_at_block_barrier(Warp& warp) {
  Block& b = *warp.block;
  for (Thread* t : warp.lanes) t->wait = Wait::block;
  if (++b.at_barrier < static_cast<int>(b.warps.size())) return;
  b.at_barrier = 0;
  order_.meet_block(b.rank);
  for (Warp& w : b.warps) {
    for (Thread* t : w.lanes) t->wait = Wait::nothing;
  }
  note_progress();
}

void Cluster::arrive_named(Warp& warp, int id, int threads, bool waits) {
  NamedBarrier& n = warp.block->named[id];
  Thread& first = *warp.lanes[0];
  if (n.arrived > 0 && n.threads != threads) {
    fail(first, {"named barrier " + std::to_string(id) + " is used with " + std::to_string(threads) +
                     " threads while others wait at it with " + std::to_string(n.threads),
                 "use one count for all threads of a barrier", first.call.site, 0, 0, ""});
    leave();
  }
  n.threads = threads;
  n.arrived += warp_size;
  for (Thread* t : warp.lanes) {
    order_.release(n.point, t->number);
    if (!waits) continue;
    t->wait = Wait::named;
    n.waiting.push_back(t);
  }
  if (n.arrived > threads) {
    fail(first, {"named barrier " + std::to_string(id) + " of " + std::to_string(threads) + " threads has " +
                     std::to_string(n.arrived) + " arrivals",
                 "only the threads counted may arrive", first.call.site, 0, 0, ""});
    leave();
  }
  if (n.arrived < threads) return;
  for (Thread* t : n.waiting) {
    order_.acquire(n.point, t->number);
    t->wait = Wait::nothing;
  }
  n = {};
  note_progress();
}

void Cluster::arrive_at_group(Warp& warp, void (*action)(Block& block, int group)) {
  Block& b = *warp.block;
  const int index = warp.lanes[0]->id / 128;
  WarpGroup& g = b.groups[static_cast<std::size_t>(index)];
  const auto begin = static_cast<std::size_t>(index * 4);
  Thread& first = *warp.lanes[0];
  if (begin + 4 > b.warps.size()) {
    fail(first, {"a warp group needs 128 threads; the block's last group has fewer", "", first.call.site, 0, 0, ""});
    leave();
  }
  for (Thread* t : warp.lanes) t->wait = Wait::warp_group;
  if (++g.arrived < 4) return;
  for (std::size_t w = begin; w < begin + 4; ++w) {
    const Thread& other = *b.warps[w].lanes[0];
    if (other.call.is_same_as(first.call)) continue;
    fail_mismatch(first, other, "warp");
    leave();
  }
  g.arrived = 0;
  for (std::size_t w = begin; w < begin + 4; ++w) {
    for (Thread* t : b.warps[w].lanes) t->wait = Wait::nothing;
  }
  action(b, index);
  note_progress();
}

// A thread may run ahead by one arrival at most: its wait follows.
void Cluster::arrive_at_cluster(Warp& warp, bool waits) {
  if (!waits) {
    for (const Thread* t : warp.lanes) {
      auto& made = cluster_arrival_[static_cast<std::size_t>(t->number)];
      if (made > cluster_phase_) {
        fail(*warp.lanes[0], {"cluster_arrive twice without cluster_wait", "", t->call.site, 0, 0, ""});
        leave();
      }
      ++made;
      ++cluster_arrived_;
      order_.release(cluster_point_, t->number);
    }
    if (cluster_arrived_ == static_cast<int>(threads_.size())) meet_cluster();
    return;
  }
  for (Thread* t : warp.lanes) {
    const std::uint64_t made = cluster_arrival_[static_cast<std::size_t>(t->number)];
    if (made == 0) {
      fail(*t, {"cluster_wait without cluster_arrive", "", t->call.site, 0, 0, ""});
      leave();
    }
    if (made > cluster_phase_) {
      t->wait = Wait::cluster;
    } else {
      order_.acquire(cluster_point_, t->number);
    }
  }
}

void Cluster::meet_cluster() {
  cluster_arrived_ = 0;
  ++cluster_phase_;
  for (Thread& t : threads_) {
    if (t.wait != Wait::cluster) continue;
    order_.acquire(cluster_point_, t.number);
    t.wait = Wait::nothing;
  }
  note_progress();
}

void Cluster::wake_mbarrier_waiters(Block& block, std::int64_t offset) {
  const MBarrier& m = block.mbarriers.at(offset);
  for (int id = 0; id < grid_.threads; ++id) {
    Thread& t = threads_[static_cast<std::size_t>(block.first_thread + id)];
    if (t.wait != Wait::mbarrier || t.waits_mbarrier != offset || !m.is_complete(t.waits_parity)) continue;
    order_.acquire(m.completed(), t.number);
    t.wait = Wait::nothing;
  }
  note_progress();
}

std::string Cluster::who(int agent) const {
  if (!order_.is_thread(agent)) return "an asynchronous copy or product";
  const int block = agent / grid_.threads, id = agent % grid_.threads;
  return "thread " + std::to_string(id) + (grid_.cluster > 1 ? " of block rank " + std::to_string(block) : "");
}

std::string Cluster::where(int site) const {
  const About* about = grid_.about;
  if (about == nullptr || site <= 0 || static_cast<std::size_t>(site) >= about->sites.size()) return "";
  const About::Site& s = about->sites[static_cast<std::size_t>(site)];
  return s.line == 0 ? "" : " at " + s.file + ":" + std::to_string(s.line);
}

}  // namespace tileweave::runtime::simt
