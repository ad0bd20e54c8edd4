// A child gets the number of an item through one pipe and answers through another; the parent watches the clock and the
// pipes. What a child answers is read like a file from a stranger. See warmup_workers.h.
#include "warmup_workers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <source_location>
#include <utility>

#include "tileweave/cache/bytes.h"
#include "tileweave/cache/file.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/warm.h"

namespace tileweave::tools {
namespace {

using Clock = std::chrono::steady_clock;
using cache::ByteReader;
using cache::ByteWriter;
using cache::File;

constexpr std::uint8_t answer_done = 0, answer_failed = 1;
constexpr std::size_t head_bytes = 8;
constexpr std::uint64_t most_answer_bytes = cache::max_entry_bytes + (std::uint64_t{1} << 20);

// --- in the child

bool read_exactly(int fd, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::read(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

std::uint64_t address_space_now() {
  unsigned long long pages = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(f, "%llu", &pages) != 1) pages = 0;
    std::fclose(f);
  }
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void limit_memory(std::uint64_t bytes) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose shadow alone is larger
  const struct rlimit limit = {static_cast<rlim_t>(address_space_now() + bytes),
                               static_cast<rlim_t>(address_space_now() + bytes)};
  (void)::setrlimit(RLIMIT_AS, &limit);
#else
  (void)bytes;
#endif
}

std::vector<std::byte> answer(const WarmupItem& item) {
  std::vector<std::byte> out;
  ByteWriter w(out);
  const auto block = [&w](std::span<const std::byte> bytes) {
    w.u64(bytes.size());
    w.bytes(bytes);
  };
  try {
    const jit::Warmed made = jit::compile_record(*item.record, item.target, env().assembler);
    w.u8(answer_done);
    block(made.key.blob());
    block(cache::bytes_of(made.entry.meta));
    block(made.entry.payload);
  } catch (const std::bad_alloc&) {
    out.clear();
    w.u8(answer_failed);
    w.text("there was no more memory");
  } catch (const std::exception& e) {
    out.clear();
    w.u8(answer_failed);
    w.text(e.what());
  }
  return out;
}

[[noreturn]] void serve(const std::vector<WarmupItem>& items, const WarmupLimits& limits, int in, int out) {
  const struct rlimit none = {0, 0};
  (void)::setrlimit(RLIMIT_CORE, &none);
  limit_memory(limits.memory_bytes);
  while (true) {
    std::array<std::byte, head_bytes> number;
    if (!read_exactly(in, number)) ::_exit(0);  // no more items
    const std::vector<std::byte> body = answer(items[static_cast<std::size_t>(ByteReader(number).u64())]);
    std::vector<std::byte> head;
    ByteWriter(head).u64(body.size());
    if (cache::write_whole(out, head) != 0 || cache::write_whole(out, body) != 0) ::_exit(1);
  }
}

// --- in the parent

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return std::string("signal ") + ::strsignal(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

class Child {
 public:
  Child(const std::vector<WarmupItem>& items, const WarmupLimits& limits, const std::vector<int>& others) {
    int requests[2], answers[2];
    if (::pipe2(requests, O_CLOEXEC) != 0) return;
    if (::pipe2(answers, O_CLOEXEC) != 0) {
      ::close(requests[0]);
      ::close(requests[1]);
      return;
    }
    complaints_ = File(::memfd_create("complaints", MFD_CLOEXEC));
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      ::setpgid(0, 0);
      ::dup2(complaints_.get(), 2);
      ::close(requests[1]);
      ::close(answers[0]);
      for (const int fd : others) ::close(fd);  // else a sibling's pipe would never end
      serve(items, limits, requests[0], answers[1]);
    }
    ::close(requests[0]);
    ::close(answers[1]);
    to_ = File(requests[1]);
    from_ = File(answers[0]);
    if (pid_ > 0) ::setpgid(pid_, pid_);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool is_alive() const { return pid_ > 0; }
  bool is_busy() const { return item_.has_value(); }
  std::size_t item() const { return *item_; }
  Clock::time_point deadline() const { return deadline_; }
  int from() const { return from_.get(); }
  int to() const { return to_.get(); }

  bool start(std::size_t item, Clock::time_point deadline) {
    item_ = item;
    deadline_ = deadline;
    answer_.clear();
    std::vector<std::byte> number;
    ByteWriter(number).u64(item);
    return cache::write_whole(to_.get(), number) == 0;
  }

  enum class Progress { more, whole, broken };
  Progress receive() {
    std::byte buffer[1 << 16];
    const ssize_t n = ::read(from_.get(), buffer, sizeof buffer);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return Progress::more;
    if (n <= 0) return Progress::broken;
    answer_.insert(answer_.end(), buffer, buffer + n);
    if (answer_.size() < head_bytes) return Progress::more;
    const std::uint64_t size = ByteReader(answer_).u64();
    if (size == 0 || size > most_answer_bytes || answer_.size() > head_bytes + size) return Progress::broken;
    return answer_.size() == head_bytes + size ? Progress::whole : Progress::more;
  }
  std::span<const std::byte> body() const { return std::span(answer_).subspan(head_bytes); }
  void rest() { item_.reset(); }

  // Ends the process and all it has started; says how it ended.
  std::string end() {
    if (pid_ <= 0) return {};
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return how_it_ended(status);
  }
  // A child that has already ended, without killing it first.
  std::string wait_for_end() {
    int status = 0;
    for (int poll = 0; poll < 200; ++poll) {
      const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
      if (ended == pid_) {
        ::kill(-pid_, SIGKILL);  // what it has started
        pid_ = -1;
        return how_it_ended(status);
      }
      ::usleep(5000);
    }
    return end();
  }
  // The last line that it wrote to stderr.
  std::string last_complaint() const {
    char text[512];
    const off_t size = ::lseek(complaints_.get(), 0, SEEK_END);
    const off_t at = std::max<off_t>(0, size - static_cast<off_t>(sizeof text));
    const ssize_t n = ::pread(complaints_.get(), text, sizeof text, at);
    std::string all(text, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    while (!all.empty() && all.back() == '\n') all.pop_back();
    const std::size_t line = all.rfind('\n');
    return line == std::string::npos ? all : all.substr(line + 1);
  }

 private:
  pid_t pid_ = -1;
  File to_, from_, complaints_;
  std::optional<std::size_t> item_;
  Clock::time_point deadline_;
  std::vector<std::byte> answer_;
};

class Crew {
 public:
  Crew(const std::vector<WarmupItem>& items, const WarmupLimits& limits, const WarmupSink& sink)
      : items_(items), limits_(limits), sink_(sink) {
    for (std::size_t i = 0; i < items.size(); ++i) queue_.push_back(i);
  }

  void run() {
    const auto most = std::min(static_cast<std::size_t>(std::max(limits_.processes, 1)), items_.size());
    for (std::size_t i = 0; i < most; ++i) children_.push_back(hire());
    while (open_ > 0 || !queue_.empty()) {
      for (auto& child : children_) give_work(child);
      watch();
    }
  }

 private:
  std::unique_ptr<Child> hire() {
    std::vector<int> others;
    for (const auto& c : children_) {
      if (c == nullptr) continue;
      others.push_back(c->from());
      others.push_back(c->to());
    }
    auto child = std::make_unique<Child>(items_, limits_, others);
    if (!child->is_alive()) {
      throw_internal_error(std::source_location::current(), "no child process can be started: too many processes");
    }
    return child;
  }

  void give_work(std::unique_ptr<Child>& child) {
    if (child->is_busy() || queue_.empty()) return;
    const std::size_t item = queue_.front();
    queue_.pop_front();
    ++open_;
    // A child that has gone without work (the machine is short of memory) is replaced once.
    if (!child->start(item, Clock::now() + limits_.time)) {
      child = nullptr;
      child = hire();
      if (!child->start(item, Clock::now() + limits_.time)) lose(child, "its child process does not take work");
    }
  }

  void watch() {
    std::vector<pollfd> polled;
    std::vector<std::size_t> who;
    Clock::time_point next = Clock::now() + std::chrono::seconds(1);
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (!children_[i]->is_busy()) continue;
      polled.push_back({children_[i]->from(), POLLIN, 0});
      who.push_back(i);
      next = std::min(next, children_[i]->deadline());
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count();
    (void)::poll(polled.data(), polled.size(), static_cast<int>(std::max<long>(left + 1, 0)));
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) hear(children_[who[i]]);
    }
    for (auto& child : children_) {
      if (child->is_busy() && Clock::now() >= child->deadline()) {
        (void)child->end();
        lose(child, "it was still being compiled after " + std::to_string(limits_.time.count()) + " s");
      }
    }
  }

  void hear(std::unique_ptr<Child>& child) {
    switch (child->receive()) {
      case Child::Progress::more:
        return;
      case Child::Progress::whole:
        accept(child->item(), child->body());
        child->rest();
        --open_;
        return;
      case Child::Progress::broken: {
        const std::string complaint = child->last_complaint();
        const std::string how = child->wait_for_end();
        return lose(child, "its compile ended with " + how + (complaint.empty() ? "" : ": " + complaint));
      }
    }
  }

  void accept(std::size_t item, std::span<const std::byte> body) {
    ByteReader in(body);
    if (in.u8() == answer_failed) return sink_.failed(item, std::string(in.text(in.left())));
    const auto blob = in.bytes(in.u64());
    const std::string meta(in.text(in.u64()));
    const auto payload = in.bytes(in.u64());
    const std::string& name = items_[item].record->kernel_name;
    auto key = cache::Key::parse(blob, name);
    if (!in.ok() || !in.at_end() || !key || payload.empty()) {
      return sink_.failed(item, "its child process answered nonsense");
    }
    sink_.done(item, std::move(*key), cache::Entry{name, meta, {payload.begin(), payload.end()}});
  }

  void lose(std::unique_ptr<Child>& child, std::string why) {
    sink_.failed(child->item(), std::move(why));
    --open_;
    child = nullptr;
    child = hire();
  }

  const std::vector<WarmupItem>& items_;
  const WarmupLimits& limits_;
  const WarmupSink& sink_;
  std::deque<std::size_t> queue_;
  std::vector<std::unique_ptr<Child>> children_;
  std::size_t open_ = 0;
};

}  // namespace

void compile_in_children(const std::vector<WarmupItem>& items, const WarmupLimits& limits, const WarmupSink& sink) {
  // A child that dies while it is written to must not end us.
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  if (!items.empty()) Crew(items, limits, sink).run();
  ::sigaction(SIGPIPE, &before, nullptr);
}

}  // namespace tileweave::tools
