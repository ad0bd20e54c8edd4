// Asynchronous copies of sm_80 (cp.async) and mbarriers.
// A copy reads its source when issued and lands when its thread waits for it: as late as the hardware may.
#include <algorithm>

#include "tileweave/jit/runtime/simt_call.h"

namespace tileweave::runtime::simt {
namespace {

template <class T>
void async_copy(std::uint32_t offset, std::uint64_t address, std::uint32_t source_bytes, std::uint32_t,
                std::uint32_t site) {
  Thread& t = enter("async_copy", site);
  constexpr auto bytes = static_cast<int>(sizeof(T));
  if (source_bytes > sizeof(T)) fail(t, "async_copy reads more bytes than it writes");
  SharedMemory& s = t.block->shared;
  Conflict conflict = s.check_place(offset, bytes, bytes);
  if (!conflict) conflict = s.begin_flight(offset, bytes, {t.number, t.number, t.call.site, false, false, 0});
  if (conflict) {
    Cluster& c = cluster_of(t);
    c.fail(t, word_conflict(c, conflict, c.who(t.number), "copies into", offset, bytes));
    c.leave();
  }
  Thread::Copy copy{offset, bytes, {}};
  if (source_bytes > 0) {
    std::memcpy(copy.data.data(), global_access(t, address, source_bytes, bytes, Act::read), source_bytes);
  }
  t.copies.back().push_back(copy);
}

void land(Thread& t, const std::vector<Thread::Copy>& group) {
  SharedMemory& s = t.block->shared;
  for (const Thread::Copy& copy : group) {
    std::memcpy(s.at(copy.offset), copy.data.data(), static_cast<std::size_t>(copy.bytes));
    s.land(copy.offset, copy.bytes, t.number);
  }
}

void async_commit(std::uint32_t site) { enter("async_commit", site).copies.emplace_back(); }

// The open group is not one of those waited for.
void async_wait(std::uint32_t n, std::uint32_t site) {
  Thread& t = enter("async_wait", site);
  while (t.copies.size() > static_cast<std::size_t>(n) + 1) {
    land(t, t.copies.front());
    t.copies.pop_front();
  }
}

// --- mbarriers
constexpr std::int64_t mbarrier_bytes = 8;

[[noreturn]] void fail_at(Thread& t, const Conflict& conflict, std::int64_t offset, const char* verb) {
  Cluster& c = cluster_of(t);
  c.fail(t, word_conflict(c, conflict, c.who(t.number), verb, offset, mbarrier_bytes));
  c.leave();
}

MBarrier& mbarrier_at(Thread& t, Block& b, std::int64_t offset) {
  const auto found = b.mbarriers.find(offset);
  if (found == b.mbarriers.end()) fail_at(t, {Conflict::Kind::no_mbarrier, offset, false, 0, 0}, offset, "uses");
  return found->second;
}

void check_problem(Thread& t, MBarrier::Problem problem) {
  if (problem == MBarrier::Problem::too_many_arrivals) {
    fail(t, "more arrivals at an mbarrier than its phase expects", "check the count given to mbarrier_init");
  }
  if (problem == MBarrier::Problem::too_many_bytes) {
    fail(t, "the bytes expected at an mbarrier and those that arrive differ by more than 2^20 - 1");
  }
}

void mbarrier_init(std::uint32_t offset, std::uint32_t count, std::uint32_t site) {
  Thread& t = enter("mbarrier_init", site);
  Cluster& c = cluster_of(t);
  SharedMemory& s = t.block->shared;
  if (const Conflict conflict = s.check_place(offset, mbarrier_bytes, 8)) fail_at(t, conflict, offset, "initialises");
  if (t.block->mbarriers.count(offset) != 0) {
    fail(t, "an mbarrier is initialised twice", "call mbarrier_invalidate before its place is used again");
  }
  if (count == 0 || count >= 1u << 20) fail(t, "the count of an mbarrier is not between 1 and 2^20 - 1");
  if (const Conflict conflict = s.write(offset, mbarrier_bytes, {t.number, t.number, t.call.site, false, false, 0})) {
    fail_at(t, conflict, offset, "initialises");
  }
  s.set_barrier(offset, mbarrier_bytes, true);
  t.block->mbarriers.emplace(offset, MBarrier(static_cast<int>(count), c.order().new_agent()));
  t.block->mbarriers.at(offset).set_initialiser(t.number, c.order().clock(t.number));
}

void mbarrier_invalidate(std::uint32_t offset, std::uint32_t site) {
  Thread& t = enter("mbarrier_invalidate", site);
  mbarrier_at(t, *t.block, offset);
  t.block->mbarriers.erase(offset);
  t.block->shared.set_barrier(offset, mbarrier_bytes, false);
}

// Use by a thread that has not synchronised with the initialisation is a race, even where it works in this order.
MBarrier& ready_mbarrier(Thread& t, Block& b, std::int64_t offset) {
  MBarrier& m = mbarrier_at(t, b, offset);
  if (!cluster_of(t).order().is_before(m.initialiser(), m.initialised(), t.number)) {
    fail(t, "race: an mbarrier is used with no barrier after its initialisation",
         "put a block barrier (or cluster barrier) between mbarrier_init and the first use by another thread");
  }
  return m;
}

void arrive(Thread& t, Block& b, std::int64_t offset) {
  Cluster& c = cluster_of(t);
  MBarrier& m = ready_mbarrier(t, b, offset);
  c.order().release(m.in_progress(), t.number);
  check_problem(t, m.arrive());
  c.wake_mbarrier_waiters(b, offset);
}

void mbarrier_arrive(std::uint32_t offset, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("mbarrier_arrive", site);
  arrive(t, *t.block, offset);
}

void mbarrier_arrive_expect(std::uint32_t offset, std::uint32_t bytes, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("mbarrier_arrive_expect", site);
  check_problem(t, ready_mbarrier(t, *t.block, offset).expect(bytes));
  arrive(t, *t.block, offset);
}

void mbarrier_arrive_cluster(std::uint32_t address, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("mbarrier_arrive_cluster", site);
  const ClusterPlace p = cluster_place(t, address);
  arrive(t, *p.block, p.offset);
}

// The thread's copies so far land when the mbarrier is told, which is now: later would only delay everybody.
void async_arrive(std::uint32_t offset, std::uint32_t site) {
  Thread& t = enter("async_arrive", site);
  for (auto& group : t.copies) {
    land(t, group);
    group.clear();
  }
  arrive(t, *t.block, offset);
}

std::uint32_t mbarrier_try_wait(std::uint32_t offset, std::uint32_t parity, std::uint32_t site) {
  Thread& t = enter("mbarrier_try_wait", site);
  Cluster& c = cluster_of(t);
  if (!ready_mbarrier(t, *t.block, offset).is_complete(static_cast<int>(parity))) {
    t.gave_up = true;
    c.yield(t);
  }
  const MBarrier& m = ready_mbarrier(t, *t.block, offset);
  if (!m.is_complete(static_cast<int>(parity))) return 0;
  c.order().acquire(m.completed(), t.number);
  return 1;
}

void mbarrier_wait(std::uint32_t offset, std::uint32_t parity, std::uint32_t site) {
  Thread& t = enter("mbarrier_wait", site);
  Cluster& c = cluster_of(t);
  c.maybe_yield(t);
  const MBarrier& m = ready_mbarrier(t, *t.block, offset);
  if (m.is_complete(static_cast<int>(parity))) {
    c.order().acquire(m.completed(), t.number);
    return;
  }
  t.waits_mbarrier = offset;
  t.waits_parity = static_cast<int>(parity);
  t.wait = Wait::mbarrier;
  c.sleep(t);
}

}  // namespace

void add_async_rows(Rows& rows) {
  const Row all[] = {row("async_copy.i32", async_copy<std::uint32_t>),
                     row("async_copy.i64", async_copy<std::uint64_t>),
                     row("async_copy.v4i32", async_copy<U32x4>),
                     row("async_commit", async_commit),
                     row("async_wait", async_wait),
                     row("async_arrive", async_arrive),
                     row("mbarrier_init", mbarrier_init),
                     row("mbarrier_invalidate", mbarrier_invalidate),
                     row("mbarrier_arrive", mbarrier_arrive),
                     row("mbarrier_arrive_expect", mbarrier_arrive_expect),
                     row("mbarrier_arrive_cluster", mbarrier_arrive_cluster),
                     row("mbarrier_try_wait", mbarrier_try_wait),
                     row("mbarrier_wait", mbarrier_wait)};
  rows.insert(rows.end(), std::begin(all), std::end(all));
}

}  // namespace tileweave::runtime::simt
