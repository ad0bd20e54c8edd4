// The list of marks, which only grows, and the handing out of marks to threads. See launch_mark.h.
#include "tileweave/dsl/launch_mark.h"

namespace tileweave::launch {
namespace {

std::atomic<LaunchMark*> marks{nullptr};

LaunchMark& take_mark() {
  for (LaunchMark* m = marks.load(std::memory_order_acquire); m != nullptr; m = m->next) {
    bool is_free = false;
    if (m->is_taken.compare_exchange_strong(is_free, true, std::memory_order_acquire)) return *m;
  }
  auto* const mark = new LaunchMark;  // never freed: other threads read the list
  mark->next = marks.load(std::memory_order_relaxed);
  while (!marks.compare_exchange_weak(mark->next, mark, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return *mark;
}

struct Holder {
  LaunchMark& mark = take_mark();
  ~Holder() { mark.is_taken.store(false, std::memory_order_release); }
};

}  // namespace

LaunchMark& LaunchMark::of_this_thread() {
  thread_local const Holder holder;
  return holder.mark;
}

bool LaunchMark::any_searches(const Variants& table) {
  for (const LaunchMark* m = marks.load(std::memory_order_acquire); m != nullptr; m = m->next) {
    if (m->searching.load() == &table) return true;
  }
  return false;
}

bool LaunchMark::any_launches(const Entry& entry) {
  for (const LaunchMark* m = marks.load(std::memory_order_acquire); m != nullptr; m = m->next) {
    if (m->launching.load(std::memory_order_acquire) == &entry) return true;
  }
  return false;
}

}  // namespace tileweave::launch
