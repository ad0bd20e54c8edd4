// One pthread_atfork registration for the library, and the list of objects it serves.
// See fork.h.
#include "tileweave/cache/fork.h"

#include <pthread.h>

#include <mutex>
#include <ranges>
#include <vector>

namespace tileweave::cache {

struct ForkRegistry {
  std::mutex mutex;
  std::vector<ForkAware*> objects;

  static ForkRegistry& instance() {
    static ForkRegistry& registry = *new ForkRegistry;  // never destroyed: a late fork still calls the handlers
    return registry;
  }
  ForkRegistry() {
    ::pthread_atfork([] { instance().before(); }, [] { instance().after(false); }, [] { instance().after(true); });
  }

  void before() {
    mutex.lock();
    for (ForkAware* object : objects) object->before_fork();
  }
  void after(bool is_child) {
    for (ForkAware* object : objects | std::views::reverse) object->after_fork(is_child);
    mutex.unlock();
  }
};

ForkAware::ForkAware() = default;
ForkAware::~ForkAware() = default;

void watch_forks(ForkAware& object) {
  ForkRegistry& registry = ForkRegistry::instance();
  const std::lock_guard lock(registry.mutex);
  registry.objects.push_back(&object);
}

void unwatch_forks(ForkAware& object) {
  ForkRegistry& registry = ForkRegistry::instance();
  const std::lock_guard lock(registry.mutex);
  std::erase(registry.objects, &object);
}

}  // namespace tileweave::cache
