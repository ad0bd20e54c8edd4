// Profiles in order of preference, and the fields of a key. See keys.h.
// Reads the settings of one kernel from the function alone: what code generation can see is in the key by construction.
#include "tileweave/jit/keys.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "tileweave/jit/base/assembler.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/jit_library.h"
#include "tileweave/jit/runtime/cpu_target.h"

namespace tileweave::jit {
namespace {

constexpr std::size_t most_accepted = 8;

struct Sm {
  int number = 0;         // 90
  bool specific = false;  // sm_90a: runs on that very architecture only
};
Sm parse_sm(std::string_view target) {
  Sm sm;
  if (!target.starts_with("sm_")) return sm;
  std::from_chars(target.data() + 3, target.data() + target.size(), sm.number);
  sm.specific = target.ends_with('a');
  return sm;
}

// CUDA programming guide, "Application Compatibility": a cubin runs on its major version from its minor version on, PTX
// on everything newer, and architecture-specific code on its own architecture.
bool cuda_takes(const std::string& target, bool is_cubin, const Device& device) {
  const Sm code = parse_sm(target), here = parse_sm(device.target());
  if (code.number == 0) return false;
  if (code.specific) return target == device.target();
  if (is_cubin && code.number / 10 != here.number / 10) return false;
  return code.number <= here.number;
}

bool cpu_takes(const std::string& target, const Device& device) {
  const auto& levels = runtime::host_cpu_target().levels;
  return target == device.target() || std::ranges::find(levels, target) != levels.end();
}

// Larger is better; profiles of equal rank keep the order of their stores.
int rank(const cache::Profile& p, const Device& device) {
  if (device.kind() != DeviceKind::cuda) {
    const auto& levels = runtime::host_cpu_target().levels;  // the highest first
    return p.target == device.target() ? 100 : static_cast<int>(levels.end() - std::ranges::find(levels, p.target));
  }
  const Sm sm = parse_sm(p.target);
  return (p.artefact == "cubin" ? 10000 : 0) + 10 * sm.number + (sm.specific ? 1 : 0);
}

void add_options(cache::KeyWriter& key, const ir::Options& o) {
  key.integer("option warps", o.warps).integer("option stages", o.stages);
  key.boolean("option fast_math", o.fast_math).boolean("option contract", o.contract);
  key.boolean("option checked", o.checked).boolean("option overflow", o.overflow).integer("option debug", o.debug);
}

void add_param(cache::KeyWriter& key, const ir::Param& p, std::size_t number) {
  const std::string argument = "argument " + std::to_string(number) + " ";
  if (p.value->type.is_view()) {
    const ir::ViewFacts& f = p.facts;
    key.natural(argument + "unit_stride", f.unit_stride).natural(argument + "zero_stride", f.zero_stride);
    key.natural(argument + "aligned_stride", f.aligned_stride).boolean(argument + "aligned_base", f.aligned_base);
    key.boolean(argument + "offsets_fit_32", f.offsets_fit_32).boolean(argument + "may_alias", f.may_alias);
  }
  if (p.constant) key.natural(argument + "constant", *p.constant);
}

std::string text_without_settings(const ir::Function& f) {
  ir::Function bare = f.clone();
  bare.options = {};
  for (ir::Param& p : bare.params) {
    p.facts = {};
    p.constant.reset();
  }
  const bool with_places = f.options.debug > 0 || f.options.checked || f.options.overflow;
  return with_places ? ir::to_readable(bare) : ir::to_text(bare);
}

}  // namespace

std::string compile_target(const Device& device) {
  if (device.kind() != DeviceKind::cuda) return device.target();
  return device.facts().compute_major > 9 ? "sm_90" : device.target();
}

cache::Profile profile_for(const std::string& target, AssemblerChoice assembler) {
  cache::Profile p;
  p.codegen = codegen_id();
  p.llvm = llvm_version();
  p.target = target;
  if (target.starts_with("sm_")) {
    const AssemblerId id = assembler_id(assembler);
    p.artefact = id.artefact;
    p.assembler = id.text;
  } else if (target == "interpret") {
    p.artefact = "tile-ir";
    p.assembler = "none";
  } else {
    p.artefact = "elf-obj";
    p.assembler = "llvm";
  }
  return p;
}

bool runs_on(const cache::Profile& p, const Device& device) {
  if (p.codegen != codegen_id() || p.llvm != llvm_version()) return false;
  switch (device.kind()) {
    case DeviceKind::cuda:
      return (p.artefact == "cubin" || p.artefact == "ptx") && cuda_takes(p.target, p.artefact == "cubin", device);
    case DeviceKind::cpu:
      return p.artefact == "elf-obj" && cpu_takes(p.target, device);
    case DeviceKind::interpret:
    case DeviceKind::simt:
      return p.target == device.target();
  }
  return false;
}

std::vector<cache::Profile> accepted_profiles(const Device& device, const cache::Cache& cache, const Env& env) {
  std::vector<cache::Profile> stored;
  for (cache::Profile& p : cache.read_only_profiles()) {
    if (runs_on(p, device) && std::ranges::find(stored, p) == stored.end()) stored.push_back(std::move(p));
  }
  std::ranges::stable_sort(stored, std::ranges::greater{}, [&](const cache::Profile& p) { return rank(p, device); });
  std::vector<cache::Profile> out;
  // Asking ptxas for its version costs a process, so whoever must not compile does not ask.
  if (env.jit == JitMode::allow || stored.empty()) {
    const bool sealed = env.jit == JitMode::forbid;
    out.push_back(profile_for(compile_target(device), sealed ? AssemblerChoice::driver : env.assembler));
  }
  for (cache::Profile& p : stored) {
    if (out.size() < most_accepted && std::ranges::find(out, p) == out.end()) out.push_back(std::move(p));
  }
  return out;
}

std::vector<cache::Key> keys_of(const ir::Function& f, const std::vector<cache::Profile>& profiles) {
  const std::string text = text_without_settings(f);
  std::vector<cache::Key> keys;
  for (const cache::Profile& profile : profiles) {
    cache::KeyWriter key(profile);
    add_options(key, f.options);
    std::size_t number = 0;
    for (const ir::Param& p : f.params) add_param(key, p, ++number);
    key.text("ir", text);
    keys.push_back(key.finish(f.name));
  }
  return keys;
}

}  // namespace tileweave::jit
