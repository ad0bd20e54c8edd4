// Reads the environment into Env, once: the only place that calls getenv.
// Stands below everything; a bad value costs a warning, never the program.
#include "tileweave/jit/base/env.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "tileweave/jit/base/fork.h"

namespace tileweave {
namespace {

constexpr bool in_key = true, not_in_key = false, same_user = true, always = false;

constexpr EnvRow rows[] = {
#define TILEWEAVE_ENV(field, name, type, default_value, accepts, key, scope, text) {name, accepts, text, key, scope},
#include "tileweave/jit/base/env.def"
};

// The position of `value` in "a|b|c".
std::optional<unsigned> choice_of(std::string_view accepts, std::string_view value) {
  for (unsigned i = 0;; ++i) {
    const std::size_t bar = accepts.find('|');
    if (accepts.substr(0, bar) == value) return i;
    if (bar == std::string_view::npos) return std::nullopt;
    accepts.remove_prefix(bar + 1);
  }
}

std::string_view choice_name(std::string_view accepts, unsigned index) {
  for (; index > 0; --index) accepts.remove_prefix(accepts.find('|') + 1);
  return accepts.substr(0, accepts.find('|'));
}

std::optional<std::uint64_t> unsigned_of(std::string_view text) {
  std::uint64_t n = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

// "512", "64K", "256M", "2G", also written "2GiB" or "2GB".
std::optional<std::uint64_t> bytes_of(std::string_view text) {
  for (const std::string_view unit : {"iB", "B"}) {
    if (text.ends_with(unit)) {
      text.remove_suffix(unit.size());
      break;
    }
  }
  unsigned shift = 0;
  if (!text.empty()) {
    const std::size_t power = std::string_view("KMG").find(text.back());
    if (power != std::string_view::npos) {
      shift = 10 * static_cast<unsigned>(power + 1);
      text.remove_suffix(1);
    }
  }
  const auto n = unsigned_of(text);
  if (!n || *n > (std::numeric_limits<std::uint64_t>::max() >> shift)) return std::nullopt;
  return *n << shift;
}

bool is_device(std::string_view text) {
  if (text == "cpu" || text == "cuda" || text == "interpret" || text == "simt") return true;
  if (text.starts_with("cuda:")) {
    const auto index = unsigned_of(text.substr(5));
    return index && *index < 4096;
  }
  return text.starts_with("simt:sm_") && text.size() > 8;
}

bool accepts_text(std::string_view rule, std::string_view value) {
  if (rule == "<device>") return is_device(value);
  if (rule == "<absolute>") return value.starts_with('/');
  if (rule == "<group>") return value.starts_with("group:") && unsigned_of(value.substr(6)).has_value();
  return true;  // <directory>, <text>
}

template <class T>
std::optional<T> parse(std::string_view accepts, std::string_view value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return accepts_text(accepts, value) ? std::optional<T>(value) : std::nullopt;
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return accepts == "<bytes>" ? bytes_of(value) : unsigned_of(value);
  } else {
    const auto index = choice_of(accepts, value);
    return index ? std::optional<T>(static_cast<T>(*index)) : std::nullopt;
  }
}

template <class T>
std::string print(std::string_view accepts, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return std::to_string(value);
  } else {
    return std::string(choice_name(accepts, static_cast<unsigned>(value)));
  }
}

std::string_view expectation(std::string_view accepts) {
  if (accepts == "<device>") return "cpu, cuda, cuda:<index>, interpret, simt or simt:sm_<arch>";
  if (accepts == "<absolute>") return "an absolute path";
  if (accepts == "<group>") return "group:<gid>";
  if (accepts == "<bytes>") return "a number of bytes, with K, M or G";
  if (accepts == "<seconds>") return "a whole number of seconds";
  if (accepts == "<number>") return "a whole number";
  return accepts;
}

template <class T>
void read_row(const EnvSource& source, const char* name, std::string_view accepts, bool trusted_only, T& field) {
  if (trusted_only && !source.same_user) return;
  const std::optional<std::string> value = source.lookup(name);
  if (!value || value->empty()) return;
  if (auto parsed = parse<T>(accepts, *value)) {
    field = std::move(*parsed);
    return;
  }
  source.warn("tileweave: warning: " + std::string(name) + "=" + *value + " is not " +
              (accepts.starts_with("<") ? "" : "one of ") + std::string(expectation(accepts)) + "; using " +
              (print(accepts, field).empty() ? "the default" : print(accepts, field)));
}

std::optional<std::string> process_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

// Set-user-id, set-group-id, or rights by file capabilities (AT_SECURE): the environment is somebody else's.
bool runs_as_caller() { return getuid() == geteuid() && getgid() == getegid() && getauxval(AT_SECURE) == 0; }

// All settings ever handed out, so that references stay valid after a reload.
struct Readings {
  std::mutex mutex;
  std::vector<std::unique_ptr<const Env>> all;
  std::atomic<const Env*> current{nullptr};

  // One reader, so one warning, however many threads ask first.
  const Env& first() {
    const std::lock_guard lock(mutex);
    return all.empty() ? read() : *all.back();
  }
  const Env& reload() {
    const std::lock_guard lock(mutex);
    return read();
  }

 private:
  const Env& read() {
    all.push_back(std::make_unique<const Env>(read_env(
        {process_variable, [](const std::string& w) { std::fprintf(stderr, "%s\n", w.c_str()); }, runs_as_caller()})));
    current.store(all.back().get(), std::memory_order_release);
    return *all.back();
  }
};
Readings& readings() {
  static constinit Once<Readings> once;  // never destroyed: other statics' destructors may still ask
  return once.get([] { return new Readings; });
}

}  // namespace

Env read_env(const EnvSource& source) {
  Env e;
#define TILEWEAVE_ENV(field, name, type, default_value, accepts, key, scope, text) \
  read_row(source, name, accepts, scope, e.field);
#include "tileweave/jit/base/env.def"
  return e;
}

const Env& env() {
  Readings& r = readings();
  if (const Env* e = r.current.load(std::memory_order_acquire)) return *e;
  const FirstUse first_use;
  return r.first();
}

void reload_env_for_test() { readings().reload(); }

std::span<const EnvRow> env_rows() { return rows; }

std::string env_value(const Env& e, std::string_view wanted) {
#define TILEWEAVE_ENV(field, name, type, default_value, accepts, key, scope, text) \
  if (wanted == name) return print(accepts, e.field);
#include "tileweave/jit/base/env.def"
  return {};
}

}  // namespace tileweave
