// One process of the process tests: asks the cache for a range of made-up kernels and checks every byte it gets.
// Started by the tests with the user's environment variables and `--name=value` options; exit status 0 if all was
// right.
#include <fcntl.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tileweave/cache/cache.h"
#include "tileweave/jit/base/error.h"

namespace {

using namespace tileweave;
using namespace tileweave::cache;

struct Options {
  std::map<std::string, std::string> values;

  Options(int count, char** arguments) {
    for (int i = 1; i < count; ++i) {
      const std::string text = arguments[i];
      const std::size_t equals = std::min(text.find('='), text.size());
      values[text.substr(2, equals - 2)] = equals < text.size() ? text.substr(equals + 1) : "1";
    }
  }
  std::string text(const std::string& name, const std::string& fallback = {}) const {
    const auto at = values.find(name);
    return at == values.end() ? fallback : at->second;
  }
  std::uint64_t number(const std::string& name, std::uint64_t fallback) const {
    const auto at = values.find(name);
    return at == values.end() ? fallback : std::stoull(at->second);
  }
  bool has(const std::string& name) const { return values.contains(name); }
};

Key key_of(const Options& options, std::uint64_t n) {
  return KeyWriter({options.text("codegen", "c"), "19", "sm_80", "ptx", "none"})
      .text("ir", "kernel number " + std::to_string(n))
      .natural("n", n)
      .finish("kernel" + std::to_string(n));
}

// What compiling kernel n yields; bytes that no other kernel has.
Entry expected(const Options& options, std::uint64_t n) {
  Entry entry{"kernel" + std::to_string(n), "meta", {}};
  entry.payload.resize(options.number("payload", 500));
  std::mt19937_64 random(n + options.number("wrong", 0) * 1000000);
  for (std::byte& b : entry.payload) b = static_cast<std::byte>(random());
  return entry;
}

// One line for each compile in a file that all processes append to.
void note_compile(const Options& options, std::uint64_t n) {
  if (!options.has("compile-log")) return;
  const int fd = ::open(options.text("compile-log").c_str(), O_WRONLY | O_APPEND | O_CREAT, 0666);
  const std::string line = std::to_string(n) + "\n";
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  ::close(fd);
}

Entry compile(const Options& options, std::uint64_t n) {
  note_compile(options, n);
  std::this_thread::sleep_for(std::chrono::milliseconds(options.number("compile-ms", 0)));
  if (options.has("compile-fails")) throw std::runtime_error("the assembler was killed");
  return expected(options, n);
}

bool ask(Cache& cache, const Options& options, std::uint64_t n) {
  const Entry entry = cache.get_or_compile(key_of(options, n), [&] { return compile(options, n); });
  if (entry == expected(options, n)) return true;
  std::fprintf(stderr, "wrong bytes for kernel %llu\n", static_cast<unsigned long long>(n));
  return false;
}

std::vector<std::uint64_t> order(const Options& options) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t n = 0; n < options.number("kernels", 1); ++n) numbers.push_back(options.number("first", 0) + n);
  if (options.has("shuffle")) {
    std::mt19937_64 random(options.number("shuffle", 0));
    for (std::size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[random() % i]);
  }
  return numbers;
}

void print_counters(const Cache& cache) {
  const Counters c = cache.counters();
  const auto say = [](const char* name, std::uint64_t value) {
    std::printf("%s=%llu\n", name, static_cast<unsigned long long>(value));
  };
  say("lookups", c.lookups);
  say("memory", c.memory);
  say("layer", c.layer);
  say("disk", c.disk);
  say("compiled", c.compiled);
  say("waited", c.waited);
  say("failed", c.failed);
  say("sum", c.memory + c.layer + c.disk + c.compiled + c.waited + c.failed);
  say("damaged", c.damaged);
  say("collisions", c.collisions);
  say("stored", c.stored);
  say("evicted", c.evicted);
}

// Children forked while threads compile: each must be able to compile and to read, and then go.
bool fork_while_compiling(Cache& cache, const Options& options) {
  std::atomic<bool> stop{false}, right{true};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t n = 0; !stop; ++n) {
        if (!ask(cache, options, 1000 * t + n % 500)) right = false;
      }
    });
  }
  std::mt19937 random(7);
  for (std::uint64_t i = 0; i < options.number("forks", 30); ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);
      bool child_right = true;
      for (std::uint64_t n = 0; n < 8; ++n) child_right = ask(cache, options, 1000 * n + i) && child_right;
      ::_exit(child_right ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      std::fprintf(stderr, "child %llu ended with status %x\n", static_cast<unsigned long long>(i),
                   static_cast<unsigned>(status));
      right = false;
    }
  }
  stop = true;
  for (auto& t : threads) t.join();
  return right;
}

// Bytes still allocated for each kernel after the first thousand.
bool stays_flat(Cache& cache, const Options& options) {
  const std::uint64_t count = options.number("kernels", 1);
  std::size_t before = 0;
  for (std::uint64_t n = 0; n < count; ++n) {
    if (n == 1000) before = ::mallinfo2().uordblks;
    if (!ask(cache, options, n)) return false;
  }
  const double each =
      (static_cast<double>(::mallinfo2().uordblks) - static_cast<double>(before)) / static_cast<double>(count - 1000);
  std::printf("bytes_kept_each=%f\n", each);
  return each < 64;
}

int run(const Options& options) {
  set_address_bits_for_test(static_cast<unsigned>(options.number("address-bits", 128)));
  if (options.has("print-key")) {
    std::printf("%s\n", key_of(options, 0).address().hex().c_str());
    return 0;
  }
  CacheSettings settings = settings_from(env());
  if (options.has("no-memory")) settings.memory_entries = 0;
  settings.lock_timeout = std::chrono::milliseconds(
      options.number("lock-timeout-ms", static_cast<std::uint64_t>(settings.lock_timeout.count())));
  if (options.has("start-fd")) {
    char c = 0;  // ends when the test closes its side: all processes begin together
    while (::read(static_cast<int>(options.number("start-fd", 0)), &c, 1) > 0) {
    }
  }
  Cache cache(settings);
  bool right = true;
  if (options.has("forks")) {
    right = fork_while_compiling(cache, options);
  } else if (options.has("flat")) {
    right = stays_flat(cache, options);
  } else {
    for (std::uint64_t round = 0; round < options.number("rounds", 1); ++round) {
      for (const std::uint64_t n : order(options)) right = ask(cache, options, n) && right;
    }
  }
  print_counters(cache);
  return right ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(Options(count, arguments));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
}
