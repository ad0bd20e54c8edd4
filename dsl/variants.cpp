// Finds a variant by its key; on a miss records the kernel (once for each set of constants), sets the facts of the
// launch's views, and asks the JIT. Past the budget the generic variant serves, with one warning.
#include "tileweave/dsl/variants.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/generic.h"

namespace tileweave::launch {
namespace {

std::atomic<LogSink> log_sink{nullptr};

bool same(Key a, const std::vector<std::uint64_t>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(std::uint64_t)) == 0;
}

// FNV-1a over words: only to skip entries; keys are always compared whole.
std::uint64_t hash_of(Key key) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const std::uint64_t w : key) h = (h ^ w) * 0x100000001b3u;
  return h;
}

ir::Options unpack_options(std::uint64_t word) {
  ir::Options o;
  o.warps = static_cast<int>(word & 0xffff);
  o.stages = static_cast<int>(word >> 16 & 0xffff);
  o.fast_math = (word >> 32 & 1) != 0;
  o.contract = (word >> 33 & 1) != 0;
  o.checked = (word >> 34 & 1) != 0 || env().check;
  o.overflow = (word >> 37 & 1) != 0;
  o.debug = std::max(static_cast<int>(word >> 35 & 3), static_cast<int>(env().debug));
  return o;
}

void check_options(const Request& q) {
  const ir::Options o = unpack_options(q.key[1]);
  const bool is_power = (o.warps & (o.warps - 1)) == 0;
  if (o.warps > 32 || !is_power) {
    throw_launch_error(q.place, "kernel '" + q.kernel.name() + "': warps is not 0 or a power of two up to 32",
                       "0 lets the compiler choose");
  }
  if (o.stages > 16) {
    throw_launch_error(q.place, "kernel '" + q.kernel.name() + "': stages is not from 0 to 16",
                       "0 lets the compiler choose");
  }
}

std::string context_of(const Request& q) {
  const std::string constants = q.text == nullptr ? "" : q.text(q.text_object);
  return "kernel '" + q.kernel.name() + "'" + (constants.empty() ? "" : " with " + constants);
}

struct Recorded {
  ir::Function function;
  Requirements requirements;
};

Recorded record_once(const Request& q) {
  record::Recorder r(q.kernel.name(), q.kernel.place());
  const record::Scope scope(r);
  r.function.options = unpack_options(q.key[1]);
  // Names and one place for each are what a debugger on the host can use.
  r.keeps_results = q.device.kind() == DeviceKind::cpu && r.function.options.debug >= 2;
  q.body();
  r.finish();
  if (r.keeps_results) {
    record::name_values(r.function, r.results);
  } else if (r.function.options.checked) {
    record::name_parameters(r.function);
  }
  ir::verify(r.function, ir::Stage::recorded);
  Requirements requirements(r.function, r.requirements);
  return {std::move(r.function), std::move(requirements)};
}

Recorded record(const Request& q) {
  Recorded f = record_once(q);
  if (env().check && ir::to_text(f.function) != ir::to_text(record_once(q).function)) {
    throw_record_error(q.kernel.place(), "kernel '" + q.kernel.name() + "' records differently the second time",
                       "its lambda reads something that changes: pass it as a tw::Const or tw::Scalar parameter");
  }
  return f;
}

// Which facts of a view differ from those it had in the variant before.
std::string changed_facts(std::uint64_t now, std::uint64_t before) {
  const std::uint64_t d = now ^ before;
  std::string s;
  const auto add = [&](bool is, const char* name) {
    if (is) s += (s.empty() ? "" : ", ") + std::string(name);
  };
  add((d & 0xff) != 0, "which stride is 1");
  add((d & 0xff00) != 0, "which strides are 0");
  add((d & 0xff0000) != 0, "16-byte alignment of strides");
  add((d >> 24 & 1) != 0, "16-byte alignment of the base");
  add((d >> 25 & 1) != 0, "32-bit offsets");
  add((d >> 26 & 1) != 0, "overlap with another view");
  return s;
}

std::unique_ptr<Entry> entry_of(Key key, std::shared_ptr<const Requirements> requirements,
                                std::shared_ptr<const runtime::LoadedKernel> kernel) {
  auto entry = std::make_unique<Entry>();
  entry->hash = hash_of(key);
  entry->key.assign(key.begin(), key.end());
  entry->requirements = std::move(requirements);
  entry->kernel = std::move(kernel);
  return entry;
}

}  // namespace

void set_log_sink(LogSink sink) { log_sink = sink; }

void log(bool is_warning, const std::string& line) {
  if (const LogSink sink = log_sink) return sink(is_warning, line);
  if (is_warning || env().cache_log) {
    std::fprintf(stderr, "tileweave: %s%s\n", is_warning ? "warning: " : "", line.c_str());
  }
}

std::uint64_t pack_facts(const ir::ViewFacts& f) {
  return f.unit_stride | std::uint64_t{f.zero_stride} << 8 | std::uint64_t{f.aligned_stride} << 16 |
         std::uint64_t{f.aligned_base} << 24 | std::uint64_t{f.offsets_fit_32} << 25 | std::uint64_t{f.may_alias} << 26;
}

ir::ViewFacts unpack_facts(std::uint64_t w) {
  ir::ViewFacts f;
  f.unit_stride = static_cast<std::uint8_t>(w);
  f.zero_stride = static_cast<std::uint8_t>(w >> 8);
  f.aligned_stride = static_cast<std::uint8_t>(w >> 16);
  f.aligned_base = (w >> 24 & 1) != 0;
  f.offsets_fit_32 = (w >> 25 & 1) != 0;
  f.may_alias = (w >> 26 & 1) != 0;
  return f;
}

std::uint64_t generic_facts() { return pack_facts(ir::generic_view_facts()); }

// The loads are sequentially consistent for the sake of free_retired; on x86-64 that costs nothing.
const Entry* Variants::find(Key key) const {
  const Entry* last = last_.load();
  if (last != nullptr && same(key, last->key)) return last;
  const std::uint64_t hash = hash_of(key);
  for (const Entry* e = newest_.load(); e != nullptr; e = e->next.load()) {
    if (e->hash == hash && same(key, e->key)) {
      last_.store(e, std::memory_order_release);
      return e;
    }
  }
  return nullptr;
}

int Variants::count() const {
  const std::lock_guard lock(mutex_);
  return compiled_;
}

Variants::Group& Variants::group_of(const Request& q) {
  const Key prefix = q.key.first(static_cast<std::size_t>(q.facts_at));
  for (const auto& g : groups_) {
    if (same(prefix, g->prefix)) return *g;
  }
  Recorded made = record(q);
  auto group = std::make_unique<Group>(Group{{prefix.begin(), prefix.end()},
                                             std::move(made.function),
                                             std::make_shared<const Requirements>(std::move(made.requirements)),
                                             {},
                                             0,
                                             nullptr});
  if (groups_.size() >= most_groups) groups_.pop_front();
  groups_.push_back(std::move(group));
  return *groups_.back();
}

ir::Function Variants::specialized(const Request& q, const Group& group, std::span<const std::uint64_t> facts) {
  ir::Function f = group.recorded.clone();
  f.options = unpack_options(q.key[1]);
  std::size_t next = 0;
  for (ir::Param& p : f.params) {
    if (p.value->type.is_view()) p.facts = unpack_facts(facts[next++]);
  }
  return f;
}

const Entry& Variants::publish(Key key, std::shared_ptr<const Requirements> requirements,
                               std::shared_ptr<const runtime::LoadedKernel> kernel) {
  entries_.push_back(entry_of(key, std::move(requirements), std::move(kernel)));
  Entry* const entry = entries_.back().get();
  entry->next.store(newest_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  newest_.store(entry, std::memory_order_release);
  last_.store(entry, std::memory_order_release);
  if (entries_.size() > most_entries) drop_oldest();
  free_retired();
  return *entry;
}

void Variants::drop_oldest() {
  for (std::size_t n = most_entries / 4; n > 0; --n) {
    retired_.push_back(std::move(entries_.front()));
    entries_.pop_front();
  }
  entries_.front()->next.store(nullptr);
}

// An entry that was taken out of the list is freed when nobody can come to it any more: no search that began before is
// under way, `last_` does not hold it, no search is under way that read `last_` before, and no thread launches it.
// Where that is not so now, the next variant tries again.
void Variants::free_retired() {
  if (retired_.empty() || LaunchMark::any_searches(*this)) return;
  const Entry* const last = last_.load();
  if (std::ranges::any_of(retired_, [last](const auto& e) { return e.get() == last; })) {
    last_.store(newest_.load());
  }
  if (LaunchMark::any_searches(*this)) return;
  std::erase_if(retired_, [](const auto& e) { return !LaunchMark::any_launches(*e); });
}

// For a variant that is being compiled: itself once it is there (throwing what compiling threw), else its stand-in.
const Entry* Variants::settle(Key key) {
  const auto at = std::ranges::find_if(pending_, [key](const Pending& p) { return same(key, p.stand_in->key); });
  if (at == pending_.end()) return nullptr;
  if (!at->kernel.is_ready()) return at->stand_in.get();
  const jit::PendingKernel ready = at->kernel;
  const std::shared_ptr<const Requirements> requirements = at->stand_in->requirements;
  retired_.push_back(std::move(at->stand_in));
  pending_.erase(at);
  return &publish(key, requirements, ready.get());
}

void Variants::note_variant(const Request& q, Group& group, Key facts) {
  ++compiled_;
  ++group.variants;
  for (std::size_t i = 0; i < group.last_facts.size(); ++i) {
    if (facts[i] == group.last_facts[i]) continue;
    log(false, "kernel '" + q.kernel.name() + "': variant " + std::to_string(group.variants) + ": argument " +
                   std::to_string(q.view_numbers[i]) + " differs in " + changed_facts(facts[i], group.last_facts[i]));
  }
  group.last_facts.assign(facts.begin(), facts.end());
}

const Entry& Variants::obtain(const Request& q) {
  const auto check = [&](const Requirements& r) { r.check(q.slots, q.kernel.name(), q.view_numbers.data(), q.place); };
  if (const Entry* found = find(q.key)) {  // another thread made it
    check(*found->requirements);
    return *found;
  }
  check_options(q);
  Group& group = [&]() -> Group& {
    const ErrorContext context(context_of(q));
    return group_of(q);
  }();
  check(*group.requirements);
  const ErrorContext context(context_of(q));
  if (const Entry* found = settle(q.key)) return *found;
  return obtain_checked(q, group);
}

const Entry& Variants::obtain_checked(const Request& q, Group& group) {
  const Key facts = q.key.subspan(static_cast<std::size_t>(q.facts_at));
  if (group.variants >= q.kernel.variant_budget()) {
    if (group.generic == nullptr) {
      const std::vector<std::uint64_t> generic(facts.size(), generic_facts());
      group.generic = jit::get(specialized(q, group, generic), q.device);
      ++compiled_;
      log(true, "kernel '" + q.kernel.name() + "' has used its budget of " + std::to_string(q.kernel.variant_budget()) +
                    " layout variants; other layouts run the generic one, which is slower");
    }
    return publish(q.key, group.requirements, group.generic);
  }
  const ir::Function f = specialized(q, group, facts);
  const Meanwhile how = jit::meanwhile();
  const jit::Kernel kernel = how == Meanwhile::wait ? jit::get(f, q.device) : jit::find(f, q.device);
  if (kernel == nullptr) {
    const jit::PendingKernel coming = jit::get_in_background(f, q.device);
    pending_.push_back({coming, entry_of(q.key, group.requirements, jit::stand_in(f, q.device, coming, how))});
    note_variant(q, group, facts);
    return *pending_.back().stand_in;
  }
  note_variant(q, group, facts);
  return publish(q.key, group.requirements, kernel);
}

ir::Function Variants::record_variant(const Request& q) {
  const std::lock_guard lock(mutex_);
  check_options(q);
  const ErrorContext context(context_of(q));
  const Group& group = group_of(q);
  group.requirements->check(q.slots, q.kernel.name(), q.view_numbers.data(), q.place);
  return specialized(q, group, q.key.subspan(static_cast<std::size_t>(q.facts_at)));
}

const Entry& Variants::make(const Request& q, LaunchScope& scope) {
  const std::lock_guard lock(mutex_);
  const Entry& entry = obtain(q);
  scope.found(&entry);  // before another thread can come in and drop it
  return entry;
}

}  // namespace tileweave::launch
