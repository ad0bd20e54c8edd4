// The process's manifest: which variants are in it, and the file. See recording.h.
// A forked child begins a file of its own; the parent's descriptor is only closed there.
#include "tileweave/jit/recording.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>

#include "tileweave/cache/fork.h"
#include "tileweave/cache/hash.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/fork.h"

namespace tileweave::jit {
namespace {

class Recording final : cache::ForkAware {
 public:
  static Recording& instance() {
    static constinit Once<Recording> once;  // never destroyed: kernels may be launched at exit
    return once.get([] { return new Recording; });
  }

  bool is_on() const { return is_on_.load(std::memory_order_acquire); }

  void begin(const std::string& directory) {
    const std::lock_guard lock(mutex_);
    seen_.clear();
    directory_ = directory;
    writer_ = directory.empty() ? nullptr : std::make_unique<cache::ManifestWriter>(directory);
    is_on_.store(writer_ != nullptr, std::memory_order_release);
  }

  void add(const ir::Function& f) {
    const cache::Record record = record_of(f);
    const std::lock_guard lock(mutex_);
    const std::span text(reinterpret_cast<const std::byte*>(record.ir.data()), record.ir.size());
    if (!writer_ || !seen_.insert(cache::hash128(text)).second) return;
    if (const int error = writer_->append(record); error != 0) {
      std::fprintf(stderr, "tileweave: warning: cannot record kernels in %s: %s\n", directory_.c_str(),
                   cache::error_text(error).c_str());
    }
  }

 private:
  Recording() {
    begin(env().record);
    cache::watch_forks(*this);
  }
  void before_fork() override { mutex_.lock(); }
  void after_fork(bool is_child) override {
    if (is_child && writer_) {
      seen_.clear();
      writer_ = std::make_unique<cache::ManifestWriter>(directory_);
    }
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::atomic<bool> is_on_{false};
  std::string directory_;
  std::unique_ptr<cache::ManifestWriter> writer_;
  std::set<cache::Hash128> seen_;
};

}  // namespace

void record_to(const std::string& directory) { Recording::instance().begin(directory); }

void record_use(const ir::Function& f) noexcept {
  Recording& recording = Recording::instance();
  if (!recording.is_on()) return;
  try {
    recording.add(f);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tileweave: warning: kernel '%s' is not recorded: %s\n", f.name.c_str(), e.what());
  }
}

cache::Record record_of(const ir::Function& f) {
  // Debug and checked builds have source lines in their code, and so in their keys.
  const bool with_places = f.options.debug > 0 || f.options.checked || f.options.overflow;
  return {f.name, with_places ? ir::to_readable(f) : ir::to_text(f)};
}

ir::Function function_of(const cache::Record& record) {
  ir::Function f = ir::parse(record.ir);
  ir::verify(f, ir::Stage::recorded);
  return f;
}

}  // namespace tileweave::jit
