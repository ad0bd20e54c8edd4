// The steps of a fork, in an order in which nobody waits for somebody further up. See fork.h.
#include "tileweave/jit/base/fork.h"

#include <pthread.h>

#include <condition_variable>
#include <new>
#include <utility>

namespace tileweave {

struct LeafMutexes {
  std::mutex mutex;
  LeafMutex* first = nullptr;

  void add(LeafMutex& leaf) {
    const std::lock_guard lock(mutex);
    if (leaf.is_listed_.load(std::memory_order_relaxed)) return;
    leaf.next_ = std::exchange(first, &leaf);
    leaf.is_listed_.store(true, std::memory_order_release);
  }
  void lock_all() {
    mutex.lock();
    for (LeafMutex* leaf = first; leaf != nullptr; leaf = leaf->next_) leaf->mutex_.lock();
  }
  void unlock_all() {
    for (LeafMutex* leaf = first; leaf != nullptr; leaf = leaf->next_) leaf->mutex_.unlock();
    mutex.unlock();
  }
};

namespace {

thread_local int first_uses_of_this_thread = 0;

class FirstUses {
 public:
  void begin() {
    if (first_uses_of_this_thread++ > 0) return;
    const std::lock_guard lock(mutex_);
    ++under_way_;
  }
  void end() {
    if (--first_uses_of_this_thread > 0) return;
    const std::lock_guard lock(mutex_);
    --under_way_;
    ended_->notify_all();
  }
  // Held from here to the end of the fork. A first use that forks itself is not waited for.
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    const int own = first_uses_of_this_thread > 0 ? 1 : 0;
    ended_->wait(lock, [&] { return under_way_ == own; });
    lock.release();
    ++first_uses_of_this_thread;  // what the fork's own steps use for the first time passes
  }
  void go_on(bool is_child) {
    --first_uses_of_this_thread;
    if (is_child) ::new (ended_) std::condition_variable;  // its waiters are not here
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::condition_variable* const ended_ = new std::condition_variable;
  int under_way_ = 0;
};

// Both live for ever: forks come late, too.
LeafMutexes& leaves() {
  static LeafMutexes& all = *new LeafMutexes;
  return all;
}
FirstUses& first_uses() {
  static FirstUses& all = *new FirstUses;
  return all;
}
// Made while the library is loaded, by one thread.
[[maybe_unused]] const bool made = (leaves(), first_uses(), true);

std::atomic<const ForkHooks*> fork_hooks{nullptr};
const ForkHooks* hooks_of_this_fork = nullptr;  // of the forking thread, between its handlers
std::atomic<bool> forked_child{false};

void before() {
  const ForkHooks* const hooks = fork_hooks.load(std::memory_order_acquire);
  if (hooks != nullptr) hooks->lock_users();
  first_uses().wait_for_all();
  if (hooks != nullptr) hooks->lock_tables();
  leaves().lock_all();
  hooks_of_this_fork = hooks;
}
void after(bool is_child) {
  if (is_child) forked_child.store(true, std::memory_order_relaxed);
  const ForkHooks* const hooks = hooks_of_this_fork;
  leaves().unlock_all();
  if (hooks != nullptr) hooks->done(is_child);
  first_uses().go_on(is_child);
}

}  // namespace

void LeafMutex::list() { leaves().add(*this); }
FirstUse::FirstUse() { first_uses().begin(); }
FirstUse::~FirstUse() { first_uses().end(); }

void watch_forks() {
  static std::atomic<bool> is_watched{false};
  if (is_watched.load(std::memory_order_relaxed) || is_watched.exchange(true)) return;
  ::pthread_atfork(before, [] { after(false); }, [] { after(true); });
}

void set_fork_hooks(const ForkHooks* hooks) {
  fork_hooks.store(hooks, std::memory_order_release);
  watch_forks();
}

bool is_forked_child() noexcept { return forked_child.load(std::memory_order_relaxed); }

}  // namespace tileweave
