// The list of objects that a fork locks one after the other, by order. See fork.h.
// jit/base/fork.cpp calls this before and after each fork.
#include "tileweave/cache/fork.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <ranges>
#include <vector>

#include "tileweave/jit/base/fork.h"

namespace tileweave::cache {

struct ForkRegistry {
  struct Watched {
    ForkOrder order;
    ForkAware* object;
    bool is_locked = false;
  };
  std::mutex mutex;              // guards what follows; not held while an object is waited for
  std::vector<Watched> objects;  // by order
  std::vector<ForkAware*> locked;
  bool forking = false;
  std::condition_variable* const done = new std::condition_variable;

  static ForkRegistry& instance() {
    static constinit Once<ForkRegistry> once;
    static constexpr ForkHooks hooks{[] { instance().lock_users(); }, [] { instance().lock_tables(); },
                                     [](bool is_child) { instance().unlock(is_child); }};
    return once.get([] {
      auto* const registry = new ForkRegistry;  // never destroyed: a late fork still calls the hooks
      set_fork_hooks(&hooks);
      return registry;
    });
  }

  // A kernel that is made while a thread forks waits for the fork: locking it after others would be out of order. A
  // table that is made meanwhile must not wait, because the fork may be waiting for its maker.
  void add(ForkAware& object, ForkOrder order) {
    std::unique_lock lock(mutex);
    if (order == ForkOrder::variants) done->wait(lock, [this] { return !forking; });
    const auto at = std::ranges::upper_bound(objects, order, {}, &Watched::order);
    objects.insert(at, {order, &object});
  }
  void remove(ForkAware& object) {
    std::unique_lock lock(mutex);
    done->wait(lock, [this] { return !forking; });
    std::erase_if(objects, [&](const Watched& w) { return w.object == &object; });
  }

  void lock_users() {
    std::unique_lock lock(mutex);
    done->wait(lock, [this] { return !forking; });  // another thread's fork
    forking = true;
    lock_up_to(ForkOrder::queues, lock);
  }
  void lock_tables() {
    std::unique_lock lock(mutex);
    lock_up_to(ForkOrder::running_code, lock);
    lock.release();
  }
  void unlock(bool is_child) {
    for (ForkAware* object : locked | std::views::reverse) object->after_fork(is_child);
    locked.clear();
    for (Watched& w : objects) w.is_locked = false;
    forking = false;
    if (is_child) ::new (done) std::condition_variable;  // its waiters are not here
    mutex.unlock();
    done->notify_all();
  }

 private:
  // An object's mutex may be held by somebody who is making another one: the list is free while it is waited for.
  void lock_up_to(ForkOrder last, std::unique_lock<std::mutex>& lock) {
    while (true) {
      const auto next =
          std::ranges::find_if(objects, [&](const Watched& w) { return !w.is_locked && w.order <= last; });
      if (next == objects.end()) return;
      next->is_locked = true;
      ForkAware* const object = next->object;
      lock.unlock();
      object->before_fork();
      lock.lock();
      locked.push_back(object);
    }
  }
};

ForkAware::ForkAware() = default;
ForkAware::~ForkAware() = default;

void watch_forks(ForkAware& object, ForkOrder order) { ForkRegistry::instance().add(object, order); }
void unwatch_forks(ForkAware& object) { ForkRegistry::instance().remove(object); }

}  // namespace tileweave::cache
