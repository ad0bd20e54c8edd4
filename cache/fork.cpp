// One pthread_atfork registration for the library, and the list of objects it serves.
// See fork.h.
#include "tileweave/cache/fork.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <ranges>
#include <vector>

namespace tileweave::cache {

struct ForkRegistry {
  std::mutex mutex;
  struct Watched {
    ForkOrder order;
    ForkAware* object;
  };
  std::vector<Watched> objects;  // by order

  static ForkRegistry& instance() {
    static ForkRegistry& registry = *new ForkRegistry;  // never destroyed: a late fork still calls the handlers
    return registry;
  }
  ForkRegistry() {
    ::pthread_atfork([] { instance().before(); }, [] { instance().after(false); }, [] { instance().after(true); });
  }

  void before() {
    mutex.lock();
    for (const Watched& w : objects) w.object->before_fork();
  }
  void after(bool is_child) {
    for (const Watched& w : objects | std::views::reverse) w.object->after_fork(is_child);
    mutex.unlock();
  }
};

ForkAware::ForkAware() = default;
ForkAware::~ForkAware() = default;

void watch_forks(ForkAware& object, ForkOrder order) {
  ForkRegistry& registry = ForkRegistry::instance();
  const std::lock_guard lock(registry.mutex);
  const auto at = std::ranges::upper_bound(registry.objects, order, {}, &ForkRegistry::Watched::order);
  registry.objects.insert(at, {order, &object});
}

void unwatch_forks(ForkAware& object) {
  ForkRegistry& registry = ForkRegistry::instance();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.objects, [&](const ForkRegistry::Watched& w) { return w.object == &object; });
}

}  // namespace tileweave::cache
