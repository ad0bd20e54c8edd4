// Writes the cache's warnings and its log, a line in one call so that processes do not mix within lines.
// See report.h.
#include "tileweave/cache/report.h"

#include <cstdio>
#include <utility>

namespace tileweave::cache {

Reporter::Reporter(Sink sink, bool log_lookups) : sink_(std::move(sink)), log_lookups_(log_lookups) {
  if (!sink_) sink_ = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); };
}

void Reporter::warn_once(Warning kind, const std::string& text) {
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(kind);
  if ((said_.fetch_or(bit, std::memory_order_relaxed) & bit) == 0) {
    sink_("tileweave: warning: cache: " + text);
  } else {
    log(text);
  }
}

void Reporter::log(const std::string& text) const {
  if (log_lookups_) sink_("tileweave: cache: " + text);
}

}  // namespace tileweave::cache
