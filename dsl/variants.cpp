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
#include "tileweave/jit/jit.h"

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

std::uint64_t generic_facts() {
  ir::ViewFacts f;
  f.may_alias = true;
  return pack_facts(f);
}

const Entry* Variants::find(Key key) const {
  const Entry* last = last_.load(std::memory_order_acquire);
  if (last != nullptr && same(key, last->key)) return last;
  const std::uint64_t hash = hash_of(key);
  for (const Entry* e = newest_.load(std::memory_order_acquire); e != nullptr; e = e->next) {
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
  groups_.push_back(std::make_unique<Group>(
      Group{{prefix.begin(), prefix.end()}, std::move(made.function), std::move(made.requirements), {}, 0, nullptr}));
  return *groups_.back();
}

std::shared_ptr<const runtime::LoadedKernel> Variants::compile(const Request& q, const Group& group,
                                                               std::span<const std::uint64_t> facts) const {
  ir::Function f = group.recorded.clone();
  f.options = unpack_options(q.key[1]);
  std::size_t next = 0;
  for (ir::Param& p : f.params) {
    if (p.value->type.is_view()) p.facts = unpack_facts(facts[next++]);
  }
  return jit::get(f, q.device);
}

const Entry& Variants::publish(Key key, const Group& group, std::shared_ptr<const runtime::LoadedKernel> kernel) {
  entries_.push_back(std::make_unique<Entry>(Entry{hash_of(key),
                                                   {key.begin(), key.end()},
                                                   std::move(kernel),
                                                   &group.requirements,
                                                   newest_.load(std::memory_order_relaxed)}));
  newest_.store(entries_.back().get(), std::memory_order_release);
  last_.store(entries_.back().get(), std::memory_order_release);
  return *entries_.back();
}

const Entry& Variants::make(const Request& q) {
  const std::lock_guard lock(mutex_);
  if (const Entry* found = find(q.key)) {  // another thread made it
    found->requirements->check(q.slots, q.kernel.name(), q.view_numbers.data(), q.place);
    return *found;
  }
  check_options(q);
  Group& group = [&]() -> Group& {
    const ErrorContext context(context_of(q));
    return group_of(q);
  }();
  group.requirements.check(q.slots, q.kernel.name(), q.view_numbers.data(), q.place);
  const ErrorContext context(context_of(q));
  const Key facts = q.key.subspan(static_cast<std::size_t>(q.facts_at));
  if (group.variants >= q.kernel.variant_budget()) {
    if (group.generic == nullptr) {
      const std::vector<std::uint64_t> generic(facts.size(), generic_facts());
      group.generic = compile(q, group, generic);
      ++compiled_;
      log(true, "kernel '" + q.kernel.name() + "' has used its budget of " + std::to_string(q.kernel.variant_budget()) +
                    " layout variants; other layouts run the generic one, which is slower");
    }
    return publish(q.key, group, group.generic);
  }
  std::shared_ptr<const runtime::LoadedKernel> kernel = compile(q, group, facts);
  ++compiled_;
  ++group.variants;
  for (std::size_t i = 0; i < group.last_facts.size(); ++i) {
    if (facts[i] == group.last_facts[i]) continue;
    log(false, "kernel '" + q.kernel.name() + "': variant " + std::to_string(group.variants) + ": argument " +
                   std::to_string(q.view_numbers[i]) + " differs in " + changed_facts(facts[i], group.last_facts[i]));
  }
  group.last_facts.assign(facts.begin(), facts.end());
  return publish(q.key, group, std::move(kernel));
}

}  // namespace tileweave::launch
