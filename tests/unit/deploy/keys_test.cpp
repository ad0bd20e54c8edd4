// Keys: everything that code generation can see changes them, nothing else does, and a device accepts what it can run.
#include "tileweave/jit/keys.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "tileweave/jit/base/assembler.h"
#include "tileweave/jit/ir/generic.h"
#include "tileweave/jit/jit_library.h"
#include "tileweave/jit/recording.h"
#include "tileweave/jit/runtime/cpu_target.h"
#include "tileweave/jit/warm.h"

namespace tileweave::jit {
namespace {

constexpr const char* text = R"(func "scale"(%0: view<const f32, 2>, %1: view<f32, 2>, %2: f32) {
  %3 = program_id {axis = 0} : i64
}
)";

ir::Function function() {
  ir::Function f = ir::parse(text);
  f.params[2].constant = 5;
  return f;
}

cache::Key key_of(const ir::Function& f) { return keys_of(f, {profile_for("sm_80", AssemblerChoice::driver)}).front(); }

struct Flip {
  const char* field;
  std::function<void(ir::Function&)> flip;
};
// One row for each member of Options and ViewFacts, and the constant.
const std::vector<Flip>& flips() {
  static const std::vector<Flip> all = {
      {"option warps", [](auto& f) { f.options.warps = 8; }},
      {"option stages", [](auto& f) { f.options.stages = 3; }},
      {"option fast_math", [](auto& f) { f.options.fast_math = true; }},
      {"option contract", [](auto& f) { f.options.contract = false; }},
      {"option checked", [](auto& f) { f.options.checked = true; }},
      {"option debug", [](auto& f) { f.options.debug = 1; }},
      {"argument 1 unit_stride", [](auto& f) { f.params[0].facts.unit_stride = 2; }},
      {"argument 2 zero_stride", [](auto& f) { f.params[1].facts.zero_stride = 1; }},
      {"argument 1 aligned_stride", [](auto& f) { f.params[0].facts.aligned_stride = 1; }},
      {"argument 2 aligned_base", [](auto& f) { f.params[1].facts.aligned_base = true; }},
      {"argument 1 offsets_fit_32", [](auto& f) { f.params[0].facts.offsets_fit_32 = true; }},
      {"argument 2 may_alias", [](auto& f) { f.params[1].facts.may_alias = true; }},
      {"argument 3 constant", [](auto& f) { f.params[2].constant = 6; }},
  };
  return all;
}
// A member that is added must get a row above and a field in keys.cpp.
static_assert(sizeof(ir::Options) == 16 && sizeof(ir::ViewFacts) == 6);

TEST_CASE("keys: flipping any option, fact or constant changes the key, and the field is named first") {
  const cache::Key base = key_of(function());
  for (const Flip& flip : flips()) {
    CAPTURE(flip.field);
    ir::Function f = function();
    flip.flip(f);
    const auto difference = cache::first_difference(key_of(f), base);
    REQUIRE(difference);
    CHECK(difference->field == flip.field);
    CHECK(key_of(f).address() != base.address());
  }
}

TEST_CASE("keys: 5,000 random settings have equal keys exactly where they are equal") {
  std::mt19937 random(21);
  std::map<std::string, std::string> text_of_key;
  std::set<std::string> keys;
  for (int i = 0; i < 5000; ++i) {
    ir::Function f = function();
    for (const Flip& flip : flips()) {
      // Debug and checked builds have places in their text, too; they are tested alone.
      const bool has_places = std::string(flip.field) == "option checked" || std::string(flip.field) == "option debug";
      if (!has_places && random() % 2 == 0) flip.flip(f);
    }
    const std::string whole = ir::to_text(f), blob(cache::hex_of(key_of(f).blob()));
    const auto [at, is_new] = text_of_key.emplace(whole, blob);
    CHECK(at->second == blob);
    CHECK(keys.insert(blob).second == is_new);
  }
  CHECK(keys.size() > 1000);
}

TEST_CASE("keys: names, comments and lines do not count, except where the code has lines") {
  ir::Function plain = function(), named = function();
  named.place = Place("user.cpp", 7, 3);
  named.params[0].value->name = "input";
  CHECK(key_of(plain) == key_of(named));
  plain.options.debug = named.options.debug = 1;
  CHECK_FALSE(key_of(plain) == key_of(named));
  CHECK(cache::first_difference(key_of(plain), key_of(named))->field == "ir");
}

TEST_CASE("keys: the text and each profile field count") {
  const ir::Function f = function(), other = ir::parse("func \"scale\"() {\n}\n");
  CHECK_FALSE(key_of(f) == key_of(other));
  const cache::Profile base = profile_for("sm_80", AssemblerChoice::driver);
  CHECK(base.codegen.size() == 32);
  CHECK(base.llvm.starts_with("19."));
  for (const auto member : {&cache::Profile::codegen, &cache::Profile::llvm, &cache::Profile::target,
                            &cache::Profile::artefact, &cache::Profile::assembler}) {
    cache::Profile changed = base;
    CHECK_FALSE((changed.*member).empty());
    changed.*member += "'";
    CHECK_FALSE(keys_of(f, {changed}).front() == key_of(f));
  }
}

TEST_CASE("keys: a cubin's profile names the assembler with its version") {
  const cache::Profile driver = profile_for("sm_80", AssemblerChoice::driver);
  CHECK(driver.artefact == "ptx");
  CHECK(driver.assembler == "driver");
  const std::string program = find_ptxas();
  if (program.empty()) return;
  const cache::Profile ptxas = profile_for("sm_80", AssemblerChoice::automatic);
  CHECK(ptxas.artefact == "cubin");
  CHECK(ptxas.assembler == "ptxas " + ptxas_version(program));
  CHECK(ptxas_version(program).find_first_not_of("0123456789.") == std::string::npos);
  CHECK(ptxas_version("/nonexistent/ptxas") == "unknown");
}

TEST_CASE("keys: targets with and without suffix, and levels, are different profiles") {
  std::set<std::string> ids;
  const std::vector<std::string> targets = {"sm_80",     "sm_86",     "sm_89",     "sm_90",      "sm_90a",
                                            "x86-64-v3", "x86-64-v4", "interpret", "simt:sm_90a"};
  for (const std::string& t : targets) ids.insert(profile_for(t, AssemblerChoice::driver).id());
  CHECK(ids.size() == targets.size());
}

TEST_CASE("keys: the CPU accepts its own code and that of lesser levels, from this code generator only") {
  const Device cpu = Device::cpu();
  CHECK(runs_on(profile_for(cpu.target(), AssemblerChoice::driver), cpu));
  for (const std::string& level : runtime::host_cpu_target().levels) {
    CHECK(runs_on(profile_for(level, AssemblerChoice::driver), cpu));
  }
  CHECK_FALSE(runs_on(profile_for("x86-64:some-other-cpu+avx", AssemblerChoice::driver), cpu));
  CHECK_FALSE(runs_on(profile_for("sm_80", AssemblerChoice::driver), cpu));
  for (const auto member : {&cache::Profile::codegen, &cache::Profile::llvm}) {
    cache::Profile p = profile_for(cpu.target(), AssemblerChoice::driver);
    p.*member = "another";
    CHECK_FALSE(runs_on(p, cpu));
  }
}

#ifdef __x86_64__
TEST_CASE("keys: a CPU that lacks one feature of a level does not accept the level") {
  auto features = runtime::host_cpu_features();
  const runtime::CpuTarget whole = runtime::cpu_target_of(features, "AuthenticAMD", 0x19);
  REQUIRE(whole.levels.back() == "x86-64");
  if (std::ranges::find(whole.levels, "x86-64-v3") == whole.levels.end()) return;
  std::erase(features, "fma");
  const runtime::CpuTarget less = runtime::cpu_target_of(features, "AuthenticAMD", 0x19);
  CHECK(std::ranges::find(less.levels, "x86-64-v3") == less.levels.end());
  CHECK(std::ranges::find(less.levels, "x86-64-v2") != less.levels.end());
  CHECK((less.text + "+").find("+fma+") == std::string::npos);  // "+avx512ifma" may be there
  CHECK(less.text != whole.text);
  CHECK(runtime::cpu_target_of({}, "", 0).levels == std::vector<std::string>{"x86-64"});
}
#endif

TEST_CASE("records: a variant comes back from its record with the same key, and hostile text is refused") {
  ir::Function f = function();
  for (const Flip& flip : flips()) flip.flip(f);
  f.options.debug = 0;
  f.options.checked = false;
  CHECK(key_of(function_of(record_of(f))) == key_of(f));
  f.options.debug = 1;
  f.place = Place("user.cpp", 7, 3);
  CHECK(key_of(function_of(record_of(f))) == key_of(f));
  CHECK_THROWS(function_of({"k", "not tile IR"}));
  CHECK_THROWS(function_of({"k", ""}));
}

TEST_CASE("records: every kernel gets its generic variant once, and records that are no kernels stay") {
  ir::Function one = function(), two = function();
  one.params[0].facts.aligned_base = true;
  two.params[1].facts.unit_stride = 2;
  const auto all = with_generic_variants({record_of(one), record_of(two), {"broken", "x"}});
  REQUIRE(all.size() == 4);
  CHECK(std::ranges::count(all, cache::Record{"broken", "x"}) == 1);
  CHECK(std::ranges::count(all, record_of(ir::generic_variant(one))) == 1);
  CHECK(with_generic_variants(all) == all);
}

}  // namespace
}  // namespace tileweave::jit
