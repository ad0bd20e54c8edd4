// What a fork must not cut in half: small tables, and first uses that are under way. Their mutexes are held across the
// fork, so that the child, which has none of the other threads, finds them free and what they guard whole.
// fork.cpp has the library's only pthread_atfork; cache/fork.h adds objects with an order to it.
#pragma once

#include <atomic>
#include <mutex>

namespace tileweave {

// The mutex of a small table that lives for ever. While one is held, no other mutex of the library is taken.
class LeafMutex {
 public:
  constexpr LeafMutex() = default;
  LeafMutex(const LeafMutex&) = delete;
  LeafMutex& operator=(const LeafMutex&) = delete;
  void lock() {
    if (!is_listed_.load(std::memory_order_acquire)) list();
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }

 private:
  friend struct LeafMutexes;
  void list();

  std::mutex mutex_;
  std::atomic<bool> is_listed_{false};
  LeafMutex* next_ = nullptr;
};

// A thread's first use of something, while it lasts: forks wait for its end, and its begin waits for a fork's. May be
// nested. Not to be begun with a mutex held that a fork takes later (ForkOrder::tables and after, leaves).
class FirstUse {
 public:
  FirstUse();
  ~FirstUse();
  FirstUse(const FirstUse&) = delete;
  FirstUse& operator=(const FirstUse&) = delete;
};

// An object that is made at its first use and lives for ever. A static local would do, were it not for forks: the
// compiler's guard stays locked in the child for ever when another thread is making the object.
template <class T>
class Once {
 public:
  // `make` gives a pointer to a new T. Where it throws, the next use tries again.
  template <class Make>
  T& get(Make make) {
    if (T* made = value_.load(std::memory_order_acquire)) return *made;
    const FirstUse first_use;
    const std::lock_guard lock(mutex_);
    if (T* made = value_.load(std::memory_order_relaxed)) return *made;
    T* const made = make();
    value_.store(made, std::memory_order_release);
    return *made;
  }

 private:
  std::mutex mutex_;
  std::atomic<T*> value_{nullptr};
};

// What else happens at a fork. `users` before first uses are waited for, `tables` after; `done` in parent and child.
struct ForkHooks {
  void (*lock_users)();
  void (*lock_tables)();
  void (*done)(bool is_child);
};
// From now on forks are watched. Called at the first device and the first kernel; not by libtileweave_jit, whose
// compiles a fork waits for as a whole.
void watch_forks();
void set_fork_hooks(const ForkHooks* hooks);
// Whether this process was forked while watched: it has none of its parent's threads.
bool is_forked_child() noexcept;

}  // namespace tileweave
