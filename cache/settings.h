// What the user has set about the cache, as one value that a Cache is made from.
// Made from the environment by the front door, by hand in tests.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tileweave/cache/report.h"
#include "tileweave/jit/base/env.h"

namespace tileweave::cache {

struct LayerSetting {
  std::string path;
  std::string sha256;  // 64 hexadecimal digits; empty: not pinned

  friend bool operator==(const LayerSetting&, const LayerSetting&) = default;
};

struct CacheSettings {
  CacheMode mode = CacheMode::rw;
  JitMode jit = JitMode::allow;
  std::string root;                  // empty: no disk cache
  std::string must_exist;            // the part of the root that is not to be made
  std::vector<LayerSetting> layers;  // searched in order, before the root
  std::optional<gid_t> trusted_group;
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  std::chrono::milliseconds lock_timeout = std::chrono::seconds(120);
  bool log = false;
  Reporter::Sink sink;  // empty: stderr
  std::size_t memory_entries = 512;
  std::size_t memory_bytes = std::size_t{32} << 20;
  std::vector<std::string> complaints;  // about the settings themselves, for the reporter
};

CacheSettings settings_from(const Env& env);

// "/a.pack@sha256:<hex>:/b". What cannot be read is left out and complained about.
std::vector<LayerSetting> parse_layers(std::string_view text, std::vector<std::string>& complaints);

}  // namespace tileweave::cache
