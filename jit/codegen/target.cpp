// The names of targets: parsing them, and naming the host in full.
// First step of code generation; what host_target gives stands in cache keys, so it is stable.
#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/TargetParser/Host.h>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/codegen/llvm_setup.h"

namespace tileweave::codegen {
namespace {

constexpr const char* x86_triple = "x86_64-unknown-linux-gnu";
constexpr const char* aarch64_triple = "aarch64-unknown-linux-gnu";

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw_compile_error(
      {}, "there is no target '" + std::string(text) + "'" + (why.empty() ? "" : ": " + why),
      "targets are native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, x86-64:<cpu>[+feature|-feature...], "
      "aarch64:<cpu>, sm_80, sm_86, sm_89, sm_90, sm_90a, and simt:<one of these sm_>");
}

std::unique_ptr<llvm::MCSubtargetInfo> subtarget(const std::string& triple, const std::string& cpu) {
  initialize_llvm();
  std::string problem;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, problem);
  if (target == nullptr) throw_compile_error({}, "LLVM has no back end for '" + triple + "': " + problem);
  return std::unique_ptr<llvm::MCSubtargetInfo>(target->createMCSubtargetInfo(triple, cpu, ""));
}

// How long the feature at the start of `list` is: a name can hold a '-' ("amx-bf16"), so the longest that LLVM knows is
// meant; 0 where there is none.
std::size_t feature_length(std::string_view list, const llvm::MCSubtargetInfo& info) {
  const auto known = info.getAllProcessorFeatures();
  for (std::size_t end = list.size(); end > 0; --end) {
    if (end != list.size() && list[end] != '+' && list[end] != '-') continue;
    const std::string name(list.substr(0, end));
    if (std::any_of(known.begin(), known.end(), [&](const auto& k) { return name == k.Key; })) return end;
  }
  return 0;
}

// A feature list "+a-b" as LLVM wants it: "+a,-b". Each must be one that LLVM knows: it would only print a warning.
std::string parse_features(std::string_view whole, std::string_view list, const llvm::MCSubtargetInfo& info) {
  std::string out;
  while (!list.empty()) {
    const std::size_t length = feature_length(list.substr(1), info);
    if (length == 0) {
      const std::size_t next = std::min(list.find_first_of("+-", 1), list.size());
      refuse(whole, "no feature '" + std::string(list.substr(1, next - 1)) + "'");
    }
    out += (out.empty() ? "" : ",") + std::string(list.substr(0, length + 1));
    list.remove_prefix(length + 1);
  }
  return out;
}

Target parse_cpu(std::string_view whole, std::string_view rest, const char* triple) {
  Target t;
  t.kind = Target::Kind::cpu;
  t.triple = triple;
  const auto info = subtarget(triple, "");
  // A cpu's name can hold a '-' ("skylake-avx512"): the longest name that LLVM knows is meant.
  for (std::size_t end = rest.size(); end > 0; --end) {
    if (end != rest.size() && rest[end] != '+' && rest[end] != '-') continue;
    const std::string cpu(rest.substr(0, end));
    if (!info->isCPUStringValid(cpu)) continue;
    t.cpu = cpu;
    t.features = parse_features(whole, rest.substr(end), *info);
    return t;
  }
  refuse(whole, "LLVM does not know the cpu '" + std::string(rest) + "'");
}

bool parse_gpu(std::string_view text, Target& t) {
  static constexpr std::array<std::string_view, 5> known = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"};
  if (std::find(known.begin(), known.end(), text) == known.end()) return false;
  t.triple = "nvptx64-nvidia-cuda";
  t.cpu = text;
  std::from_chars(text.data() + 3, text.data() + text.size(), t.sm);
  t.arch_specific = text.back() == 'a';
  return true;
}

constexpr std::string_view simt_prefix = "simt:", x86_prefix = "x86-64", aarch64_prefix = "aarch64:";

}  // namespace

Target parse_target(std::string_view text) {
  if (text == "native") return parse_target(host_target());
  Target t;
  t.kind = Target::Kind::nvptx;
  if (parse_gpu(text, t)) return t;
  t.kind = Target::Kind::simt;
  if (text.starts_with(simt_prefix) && parse_gpu(text.substr(simt_prefix.size()), t)) return t;
  if (text.starts_with("x86-64:")) return parse_cpu(text, text.substr(x86_prefix.size() + 1), x86_triple);
  if (text.starts_with(x86_prefix)) return parse_cpu(text, text, x86_triple);
  if (text.starts_with(aarch64_prefix)) return parse_cpu(text, text.substr(aarch64_prefix.size()), aarch64_triple);
  refuse(text, "");
}

// The cpu's name and where this machine differs from what the name implies (a hypervisor can hide features).
std::string host_target() {
  static const std::string name = [] {
    const std::string cpu = llvm::sys::getHostCPUName().str();
    const llvm::Triple triple(llvm::sys::getProcessTriple());
    const bool arm = triple.isAArch64();
    const auto info = subtarget(arm ? aarch64_triple : x86_triple, cpu);
    std::vector<std::string> differences;
    for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
      const std::string key = feature.getKey().str();
      const auto all = info->getAllProcessorFeatures();
      if (std::none_of(all.begin(), all.end(), [&](const auto& k) { return key == k.Key; })) continue;
      if (info->checkFeatures("+" + key) != feature.getValue()) {
        differences.push_back((feature.getValue() ? "+" : "-") + key);
      }
    }
    std::sort(differences.begin(), differences.end());
    std::string text = std::string(arm ? "aarch64:" : "x86-64:") + cpu;
    for (const std::string& d : differences) text += d;
    return text;
  }();
  return name;
}

}  // namespace tileweave::codegen
