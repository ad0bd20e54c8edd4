// The environment's cache knobs as CacheSettings: the root by the XDG rules, the layers, the group.
// See settings.h. Never picks a directory in /tmp: names there can be taken by others first.
#include "tileweave/cache/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "tileweave/cache/hash.h"

namespace tileweave::cache {
namespace {

std::string home_of_passwd() {
  std::vector<char> buffer(16384);
  struct passwd entry = {};
  struct passwd* found = nullptr;
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return {};
  const std::string home = entry.pw_dir != nullptr ? entry.pw_dir : "";
  return home.starts_with('/') ? home : std::string();
}

void set_root(CacheSettings& settings, const Env& env) {
  if (!env.cache_dir.empty()) {
    settings.root = env.cache_dir;
  } else if (!env.xdg_cache_home.empty()) {
    settings.root = env.xdg_cache_home + "/tileweave";
  } else {
    // A home that does not exist is not ours to make.
    settings.must_exist = !env.home.empty() ? env.home : home_of_passwd();
    if (!settings.must_exist.empty()) settings.root = settings.must_exist + "/.cache/tileweave";
  }
}

std::string_view next_piece(std::string_view& rest) {
  const std::size_t colon = std::min(rest.find(':'), rest.size());
  const std::string_view piece = rest.substr(0, colon);
  rest.remove_prefix(std::min(colon + 1, rest.size()));
  return piece;
}

bool is_sha256(std::string_view text) { return text.size() == 64 && bytes_of_hex(text).has_value(); }

}  // namespace

std::vector<LayerSetting> parse_layers(std::string_view text, std::vector<std::string>& complaints) {
  constexpr std::string_view pin = "@sha256";
  std::vector<LayerSetting> layers;
  while (!text.empty()) {
    std::string_view path = next_piece(text);
    if (path.empty()) continue;
    std::string digest;
    const bool pinned = path.ends_with(pin);
    if (pinned) {
      path.remove_suffix(pin.size());
      digest = next_piece(text);
      std::ranges::transform(digest, digest.begin(),
                             [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; });
    }
    if (!path.starts_with('/')) {
      complaints.push_back("TILEWEAVE_CACHE_LAYERS: '" + std::string(path) +
                           "' is not an absolute path; layer ignored");
    } else if (pinned && !is_sha256(digest)) {
      complaints.push_back("TILEWEAVE_CACHE_LAYERS: the digest of " + std::string(path) +
                           " is not 64 hexadecimal digits; layer ignored");
    } else {
      layers.push_back({std::string(path), digest});
    }
  }
  return layers;
}

CacheSettings settings_from(const Env& env) {
  CacheSettings settings;
  settings.mode = env.cache;
  settings.jit = env.jit;
  settings.max_bytes = env.cache_max_size;
  settings.lock_timeout = std::chrono::seconds(std::min<std::uint64_t>(env.lock_timeout_s, 1U << 20));
  settings.log = env.cache_log;
  settings.layers = parse_layers(env.cache_layers, settings.complaints);
  if (env.cache_trust.starts_with("group:")) {
    const std::string_view digits = std::string_view(env.cache_trust).substr(6);
    gid_t group = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), group);
    if (code == std::errc() && end == digits.data() + digits.size()) settings.trusted_group = group;
  }
  set_root(settings, env);
  return settings;
}

}  // namespace tileweave::cache
