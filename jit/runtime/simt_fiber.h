// Fibres of the SIMT machine: a pool of guarded stacks and the switch between a fibre and its scheduler.
// Under simt_cluster; the only file pair that touches Boost.Context.
#pragma once

#include <cstddef>
#include <vector>

namespace tileweave::runtime::simt {

// The fibres of one worker thread. A fibre runs `body(argument)` until it returns or is abandoned; a fibre that faulted
// is abandoned where it stands, so bodies must own nothing at that moment. Nothing is ever unwound.
class Fibers {
 public:
  using Body = void (*)(void* argument);

  Fibers() = default;
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // `count` fresh fibres that will run body(arguments[i]); stacks are kept from earlier calls. Errors: LaunchError
  // where there is no memory for the stacks.
  void start(Body body, const std::vector<void*>& arguments);
  // From the scheduler: runs fibre i until it pauses or ends.
  void resume(std::size_t i);
  // From a fibre: back to the scheduler.
  void pause();

 private:
  struct Fiber {
    void* context = nullptr;
    char* stack = nullptr;
    Body body = nullptr;
    void* argument = nullptr;
    Fibers* home = nullptr;
    void* fake_stack = nullptr;  // AddressSanitizer's, while the fibre is paused
  };
  static void run(Fiber& fiber);
  void grow(std::size_t count);

  std::vector<Fiber> fibers_;
  std::size_t running_ = 0;
  void* scheduler_ = nullptr;
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
};

}  // namespace tileweave::runtime::simt
