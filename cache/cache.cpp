// The order of a lookup: memory, layers, disk, and then one compile for everybody who asked.
// See cache.h; explain.cpp words the error of a sealed process.
#include "tileweave/cache/cache.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <source_location>
#include <thread>
#include <utility>

#include "tileweave/cache/explain.h"
#include "tileweave/cache/layer.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::cache {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds first_poll{1}, longest_poll{25};

DiskOptions disk_options(const CacheSettings& settings) {
  DiskOptions options;
  options.root = settings.root;
  options.must_exist = settings.must_exist;
  options.writable = settings.mode == CacheMode::rw;
  options.max_bytes = settings.max_bytes;
  options.trust.group = settings.trusted_group;
  options.trust.or_root = !options.writable;
  return options;
}

}  // namespace

std::string_view to_string(Source source) {
  switch (source) {
    case Source::memory:
      return "memory";
    case Source::layer:
      return "layer";
    case Source::disk:
      return "disk";
    case Source::compiled:
      return "compiled";
    case Source::waited:
      return "waited";
  }
  return "unknown";
}

Cache::Cache(CacheSettings settings)
    : settings_(std::move(settings)),
      reporter_(settings_.sink, settings_.log),
      memory_(settings_.memory_entries, settings_.memory_bytes) {
  for (const std::string& complaint : settings_.complaints) reporter_.warn_once(Warning::layer, complaint);
  if (settings_.mode == CacheMode::off) return;
  for (const LayerSetting& layer : settings_.layers) {
    if (auto store = open_layer(layer, reporter_)) layers_.push_back(std::move(store));
  }
  if (settings_.root.empty()) {
    reporter_.log("no home directory: kernels are kept in memory only");
  } else {
    disk_ = DiskStore::open(disk_options(settings_), reporter_);
  }
}

Cache::~Cache() = default;

Entry Cache::get_or_compile(const Key& key, const Compile& compile) {
  return get_or_compile(std::span(&key, 1), compile).entry;
}

Result Cache::get_or_compile(std::span<const Key> candidates, const Compile& compile) {
  if (candidates.empty()) throw_internal_error(std::source_location::current(), "a cache lookup without a key");
  const Key& key = candidates.front();
  ++counts_.lookups;
  std::shared_ptr<Flight> flight;
  try {
    const MemoryMap::Seat seat = memory_.join(key);
    flight = seat.is_owner ? seat.flight : nullptr;
    if (!seat.is_owner) {
      const Source source = seat.entry ? Source::memory : Source::waited;
      const auto held = seat.entry ? seat.entry : seat.flight->wait();
      count(source);
      log_result(key, source);
      return {held->entry, source, held->key_index};
    }
    Found found = produce(candidates, compile);
    auto held = std::make_shared<const HeldEntry>(HeldEntry{std::move(found.entry), found.key_index});
    count(found.source);
    log_result(candidates[found.key_index], found.source);
    memory_.land(key, std::exchange(flight, nullptr), held);
    return {held->entry, found.source, found.key_index};
  } catch (...) {
    ++counts_.failed;
    if (flight) memory_.crash(key, flight, std::current_exception());
    throw;
  }
}

std::optional<Result> Cache::find(std::span<const Key> candidates) {
  if (candidates.empty()) return std::nullopt;
  std::optional<Result> result;
  if (const auto held = memory_.find(candidates.front())) {
    result = Result{held->entry, Source::memory, held->key_index};
  } else {
    auto found = find_in_layers(candidates);
    if (!found) found = find_on_disk(candidates, Source::disk);
    if (!found) return std::nullopt;
    result = Result{std::move(found->entry), found->source, found->key_index};
  }
  ++counts_.lookups;
  count(result->source);
  log_result(candidates[result->key_index], result->source);
  return result;
}

std::optional<Cache::Found> Cache::find_in_layers(std::span<const Key> candidates) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!layers_.empty() && memory_.is_rejected(candidates[i])) continue;
    for (const auto& layer : layers_) {
      if (auto entry = layer->get(candidates[i])) return Found{std::move(*entry), Source::layer, i};
    }
  }
  return std::nullopt;
}

std::optional<Cache::Found> Cache::find_on_disk(std::span<const Key> candidates, Source source) {
  if (!disk_) return std::nullopt;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    // A rejected entry was removed from a root that we may write; from another it could not be.
    if (!disk_->is_writable() && memory_.is_rejected(candidates[i])) continue;
    if (auto entry = disk_->get(candidates[i])) return Found{std::move(*entry), source, i};
  }
  return std::nullopt;
}

Cache::Found Cache::produce(std::span<const Key> candidates, const Compile& compile) {
  if (auto found = find_in_layers(candidates)) return std::move(*found);
  if (auto found = find_on_disk(candidates, Source::disk)) return std::move(*found);
  if (settings_.jit == JitMode::forbid) throw_sealed_miss(candidates);
  if (disk_ && disk_->is_writable()) return compile_once(candidates, compile);
  return {compile_checked(compile), Source::compiled, 0};
}

Cache::Found Cache::compile_once(std::span<const Key> candidates, const Compile& compile) {
  using Outcome = LockFile::Outcome;
  const Key& key = candidates.front();
  const auto lock = disk_->lock_file();
  const auto deadline = std::chrono::steady_clock::now() + settings_.lock_timeout;
  bool waited = false;
  for (milliseconds delay = first_poll;; delay = std::min(delay * 2, longest_poll)) {
    const Outcome outcome = lock->try_lock(lock_byte_of(key.address()));
    // Also right after the lock was had: the one who held it before has published.
    if (waited || outcome == Outcome::held) {
      if (auto found = find_on_disk(candidates, waited ? Source::waited : Source::disk)) return std::move(*found);
    }
    if (outcome == Outcome::held) break;
    if (outcome == Outcome::failed) {
      reporter_.log("no lock in " + disk_->description() + ": compiling without one");
      break;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      ++counts_.lock_timeouts;
      reporter_.log("another process has been compiling " + key.address().hex() + " for too long: compiling, too");
      break;
    }
    std::this_thread::sleep_for(delay);
    waited = true;
  }
  Entry entry = compile_checked(compile);
  disk_->put(key, entry);
  return {std::move(entry), Source::compiled, 0};
}

Entry Cache::compile_checked(const Compile& compile) {
  Entry entry = compile();
  if (entry.payload.empty()) {
    // A tool that failed without saying so; storing it would fail every later run, too.
    throw_internal_error(std::source_location::current(),
                         "compiling kernel '" + entry.kernel_name + "' produced nothing");
  }
  return entry;
}

void Cache::throw_sealed_miss(std::span<const Key> candidates) {
  const auto all = stores();
  const MissExplanation miss = explain_miss(candidates, all);
  throw_cache_error(
      "kernel '" + candidates.front().kernel_name() + "' is not in the cache, and TILEWEAVE_JIT=forbid: " + miss.text(),
      "warm the cache with this variant: record a run with TILEWEAVE_RECORD, then use 'tileweave warmup'");
}

void Cache::reject(const Key& key) {
  ++counts_.rejected;
  memory_.reject(key);
  if (disk_) disk_->remove(key);
  reporter_.log("rejected " + key.address().hex());
}

void Cache::announce(std::span<const Profile> usable) {
  if (usable.empty()) return;
  for (const auto& layer : layers_) {
    const auto stored = layer->profiles();
    const bool useful = std::ranges::any_of(stored, [&](const StoredProfile& s) {
      return std::ranges::any_of(usable, [&](const Profile& p) { return p.id() == s.id; });
    });
    if (stored.empty() || useful) continue;
    const StoredProfile& first = stored.front();
    reporter_.warn_once(Warning::stale_layer,
                        layer->description() + " holds nothing for this process: " + std::to_string(first.entries) +
                            " entries for codegen " + profile_field(first.text, "codegen") + ", target " +
                            profile_field(first.text, "target") + "; this process is codegen " +
                            usable.front().codegen + ", target " + usable.front().target);
  }
}

void Cache::count(Source source) {
  std::atomic<std::uint64_t>* const counters[] = {&counts_.memory, &counts_.layer, &counts_.disk, &counts_.compiled,
                                                  &counts_.waited};
  ++*counters[static_cast<std::size_t>(source)];
}

void Cache::log_result(const Key& key, Source source) const {
  if (!reporter_.logs()) return;
  reporter_.log("kernel '" + key.kernel_name() + "' " + key.address().hex() + ": " + std::string(to_string(source)));
}

std::vector<Store*> Cache::stores() const {
  std::vector<Store*> all;
  for (const auto& layer : layers_) all.push_back(layer.get());
  if (disk_) all.push_back(disk_.get());
  return all;
}

std::vector<Profile> Cache::read_only_profiles() const {
  std::vector<Profile> out;
  const auto add = [&out](Store& store) { std::ranges::move(store.tool_chains(), std::back_inserter(out)); };
  for (const auto& layer : layers_) add(*layer);
  if (disk_ && (settings_.mode == CacheMode::ro || settings_.jit == JitMode::forbid)) add(*disk_);
  return out;
}

Counters Cache::counters() const {
  Counters c;
  c.lookups = counts_.lookups;
  c.memory = counts_.memory;
  c.layer = counts_.layer;
  c.disk = counts_.disk;
  c.compiled = counts_.compiled;
  c.waited = counts_.waited;
  c.failed = counts_.failed;
  c.rejected = counts_.rejected;
  c.lock_timeouts = counts_.lock_timeouts;
  if (!disk_) return c;
  const DiskStore::Counts& d = disk_->counts();
  c.damaged = d.damaged;
  c.untrusted = d.untrusted;
  c.unreadable = d.unreadable;
  c.collisions = d.other_key;
  c.stored = d.stored;
  c.not_stored = d.not_stored;
  c.evicted = d.evicted;
  c.bytes_read = d.bytes_read;
  c.bytes_written = d.bytes_written;
  return c;
}

}  // namespace tileweave::cache
