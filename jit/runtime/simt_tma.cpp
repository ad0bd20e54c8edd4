// TMA and bulk copies: boxes of tensors and runs of bytes between global and shared memory, by the asynchronous proxy.
// Loads land late, when nobody else can run; stores read when issued, and their reads last until they are waited for.
#include <array>

#include "tileweave/jit/runtime/simt_call.h"
#include "tileweave/jit/runtime/simt_tensor_map.h"

namespace tileweave::runtime::simt {
namespace {

// A load on its way: plain values, so that the fibre that issued it may be gone.
struct Load {
  Block* block = nullptr;
  std::int64_t offset = 0, bytes = 0, mbarrier = 0;
  std::uint64_t source = 0;  // bulk_load
  TensorMap map;             // tma_load: rank > 0
  std::array<std::int32_t, 5> at{};
  Call call;
  int thread = 0;
};

Fault fault_of(const Load& l, std::string message) {
  const Cluster& c = *l.block->cluster;
  return {std::move(message), "", l.call.site, c.first_block() + l.block->rank, l.thread, l.call.name};
}

// Calls f(element's byte in the box, its global address or 0 where it lies outside the tensor).
template <class F>
void for_each_element(const TensorMap& map, const std::array<std::int32_t, 5>& at, F&& f) {
  std::array<std::uint32_t, 5> i{};
  std::int64_t elements = 1;
  for (std::uint32_t d = 0; d < map.rank; ++d) elements *= map.box[d];
  for (std::int64_t n = 0; n < elements; ++n) {
    std::uint64_t address = map.base;
    bool inside = true;
    for (std::uint32_t d = 0; d < map.rank; ++d) {
      const std::int64_t x = at[d] + static_cast<std::int64_t>(i[d]);
      inside = inside && x >= 0 && x < static_cast<std::int64_t>(map.extents[d]);
      address += static_cast<std::uint64_t>(x) * map.strides[d];
    }
    f(n * map.element_bytes, inside ? address : 0);
    for (std::uint32_t d = 0; d < map.rank && ++i[d] == map.box[d]; ++d) i[d] = 0;
  }
}

bool copy_in(const Load& l) {
  Cluster& c = *l.block->cluster;
  SharedMemory& s = l.block->shared;
  bool ok = true;
  if (l.map.rank == 0) {
    ok = is_global(c, l.source, l.bytes);
    if (ok) std::memcpy(s.at(l.offset), reinterpret_cast<const void*>(l.source), static_cast<std::size_t>(l.bytes));
    return ok;
  }
  for_each_element(l.map, l.at, [&](std::int64_t byte, std::uint64_t address) {
    std::byte* target = s.at(swizzled(l.offset + byte, l.map.swizzle_bytes));
    const std::size_t bytes = l.map.element_bytes;
    if (address == 0) {
      std::memset(target, 0, bytes);
    } else if (is_global(c, address, static_cast<std::int64_t>(bytes))) {
      std::memcpy(target, reinterpret_cast<const void*>(address), bytes);
    } else {
      ok = false;
    }
  });
  return ok;
}

// Lands the bytes and completes them on the mbarrier. Runs on the scheduler.
void finish(const Load& l) {
  Cluster& c = *l.block->cluster;
  if (!copy_in(l)) return c.fail_async(fault_of(l, "out of bounds: a bulk copy reads global memory of no argument"));
  const auto found = l.block->mbarriers.find(l.mbarrier);
  if (found == l.block->mbarriers.end()) {
    return c.fail_async(fault_of(l, "no mbarrier: a bulk copy completes on offset " + std::to_string(l.mbarrier) +
                                        ", but none is initialised there"));
  }
  MBarrier& m = found->second;
  l.block->shared.land(l.offset, l.bytes, m.agent());
  c.order().release_agent(m.in_progress(), m.agent(), c.order().clock(m.agent()));
  c.order().tick(m.agent());
  if (m.complete(l.bytes) != MBarrier::Problem::none) {
    return c.fail_async(fault_of(l, "more bytes complete on an mbarrier than it can count"));
  }
  c.wake_mbarrier_waiters(*l.block, l.mbarrier);
}

void issue(Thread& t, const Load& l, std::int64_t alignment) {
  Cluster& c = cluster_of(t);
  SharedMemory& s = l.block->shared;
  const auto found = l.block->mbarriers.find(l.mbarrier);
  Conflict conflict = s.check_place(l.offset, l.bytes, alignment);
  if (!conflict && found == l.block->mbarriers.end()) {
    conflict = {Conflict::Kind::no_mbarrier, l.mbarrier, false, 0, 0};
  }
  if (!conflict) {
    conflict = s.begin_flight(l.offset, l.bytes, {found->second.agent(), t.number, t.call.site, false, true, 0});
  }
  if (conflict) {
    const bool is_mbarrier = conflict.kind == Conflict::Kind::no_mbarrier;
    c.fail(t, word_conflict(c, conflict, c.who(t.number), "copies into", is_mbarrier ? l.mbarrier : l.offset, l.bytes));
    c.leave();
  }
  c.queue([l] { finish(l); });
}

const TensorMap& map_at(Thread& t, std::uint64_t descriptor, std::uint32_t rank) {
  const auto* map = reinterpret_cast<const TensorMap*>(descriptor);
  if (descriptor % 64 != 0) fail(t, "a tensor map is not at a multiple of 64 bytes");
  if (map->magic != TensorMap::expected_magic) fail(t, "not a tensor map of the emulation");
  if (map->rank != rank || rank == 0 || rank > 5) fail(t, "the rank of a tensor map is not that of the copy");
  return *map;
}

std::int64_t box_bytes(const TensorMap& map) {
  std::int64_t bytes = map.element_bytes;
  for (std::uint32_t d = 0; d < map.rank; ++d) bytes *= map.box[d];
  return bytes;
}

void tma_load(std::uint32_t offset, std::uint64_t descriptor, std::uint32_t rank, std::uint32_t c0, std::uint32_t c1,
              std::uint32_t c2, std::uint32_t c3, std::uint32_t c4, std::uint32_t mbarrier, std::uint32_t mask,
              std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("tma_load", site);
  Load l;
  l.map = map_at(t, descriptor, rank);
  l.at = {static_cast<std::int32_t>(c0), static_cast<std::int32_t>(c1), static_cast<std::int32_t>(c2),
          static_cast<std::int32_t>(c3), static_cast<std::int32_t>(c4)};
  l.offset = offset;
  l.bytes = box_bytes(l.map);
  l.mbarrier = mbarrier;
  l.call = t.call;
  l.thread = t.id;
  if (mask == 0) mask = 1u << t.block->rank;
  if (mask >> cluster_of(t).grid().cluster != 0) fail(t, "a multicast mask names a block that the cluster lacks");
  for (Block& b : cluster_of(t).blocks()) {
    if ((mask >> b.rank & 1) == 0) continue;
    l.block = &b;
    issue(t, l, 128);
  }
}

void bulk_load(std::uint32_t offset, std::uint64_t address, std::uint32_t bytes, std::uint32_t mbarrier,
               std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("bulk_load", site);
  if (bytes % 16 != 0 || address % 16 != 0) fail(t, "misaligned access: a bulk copy moves multiples of 16 bytes");
  Load l;
  l.block = t.block;
  l.offset = offset;
  l.bytes = bytes;
  l.mbarrier = mbarrier;
  l.source = address;
  l.call = t.call;
  l.thread = t.id;
  issue(t, l, 16);
}

// A store's bytes, checked as read by the thread's bulk agent.
void read_for_store(Thread& t, std::int64_t offset, std::int64_t bytes, std::int64_t alignment) {
  Cluster& c = cluster_of(t);
  SharedMemory& s = t.block->shared;
  if (t.bulk_agent < 0) t.bulk_agent = c.order().new_agent();
  t.bulk_open = true;
  Conflict conflict = s.check_place(offset, bytes, alignment);
  if (!conflict) conflict = s.read(offset, bytes, {t.bulk_agent, t.number, t.call.site, false, true, 0});
  if (!conflict) return;
  c.fail(t, word_conflict(c, conflict, c.who(t.number), "copies from", offset, bytes));
  c.leave();
}

void tma_store(std::uint64_t descriptor, std::uint32_t offset, std::uint32_t rank, std::uint32_t c0, std::uint32_t c1,
               std::uint32_t c2, std::uint32_t c3, std::uint32_t c4, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("tma_store", site);
  const TensorMap& map = map_at(t, descriptor, rank);
  read_for_store(t, offset, box_bytes(map), 128);
  const std::array<std::int32_t, 5> at = {static_cast<std::int32_t>(c0), static_cast<std::int32_t>(c1),
                                          static_cast<std::int32_t>(c2), static_cast<std::int32_t>(c3),
                                          static_cast<std::int32_t>(c4)};
  for_each_element(map, at, [&](std::int64_t byte, std::uint64_t address) {
    if (address == 0) return;
    std::byte* target = global_access(t, address, map.element_bytes, 1, Act::write);
    std::memcpy(target, t.block->shared.at(swizzled(offset + byte, map.swizzle_bytes)), map.element_bytes);
  });
}

void bulk_store(std::uint64_t address, std::uint32_t offset, std::uint32_t bytes, std::uint32_t predicate,
                std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("bulk_store", site);
  if (bytes % 16 != 0) fail(t, "misaligned access: a bulk copy moves multiples of 16 bytes");
  read_for_store(t, offset, bytes, 16);
  std::memcpy(global_access(t, address, bytes, 16, Act::write), t.block->shared.at(offset), bytes);
}

void bulk_commit(std::uint32_t site) {
  Thread& t = enter("bulk_commit", site);
  Order& order = cluster_of(t).order();
  if (t.bulk_agent < 0) t.bulk_agent = order.new_agent();
  t.bulk_groups.push_back(order.clock(t.bulk_agent));
  order.tick(t.bulk_agent);
  t.bulk_open = false;
}

// Groups finish in order: all but the last n are done, and this thread knows it.
void bulk_wait(std::uint32_t n, std::uint32_t site) {
  Thread& t = enter("bulk_wait", site);
  if (t.bulk_groups.size() <= n) return;
  const auto done = static_cast<std::ptrdiff_t>(t.bulk_groups.size() - n);
  cluster_of(t).order().learn(t.number, t.bulk_agent, t.bulk_groups[static_cast<std::size_t>(done - 1)]);
  t.bulk_groups.erase(t.bulk_groups.begin(), t.bulk_groups.begin() + done);
}

void tma_prefetch(std::uint64_t, std::uint32_t, std::uint32_t) {}

// st.async: the value lands in another block's memory and its bytes complete on an mbarrier of that block.
template <class T>
void cluster_store_async(std::uint32_t address, T value, std::uint32_t mbarrier, std::uint32_t predicate,
                         std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("cluster_store_async", site);
  Cluster& c = cluster_of(t);
  const ClusterPlace p = cluster_place(t, address), m = cluster_place(t, mbarrier);
  if (p.block != m.block) fail(t, "cluster_store_async completes on an mbarrier of another block than it writes");
  Block* block = p.block;
  const auto found = block->mbarriers.find(m.offset);
  Conflict conflict = block->shared.check_place(p.offset, sizeof(T), sizeof(T));
  if (!conflict && found == block->mbarriers.end()) {
    conflict = {Conflict::Kind::no_mbarrier, m.offset, false, 0, 0};
  }
  if (!conflict) {
    const Accessor who{found->second.agent(), t.number, t.call.site, false, true, 0};
    conflict = block->shared.begin_flight(p.offset, sizeof(T), who);
  }
  if (conflict) {
    c.fail(t, word_conflict(c, conflict, c.who(t.number), "stores into", p.offset, sizeof(T)));
    c.leave();
  }
  c.queue([block, value, offset = p.offset, at = m.offset] {
    Cluster& cluster = *block->cluster;
    MBarrier& barrier = block->mbarriers.at(at);
    std::memcpy(block->shared.at(offset), &value, sizeof value);
    block->shared.land(offset, sizeof value, barrier.agent());
    cluster.order().release_agent(barrier.in_progress(), barrier.agent(), cluster.order().clock(barrier.agent()));
    cluster.order().tick(barrier.agent());
    barrier.complete(sizeof value);
    cluster.wake_mbarrier_waiters(*block, at);
  });
}

}  // namespace

void add_tma_rows(Rows& rows) {
  const Row all[] = {row("tma_load", tma_load),
                     row("tma_store", tma_store),
                     row("tma_prefetch", tma_prefetch),
                     row("bulk_load", bulk_load),
                     row("bulk_store", bulk_store),
                     row("bulk_commit", bulk_commit),
                     row("bulk_wait", bulk_wait),
                     row("bulk_wait_read", bulk_wait),
                     row("cluster_store_async.i32", cluster_store_async<std::uint32_t>),
                     row("cluster_store_async.i64", cluster_store_async<std::uint64_t>),
                     row("cluster_store_async.v2i32", cluster_store_async<U32x2>),
                     row("cluster_store_async.v4i32", cluster_store_async<U32x4>)};
  rows.insert(rows.end(), std::begin(all), std::end(all));
}

}  // namespace tileweave::runtime::simt
