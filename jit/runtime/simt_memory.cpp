// Primitives that load and store shared, global and cluster memory.
// See primitives.def for their meaning and simt_call.h for the checks.
#include "tileweave/jit/runtime/simt_call.h"

namespace tileweave::runtime::simt {
namespace {

template <class T>
T bytes_at(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

template <class T>
void put(std::byte* p, Passed<T> passed) {
  const T value = static_cast<T>(passed);
  std::memcpy(p, &value, sizeof value);
}

template <class T>
T shared_load(std::uint32_t offset, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return T{};
  Thread& t = enter("shared_load", site);
  cluster_of(t).maybe_yield(t);
  return bytes_at<T>(shared_access(t, *t.block, offset, sizeof(T), sizeof(T), Act::read));
}

template <class T>
void shared_store(std::uint32_t offset, Passed<T> value, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("shared_store", site);
  cluster_of(t).maybe_yield(t);
  put<T>(shared_access(t, *t.block, offset, sizeof(T), sizeof(T), Act::write), value);
}

template <class T>
T global_load(std::uint64_t address, std::uint32_t predicate, std::uint32_t hint, std::uint32_t site) {
  if (!flag(predicate)) return T{};
  Thread& t = enter("global_load", site);
  constexpr std::uint32_t read_only = 1;  // CacheHint::read_only
  const Track track = hint == read_only ? Track::read_only : Track::history;
  return bytes_at<T>(global_access(t, address, sizeof(T), sizeof(T), Act::read, track));
}

template <class T>
void global_store(std::uint64_t address, Passed<T> value, std::uint32_t predicate, std::uint32_t, std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("global_store", site);
  cluster_of(t).maybe_yield(t);
  put<T>(global_access(t, address, sizeof(T), sizeof(T), Act::write, Track::history), value);
}

void prefetch_l2(std::uint64_t, std::uint32_t, std::uint32_t) {}

template <class T>
T cluster_load(std::uint32_t address, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return T{};
  Thread& t = enter("cluster_load", site);
  cluster_of(t).maybe_yield(t);
  const ClusterPlace p = cluster_place(t, address);
  return bytes_at<T>(shared_access(t, *p.block, p.offset, sizeof(T), sizeof(T), Act::read));
}

template <class T>
void cluster_store(std::uint32_t address, T value, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return;
  Thread& t = enter("cluster_store", site);
  cluster_of(t).maybe_yield(t);
  const ClusterPlace p = cluster_place(t, address);
  put<T>(shared_access(t, *p.block, p.offset, sizeof(T), sizeof(T), Act::write), value);
}

template <class T>
void add_rows_of(Rows& rows, const std::string& element) {
  rows.push_back(row(("shared_load." + element).c_str(), shared_load<T>));
  rows.push_back(row(("shared_store." + element).c_str(), shared_store<T>));
  rows.push_back(row(("global_load." + element).c_str(), global_load<T>));
  rows.push_back(row(("global_store." + element).c_str(), global_store<T>));
  if constexpr (sizeof(T) >= 4) {
    rows.push_back(row(("cluster_load." + element).c_str(), cluster_load<T>));
    rows.push_back(row(("cluster_store." + element).c_str(), cluster_store<T>));
  }
}

}  // namespace

void add_memory_rows(Rows& rows) {
  add_rows_of<std::uint8_t>(rows, "i8");
  add_rows_of<std::uint16_t>(rows, "i16");
  add_rows_of<std::uint32_t>(rows, "i32");
  add_rows_of<std::uint64_t>(rows, "i64");
  add_rows_of<U32x2>(rows, "v2i32");
  add_rows_of<U32x4>(rows, "v4i32");
  rows.push_back(row("prefetch_l2", prefetch_l2));
}

}  // namespace tileweave::runtime::simt
