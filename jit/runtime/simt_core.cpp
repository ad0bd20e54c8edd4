// Primitives of place, warp, barriers and the machine: ids, shuffles, votes, redux, fences, traps, prints.
// See primitives.def for their meaning.
#include <algorithm>
#include <bit>
#include <cstdio>

#include "tileweave/jit/runtime/simt_call.h"

namespace tileweave::runtime::simt {
namespace {

std::uint32_t thread_id() { return static_cast<std::uint32_t>(current_thread().id); }
std::uint32_t lane_id() { return static_cast<std::uint32_t>(current_thread().lane); }
std::uint32_t warp_id() { return static_cast<std::uint32_t>(current_thread().id / warp_size); }
std::uint64_t block_id() {
  const Thread& t = current_thread();
  return static_cast<std::uint64_t>(cluster_of(t).first_block() + t.block->rank);
}
std::uint32_t shared_base() { return 0; }
std::uint64_t block_count() { return static_cast<std::uint64_t>(cluster_of(current_thread()).grid().blocks); }

// --- Warp exchanges: every lane brings a value and a selector, and takes a result.
struct Exchange {
  std::uint32_t value = 0, selector = 0, result = 0;
};

Exchange& exchange_of(Warp& w, int lane) {
  return *static_cast<Exchange*>(w.lanes[static_cast<std::size_t>(lane)]->data);
}

template <class F>
void for_each_lane(Warp& w, F&& f) {
  for (int lane = 0; lane < warp_size; ++lane) f(lane, exchange_of(w, lane));
}

std::uint32_t exchange(Thread& t, std::uint32_t value, std::uint32_t selector, WarpAction action) {
  Exchange x{value, selector, 0};
  t.data = &x;
  cluster_of(t).converge(t, action);
  return x.result;
}

// The result of lane `source`, or the own value where it lies outside the warp.
template <class Source>
void shuffle(Warp& w, Source source) {
  for_each_lane(w, [&](int lane, Exchange& x) {
    const std::int64_t from = source(lane, x.selector);
    x.result = from >= 0 && from < warp_size ? exchange_of(w, static_cast<int>(from)).value : x.value;
  });
}

std::uint32_t shuffle_idx(std::uint32_t value, std::uint32_t lane, std::uint32_t site) {
  return exchange(enter("shuffle_idx", site), value, lane, [](Warp& w) {
    shuffle(w, [](int, std::uint32_t selector) { return static_cast<std::int64_t>(selector & 31u); });
  });
}
std::uint32_t shuffle_bfly(std::uint32_t value, std::uint32_t mask, std::uint32_t site) {
  return exchange(enter("shuffle_bfly", site), value, mask, [](Warp& w) {
    shuffle(w, [](int own, std::uint32_t selector) { return own ^ static_cast<std::int64_t>(selector & 31u); });
  });
}
std::uint32_t shuffle_up(std::uint32_t value, std::uint32_t delta, std::uint32_t site) {
  return exchange(enter("shuffle_up", site), value, delta, [](Warp& w) {
    shuffle(w, [](int own, std::uint32_t selector) { return own - static_cast<std::int64_t>(selector & 31u); });
  });
}
std::uint32_t shuffle_down(std::uint32_t value, std::uint32_t delta, std::uint32_t site) {
  return exchange(enter("shuffle_down", site), value, delta, [](Warp& w) {
    shuffle(w, [](int own, std::uint32_t selector) { return own + static_cast<std::int64_t>(selector & 31u); });
  });
}

std::uint32_t gather_flags(Warp& w) {
  std::uint32_t mask = 0;
  for_each_lane(w, [&](int lane, const Exchange& x) { mask |= (x.value & 1u) << lane; });
  return mask;
}
std::uint32_t vote_any(std::uint32_t flag, std::uint32_t site) {
  return exchange(enter("vote_any", site), flag, 0, [](Warp& w) {
    const std::uint32_t mask = gather_flags(w);
    for_each_lane(w, [&](int, Exchange& x) { x.result = mask != 0 ? 1 : 0; });
  });
}
std::uint32_t vote_all(std::uint32_t flag, std::uint32_t site) {
  return exchange(enter("vote_all", site), flag, 0, [](Warp& w) {
    const std::uint32_t mask = gather_flags(w);
    for_each_lane(w, [&](int, Exchange& x) { x.result = mask == ~0u ? 1 : 0; });
  });
}
std::uint32_t ballot(std::uint32_t flag, std::uint32_t site) {
  return exchange(enter("ballot", site), flag, 0, [](Warp& w) {
    const std::uint32_t mask = gather_flags(w);
    for_each_lane(w, [&](int, Exchange& x) { x.result = mask; });
  });
}
std::uint32_t match_any(std::uint32_t value, std::uint32_t site) {
  return exchange(enter("match_any", site), value, 0, [](Warp& w) {
    for_each_lane(w, [&](int, Exchange& x) {
      for_each_lane(w, [&](int other, const Exchange& y) { x.result |= (x.value == y.value ? 1u : 0u) << other; });
    });
  });
}
std::uint32_t elect(std::uint32_t site) {
  return exchange(enter("elect", site), 0, 0, [](Warp& w) { exchange_of(w, 0).result = 1; });
}

template <class F>
void reduce(Warp& w, F&& f) {
  std::uint32_t all = exchange_of(w, 0).value;
  for (int lane = 1; lane < warp_size; ++lane) all = f(all, exchange_of(w, lane).value);
  for_each_lane(w, [&](int, Exchange& x) { x.result = all; });
}
template <class T>
std::uint32_t least(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::min(static_cast<T>(a), static_cast<T>(b)));
}
template <class T>
std::uint32_t greatest(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::max(static_cast<T>(a), static_cast<T>(b)));
}
std::uint32_t redux_add(std::uint32_t value, std::uint32_t site) {
  return exchange(enter("redux_add", site), value, 0,
                  [](Warp& w) { reduce(w, [](std::uint32_t a, std::uint32_t b) { return a + b; }); });
}
template <class T>
std::uint32_t redux_min(std::uint32_t value, std::uint32_t site) {
  return exchange(enter("redux_min", site), value, 0, [](Warp& w) { reduce(w, least<T>); });
}
template <class T>
std::uint32_t redux_max(std::uint32_t value, std::uint32_t site) {
  return exchange(enter("redux_max", site), value, 0, [](Warp& w) { reduce(w, greatest<T>); });
}
std::uint32_t redux_and(std::uint32_t value, std::uint32_t site) {
  return exchange(enter("redux_and", site), value, 0,
                  [](Warp& w) { reduce(w, [](std::uint32_t a, std::uint32_t b) { return a & b; }); });
}
std::uint32_t redux_or(std::uint32_t value, std::uint32_t site) {
  return exchange(enter("redux_or", site), value, 0,
                  [](Warp& w) { reduce(w, [](std::uint32_t a, std::uint32_t b) { return a | b; }); });
}
std::uint32_t redux_xor(std::uint32_t value, std::uint32_t site) {
  return exchange(enter("redux_xor", site), value, 0,
                  [](Warp& w) { reduce(w, [](std::uint32_t a, std::uint32_t b) { return a ^ b; }); });
}

// --- Barriers and fences.
void warp_barrier(std::uint32_t site) {
  Thread& t = enter("warp_barrier", site);
  cluster_of(t).converge(t, [](Warp& w) {
    std::array<int, warp_size> numbers{};
    for (int lane = 0; lane < warp_size; ++lane) {
      numbers[static_cast<std::size_t>(lane)] = w.lanes[static_cast<std::size_t>(lane)]->number;
    }
    w.block->cluster->order().meet(numbers);
  });
}

void block_barrier(std::uint32_t site) {
  Thread& t = enter("block_barrier", site);
  cluster_of(t).converge(t, [](Warp& w) { w.block->cluster->arrive_at_block_barrier(w); });
}

struct Named {
  int id, threads;
};
void come_to_named(Thread& t, std::uint32_t id, std::uint32_t threads, WarpAction action) {
  Named n{static_cast<int>(id), static_cast<int>(threads)};
  if (n.id < 1 || n.id > 15) fail(t, "the number of a named barrier is not between 1 and 15");
  if (n.threads % warp_size != 0 || n.threads <= 0 || n.threads > cluster_of(t).grid().threads) {
    fail(t, "the thread count of a named barrier is not a number of whole warps of the block");
  }
  t.data = &n;
  cluster_of(t).converge(t, action);
}
void named_barrier(std::uint32_t id, std::uint32_t threads, std::uint32_t site) {
  come_to_named(enter("named_barrier", site), id, threads, [](Warp& w) {
    const Named n = *static_cast<const Named*>(w.lanes[0]->data);
    w.block->cluster->arrive_named(w, n.id, n.threads, true);
  });
}
void named_barrier_arrive(std::uint32_t id, std::uint32_t threads, std::uint32_t site) {
  come_to_named(enter("named_barrier_arrive", site), id, threads, [](Warp& w) {
    const Named n = *static_cast<const Named*>(w.lanes[0]->data);
    w.block->cluster->arrive_named(w, n.id, n.threads, false);
  });
}

// Orders this thread's accesses around it with those of threads it talks to by atomics.
void fence(std::uint32_t) {
  Thread& t = current_thread();
  Order& order = cluster_of(t).order();
  order.release(t.fenced, t.number);
  order.acquire(t.observed, t.number);
}
void fence_proxy_async(std::uint32_t) {
  Thread& t = current_thread();
  cluster_of(t).order().fence_proxy(t.number);
}
void nothing(std::uint32_t) {}

// --- Clusters.
std::uint32_t cluster_rank() { return static_cast<std::uint32_t>(current_thread().block->rank); }
std::uint32_t cluster_size() { return static_cast<std::uint32_t>(cluster_of(current_thread()).grid().cluster); }
// Pure, so it may be hoisted above checks: a wrong rank is found at the access.
std::uint32_t map_cluster(std::uint32_t offset, std::uint32_t rank) {
  return ((rank + 1) << cluster_shift) | (offset & ((1u << cluster_shift) - 1));
}
void cluster_arrive(std::uint32_t site) {
  Thread& t = enter("cluster_arrive", site);
  cluster_of(t).converge(t, [](Warp& w) { w.block->cluster->arrive_at_cluster(w, false); });
}
void cluster_wait(std::uint32_t site) {
  Thread& t = enter("cluster_wait", site);
  cluster_of(t).converge(t, [](Warp& w) { w.block->cluster->arrive_at_cluster(w, true); });
}

// --- The machine.
void set_registers_up(std::uint32_t, std::uint32_t) {}
void set_registers_down(std::uint32_t, std::uint32_t) {}
std::uint64_t clock() { return 0; }

void trap(std::uint32_t site) { fail(enter("trap", site), "the kernel stopped with a trap"); }

std::string text_of(const Cluster& c, std::uint32_t text) {
  const About* about = c.grid().about;
  return about != nullptr && text < about->texts.size() ? about->texts[text] : std::to_string(text);
}

void assert_true(std::uint32_t text, std::uint32_t ok, std::uint32_t site) {
  if (flag(ok)) return;
  Thread& t = enter("assert_true", site);
  Cluster& c = cluster_of(t);
  c.fail(t, {"device_assert failed: " + text_of(c, text), "", t.call.site, 0, 0, ""});
  c.leave();
}

void check_failed(std::uint32_t view, std::uint64_t index, std::uint64_t extent, std::uint32_t axis,
                  std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("check_failed", site);
  Cluster& c = cluster_of(t);
  c.fail(t, {"out of bounds: index " + std::to_string(static_cast<std::int64_t>(index)) + " of axis " +
                 std::to_string(axis) + " of view " + std::to_string(view) + ", whose extent is " +
                 std::to_string(static_cast<std::int64_t>(extent)),
             "", t.call.site, 0, 0, ""});
  c.leave();
}

template <class T>
void print_value(std::uint32_t text, T value, std::uint32_t predicate, std::uint32_t) {
  if (!flag(predicate)) return;
  const Thread& t = current_thread();
  const Cluster& c = cluster_of(t);
  char number[40];
  if constexpr (std::is_floating_point_v<T>) {
    std::snprintf(number, sizeof number, "%.9g", static_cast<double>(value));
  } else {
    std::snprintf(number, sizeof number, "%lld", static_cast<long long>(static_cast<std::make_signed_t<T>>(value)));
  }
  std::printf("%s[block %lld, thread %d] %s: %s\n", c.grid().kernel,
              static_cast<long long>(c.first_block() + t.block->rank), t.id, text_of(c, text).c_str(), number);
}

}  // namespace

void add_core_rows(Rows& rows) {
  const Row all[] = {row("thread_id", thread_id),
                     row("lane_id", lane_id),
                     row("warp_id", warp_id),
                     row("block_id", block_id),
                     row("shared_base", shared_base),
                     row("block_count", block_count),
                     row("shuffle_idx", shuffle_idx),
                     row("shuffle_bfly", shuffle_bfly),
                     row("shuffle_up", shuffle_up),
                     row("shuffle_down", shuffle_down),
                     row("vote_any", vote_any),
                     row("vote_all", vote_all),
                     row("ballot", ballot),
                     row("match_any", match_any),
                     row("elect", elect),
                     row("redux_add", redux_add),
                     row("redux_min.i32", redux_min<std::int32_t>),
                     row("redux_min.u32", redux_min<std::uint32_t>),
                     row("redux_max.i32", redux_max<std::int32_t>),
                     row("redux_max.u32", redux_max<std::uint32_t>),
                     row("redux_and", redux_and),
                     row("redux_or", redux_or),
                     row("redux_xor", redux_xor),
                     row("warp_barrier", warp_barrier),
                     row("block_barrier", block_barrier),
                     row("named_barrier", named_barrier),
                     row("named_barrier_arrive", named_barrier_arrive),
                     row("fence_block", fence),
                     row("fence_cluster", fence),
                     row("fence_gpu", fence),
                     row("fence_system", fence),
                     row("fence_proxy_async", fence_proxy_async),
                     row("fence_mbarrier_init", fence),
                     row("cluster_rank", cluster_rank),
                     row("cluster_size", cluster_size),
                     row("map_cluster", map_cluster),
                     row("cluster_arrive", cluster_arrive),
                     row("cluster_wait", cluster_wait),
                     row("set_registers_up", set_registers_up),
                     row("set_registers_down", set_registers_down),
                     row("grid_dependency_wait", nothing),
                     row("grid_dependency_launch", nothing),
                     row("nanosleep", nothing),
                     row("clock", clock),
                     row("trap", trap),
                     row("assert_true", assert_true),
                     row("check_failed", check_failed),
                     row("print_value.i32", print_value<std::uint32_t>),
                     row("print_value.i64", print_value<std::uint64_t>),
                     row("print_value.f32", print_value<float>),
                     row("print_value.f64", print_value<double>)};
  rows.insert(rows.end(), std::begin(all), std::end(all));
}

}  // namespace tileweave::runtime::simt
