// Work that goes on while the program runs: compiles asked for by warmup_async or by launches that do not wait.
// A few threads of the process, started at the first task; at exit the running tasks end and the others are dropped.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

namespace tileweave::jit {

class Task {
 public:
  explicit Task(std::function<void()> work) : work_(std::move(work)) {}

  bool is_done() const;
  // Blocks until it has run; rethrows what it threw. InternalError where the process ends before its turn.
  void wait();

 private:
  friend class Background;
  void run();
  void finish(std::exception_ptr error);

  std::function<void()> work_;
  mutable std::mutex mutex_;
  std::condition_variable done_condition_;
  bool is_done_ = false;
  std::exception_ptr error_;
};

std::shared_ptr<Task> run_in_background(std::function<void()> work);

}  // namespace tileweave::jit
