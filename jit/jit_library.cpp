// Finds libtileweave_jit beside libtileweave and speaks to it. See jit_library.h.
// The other side of the boundary is jit_entry.cpp.
#include "tileweave/jit/jit_library.h"

#include <dlfcn.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <new>

#include "tileweave/cache/fork.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/fork.h"
#include "tileweave/jit/jit_entry.h"
#include "tileweave_codegen_id.h"

namespace tileweave::jit {
namespace {
using Entry = decltype(&tileweave_jit_compile);

// Beside the library (or program) that this code is in: the environment must not be able to name code to load.
std::string library_path() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&codegen_id), &info) || !info.dli_fname) return "libtileweave_jit.so";
  std::error_code failed;
  auto self = std::filesystem::canonical(info.dli_fname, failed);
  return failed ? std::string("libtileweave_jit.so") : (self.parent_path() / "libtileweave_jit.so").string();
}

struct Library {
  Entry entry = nullptr;
  std::string problem;
};

Library open_library() {
  if (&tileweave_jit_compile) return {&tileweave_jit_compile, {}};  // a program that links the compiler in
  const std::string path = library_path();
  // RTLD_LOCAL keeps its LLVM to itself; never closed, because LLVM's statics do not survive it.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    return {nullptr, why ? why : "unknown error"};
  }
  auto entry = reinterpret_cast<Entry>(dlsym(handle, "tileweave_jit_compile"));
  if (!entry) return {nullptr, path + " has no function tileweave_jit_compile"};
  return {entry, {}};
}

const Library& library() {
  static const Library& opened = *new Library(open_library());  // never destroyed: threads may compile at exit
  return opened;
}

// LLVM's locks must not be held by a thread that a forked child does not have: a fork waits for the compiles that run,
// and new ones wait for the fork.
class CompileGate final : cache::ForkAware {
 public:
  static CompileGate& instance() {
    static constinit Once<CompileGate> once;
    return once.get([] { return new CompileGate; });
  }
  void enter() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !forking_ || inside_here > 0; });
    ++inside_;
    ++inside_here;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --inside_;
    --inside_here;
    changed_.notify_all();
  }

 private:
  CompileGate() { cache::watch_forks(*this, cache::ForkOrder::running_code); }
  void before_fork() override {
    std::unique_lock lock(mutex_);
    forking_ = true;
    changed_.wait(lock, [this] { return inside_ == inside_here; });  // a compile that forks itself is not waited for
    lock.release();
  }
  void after_fork(bool is_child) override {
    if (is_child) {
      ::new (&changed_) std::condition_variable;  // its waiters are not here
      inside_ = inside_here;
    }
    forking_ = false;
    mutex_.unlock();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0;
  bool forking_ = false;
  static thread_local int inside_here;  // of this thread
};
thread_local int CompileGate::inside_here = 0;

struct InsideGate {
  InsideGate() { CompileGate::instance().enter(); }
  ~InsideGate() { CompileGate::instance().leave(); }
  InsideGate(const InsideGate&) = delete;
  InsideGate& operator=(const InsideGate&) = delete;
};

struct Conversation {
  std::vector<std::byte> reply;
  const StageObserver& observe;
};

void receive(void* user, const void* data, std::size_t bytes) {
  const auto* p = static_cast<const std::byte*>(data);
  static_cast<Conversation*>(user)->reply.assign(p, p + bytes);
}

void pass_on(void* user, const char* stage, std::size_t stage_bytes, const char* text, std::size_t text_bytes) {
  static_cast<Conversation*>(user)->observe({stage, stage_bytes}, std::string(text, text_bytes));
}

[[noreturn]] void throw_reply(int status, Diagnostic d, const ir::Function& f) {
  if (!d.place.known()) d.place = f.place;
  if (status == tileweave_jit_record_error) throw_record_error(d.place, d.message, d.help, d.notes);
  if (status == tileweave_jit_compile_error) throw_compile_error(d.place, d.message, d.help, d.notes);
  throw_internal_error(d);
}
}  // namespace

const char* codegen_id() { return TILEWEAVE_CODEGEN_ID; }
const char* llvm_version() { return TILEWEAVE_LLVM_VERSION; }
std::string why_no_compiler() {
  const InsideGate inside;
  return library().problem;
}

Binary compile_in_library(const ir::Function& recorded, const std::string& target, const StageObserver& observe) {
  const InsideGate inside;  // opening the library is nothing that a fork may cut in half, either
  const Library& lib = library();
  if (!lib.entry)
    throw_compile_error(
        recorded.place,
        "kernel '" + recorded.name + "' is not in the cache and the compiler cannot be loaded: " + lib.problem,
        "install libtileweave_jit beside libtileweave, or ship a cache that holds this kernel");
  const std::string text = ir::to_readable(recorded);
  Conversation talk{{}, observe};
  const int status =
      lib.entry(codegen_id(), text.data(), text.size(), target.c_str(), receive, observe ? pass_on : nullptr, &talk);
  if (status != tileweave_jit_done) throw_reply(status, deserialize_diagnostic(talk.reply), recorded);
  return deserialize(talk.reply);
}

}  // namespace tileweave::jit
