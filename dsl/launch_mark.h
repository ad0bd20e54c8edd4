// What each thread is launching, so that variants can be dropped while others launch: a table of variants frees an
// entry only when no thread searches the table or launches the entry (hazard pointers; M. Michael, IEEE TPDS 15(6),
// 2004). Used by launch.cpp around every launch; it costs one exchange and a few stores, no lock and no reference
// count.
#pragma once

#include <atomic>

namespace tileweave::launch {

class Variants;
struct Entry;

// A thread's mark, on a cache line of its own. Marks live for ever and are handed from thread to thread.
struct alignas(64) LaunchMark {
  std::atomic<const Variants*> searching{nullptr};
  std::atomic<const Entry*> launching{nullptr};
  std::atomic<bool> is_taken{true};
  LaunchMark* next = nullptr;  // set once, before the mark is published

  static LaunchMark& of_this_thread();
  // Visits the marks of all threads.
  static bool any_searches(const Variants& table);
  static bool any_launches(const Entry& entry);
};

// While one lives, the thread searches the table; after found(), it launches the entry (or, with null, is at rest).
class LaunchScope {
 public:
  explicit LaunchScope(const Variants& table) : mark_(LaunchMark::of_this_thread()) {
    mark_.searching.store(&table);  // sequentially consistent, as the table's reads: seen before they happen
  }
  ~LaunchScope() {
    mark_.searching.store(nullptr, std::memory_order_release);
    mark_.launching.store(nullptr, std::memory_order_release);
  }
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

  void found(const Entry* entry) {
    mark_.launching.store(entry, std::memory_order_relaxed);
    mark_.searching.store(nullptr, std::memory_order_release);
  }

 private:
  LaunchMark& mark_;
};

}  // namespace tileweave::launch
