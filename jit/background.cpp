// The queue and its threads. See background.h.
// A forked child has none of the threads: what they were doing is queued again there and done by threads of its own.
#include "tileweave/jit/background.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <new>
#include <source_location>
#include <thread>
#include <utility>
#include <vector>

#include "tileweave/cache/fork.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/fork.h"
#include "tileweave/jit/jit_library.h"

namespace tileweave::jit {

bool Task::is_done() const {
  const std::lock_guard lock(mutex_);
  return is_done_;
}

void Task::run() {
  std::exception_ptr error;
  try {
    work_();
  } catch (...) {
    error = std::current_exception();
  }
  finish(std::move(error));
}

void Task::finish(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  work_ = nullptr;  // what it held may be large
  error_ = std::move(error);
  is_done_ = true;
  done_condition_.notify_all();
}

namespace {
std::exception_ptr too_late() {
  try {
    throw_internal_error(std::source_location::current(), "the process ended before a background compile's turn came");
  } catch (...) {
    return std::current_exception();
  }
}
}  // namespace

class Background final : cache::ForkAware {
 public:
  static Background& instance() {
    static constinit Once<Background> once;
    return once.get([] { return new Background; });
  }

  void add(std::shared_ptr<Task> task) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return task->finish(too_late());
    queue_.push_back(std::move(task));
    start_threads();
    wake_.notify_one();
  }

  // After a fork, whoever waits in the child needs threads.
  void ensure_threads() {
    const std::lock_guard lock(mutex_);
    if (!stopping_ && !queue_.empty()) start_threads();
  }

 private:
  Background() {
    cache::watch_forks(*this, cache::ForkOrder::queues);
    // Opened before the handler is registered, so that the handler runs before LLVM's own destructors do.
    (void)why_no_compiler();
    std::atexit([] { instance().stop(); });
  }

  void start_threads() {
    const std::size_t most = std::max(1U, std::thread::hardware_concurrency() / 2);
    while (threads_.size() < std::min(most, queue_.size() + running_.size())) {
      threads_.emplace_back([this] { work(); });
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      const std::shared_ptr<Task> task = std::move(queue_.front());
      queue_.pop_front();
      running_.push_back(task);
      lock.unlock();
      task->run();
      lock.lock();
      std::erase(running_, task);
    }
  }

  void stop() {
    std::vector<std::thread> threads;
    std::deque<std::shared_ptr<Task>> dropped;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      dropped.swap(queue_);
      threads.swap(threads_);
      wake_.notify_all();
    }
    for (const auto& task : dropped) task->finish(too_late());
    for (std::thread& t : threads) t.join();
  }

  void before_fork() override {
    mutex_.lock();
    for (const auto& task : running_) task->mutex_.lock();
  }
  void after_fork(bool is_child) override {
    for (const auto& task : running_) task->mutex_.unlock();
    if (is_child) {
      // Their threads are not here: neither to be joined nor to be waited for. The objects' memory is left alone.
      for (std::thread& t : threads_) ::new (&t) std::thread;
      threads_.clear();
      ::new (&wake_) std::condition_variable;
      for (const auto& task : running_) queue_.push_front(task);
      running_.clear();
      for (const auto& task : queue_) ::new (&task->done_condition_) std::condition_variable;
    }
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Task>> queue_;
  std::vector<std::shared_ptr<Task>> running_;
  std::vector<std::thread> threads_;
  bool stopping_ = false;
};

void Task::wait() {
  Background::instance().ensure_threads();
  std::unique_lock lock(mutex_);
  done_condition_.wait(lock, [this] { return is_done_; });
  if (error_) std::rethrow_exception(error_);
}

std::shared_ptr<Task> run_in_background(std::function<void()> work) {
  auto task = std::make_shared<Task>(std::move(work));
  Background::instance().add(task);
  return task;
}

}  // namespace tileweave::jit
