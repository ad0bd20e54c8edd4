// What every primitive's body starts from: the running thread, and checked access to shared and global memory.
// Between simt_cluster and the primitives (simt_core, simt_memory, simt_atomic, simt_async, simt_mma, simt_wgmma,
// simt_tma).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tileweave/jit/runtime/simt_cluster.h"

namespace tileweave::runtime::simt {

// How LLVM passes the vectors of primitives.def.
using U32x2 = std::uint32_t __attribute__((vector_size(8)));
using U32x4 = std::uint32_t __attribute__((vector_size(16)));
using F32x4 = float __attribute__((vector_size(16)));
using F64x2 = double __attribute__((vector_size(16)));
// i1, i8 and i16 arrive with undefined bits above their own; the callee cuts them off.
template <class T>
using Passed = std::conditional_t<(sizeof(T) < 4), std::uint32_t, T>;
inline bool flag(std::uint32_t passed) { return (passed & 1) != 0; }

// The first line of every primitive that can fail or wait. codegen/simt.cpp puts a number of the call above the site.
inline Thread& enter(const char* name, std::uint32_t site) {
  Thread& t = current_thread();
  t.call = {name, static_cast<int>(site >> 16), static_cast<int>(site & 0xffff)};
  return t;
}
inline Cluster& cluster_of(const Thread& t) { return *t.block->cluster; }

// The fault of this thread's call; never returns.
[[noreturn]] void fail(Thread& t, const char* message, const char* help = "");
// Words for a conflict of `bytes` bytes at `offset`; "reads", "writes", ...
Fault word_conflict(const Cluster& c, const Conflict& conflict, const std::string& who, const char* verb,
                    std::int64_t offset, std::int64_t bytes);

// Checks an access by thread `t` to the shared memory of block `b` (its own, or another's of its cluster) and returns
// where the bytes are.
enum class Act : std::uint8_t { read, write, atomic };
// Only that the bytes lie inside and are aligned.
void check_shared_place(Thread& t, Block& b, std::int64_t offset, std::int64_t bytes, std::int64_t alignment, Act act);
std::byte* shared_access(Thread& t, Block& b, std::int64_t offset, std::int64_t bytes, std::int64_t alignment, Act act);
// Checks that an access of global memory lies in the launch's memory and is aligned.
// `history`: also against what the cluster's threads have done there (accesses of at most 16 bytes, aligned).
enum class Track : std::uint8_t { nothing, history, read_only };
std::byte* global_access(Thread& t, std::uint64_t address, std::int64_t bytes, std::int64_t alignment, Act act,
                         Track track = Track::nothing);
// Whether the bytes lie in the launch's memory; for work that runs on the scheduler.
bool is_global(const Cluster& c, std::uint64_t address, std::int64_t bytes);

// A cluster address (map_cluster): the block's rank above the offset.
inline constexpr int cluster_shift = 24;
struct ClusterPlace {
  Block* block;
  std::int64_t offset;
};
ClusterPlace cluster_place(Thread& t, std::uint32_t address);

// The tables of the primitive files, joined by simt_symbols().
struct Row {
  std::string name;  // without "tw."
  void* address;
  std::string letters;
};
template <class T>
constexpr char letter_of() {
  if constexpr (std::is_void_v<T>) return 'v';
  if constexpr (std::is_pointer_v<T>) return 'p';
  if constexpr (std::is_same_v<T, std::uint64_t>) return 'l';
  if constexpr (std::is_same_v<T, float>) return 'f';
  if constexpr (std::is_same_v<T, double>) return 'd';
  if constexpr (std::is_same_v<T, U32x2>) return '2';
  if constexpr (std::is_same_v<T, U32x4>) return '4';
  if constexpr (std::is_same_v<T, F32x4>) return 'F';
  if constexpr (std::is_same_v<T, F64x2>) return 'D';
  return 'i';
}
template <class R, class... A>
Row row(const char* name, R (*f)(A...)) {
  return {name, reinterpret_cast<void*>(f), std::string{letter_of<R>(), letter_of<A>()...}};
}
using Rows = std::vector<Row>;
void add_core_rows(Rows& rows);
void add_memory_rows(Rows& rows);
void add_atomic_rows(Rows& rows);
void add_math_rows(Rows& rows);
void add_async_rows(Rows& rows);
void add_mma_rows(Rows& rows);
void add_wgmma_rows(Rows& rows);
void add_tma_rows(Rows& rows);
// What LLVM calls for arithmetic that plain x86-64 has no instruction for (simt_soft_float.cpp).
void add_soft_float(std::vector<Symbol>& symbols);

}  // namespace tileweave::runtime::simt
