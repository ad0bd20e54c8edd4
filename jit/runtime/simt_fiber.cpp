// Stacks with guard pages and the context switch, with the sanitizers told about it.
// See simt_fiber.h.
#include "tileweave/jit/runtime/simt_fiber.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>

#include "tileweave/jit/base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#define TILEWEAVE_ASAN_FIBERS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TILEWEAVE_ASAN_FIBERS 1
#endif
#endif
#ifdef TILEWEAVE_ASAN_FIBERS
#include <sanitizer/common_interface_defs.h>
#endif

namespace tileweave::runtime::simt {
namespace {

namespace fcontext = boost::context::detail;

// Kernels with wgmma accumulators spill kilobytes; pages that are not touched cost nothing.
constexpr std::size_t guard_bytes = 4096, stack_bytes = 256 * 1024;

void leave([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* stack, [[maybe_unused]] std::size_t bytes) {
#ifdef TILEWEAVE_ASAN_FIBERS
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
#endif
}

void arrive([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** stack,
            [[maybe_unused]] std::size_t* bytes) {
#ifdef TILEWEAVE_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(fake_stack, stack, bytes);
#endif
}

}  // namespace

Fibers::~Fibers() {
  for (const Fiber& f : fibers_) munmap(f.stack - guard_bytes, guard_bytes + stack_bytes);
}

void Fibers::grow(std::size_t count) {
  while (fibers_.size() < count) {
    void* memory = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, guard_bytes, PROT_NONE) != 0) {
      if (memory != MAP_FAILED) munmap(memory, guard_bytes + stack_bytes);
      throw_launch_error({}, "SIMT emulation: no memory for the stacks of " + std::to_string(count) + " threads");
    }
    fibers_.push_back({});
    fibers_.back().stack = static_cast<char*>(memory) + guard_bytes;
  }
}

void Fibers::start(Body body, const std::vector<void*>& arguments) {
  grow(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Fiber& f = fibers_[i];
    f.body = body;
    f.argument = arguments[i];
    f.home = this;
    f.fake_stack = nullptr;
    f.context = fcontext::make_fcontext(f.stack + stack_bytes, stack_bytes, [](fcontext::transfer_t from) {
      Fiber& fiber = *static_cast<Fiber*>(from.data);
      fiber.home->scheduler_ = from.fctx;
      arrive(nullptr, &fiber.home->scheduler_stack_, &fiber.home->scheduler_stack_bytes_);
      run(fiber);
    });
  }
}

// Never returns: a fibre that has ended is not resumed again before the next start().
void Fibers::run(Fiber& fiber) {
  fiber.body(fiber.argument);
  for (;;) fiber.home->pause();
}

void Fibers::resume(std::size_t i) {
  Fiber& f = fibers_[i];
  running_ = i;
  leave(&scheduler_fake_stack_, f.stack, stack_bytes);
  const fcontext::transfer_t back = fcontext::jump_fcontext(f.context, &f);
  arrive(scheduler_fake_stack_, nullptr, nullptr);
  f.context = back.fctx;
}

void Fibers::pause() {
  Fiber& f = fibers_[running_];
  leave(&f.fake_stack, scheduler_stack_, scheduler_stack_bytes_);
  const fcontext::transfer_t back = fcontext::jump_fcontext(scheduler_, nullptr);
  arrive(f.fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
  scheduler_ = back.fctx;
}

}  // namespace tileweave::runtime::simt
