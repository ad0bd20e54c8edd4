// Where the cache speaks: each kind of warning once in a process, and a line for every lookup where the user asked.
// Handed down to every store; a fault of the file system ends here and never in an exception.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace tileweave::cache {

enum class Warning : std::uint8_t { no_root, untrusted, read_only, disk_full, not_stored, layer, stale_layer, locks };

class Reporter {
 public:
  using Sink = std::function<void(const std::string& line)>;

  // An empty sink writes to stderr. `log_lookups`: log() speaks.
  explicit Reporter(Sink sink = {}, bool log_lookups = false);

  void warn_once(Warning kind, const std::string& text);
  void log(const std::string& text) const;
  bool logs() const { return log_lookups_; }

 private:
  Sink sink_;
  bool log_lookups_;
  std::atomic<std::uint32_t> said_{0};  // one bit a kind; no mutex, so nothing here can be held across fork()
};

}  // namespace tileweave::cache
