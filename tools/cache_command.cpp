// `tileweave cache`: look at the cache, check it, and keep it small. The work is done by cache/inspect.h; here it is
// printed. Treats every file as hostile; never runs or compiles what it reads.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "commands.h"
#include "tileweave/cache/cache.h"
#include "tileweave/cache/inspect.h"
#include "tileweave/cache/pack.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/jit_library.h"

namespace tileweave::tools {
namespace {
using namespace cache;

struct Opened {
  explicit Opened() : cache(settings_from(env())) {}
  Cache cache;
  DiskStore& root() {
    for (Store* s : cache.stores())
      if (auto* disk = dynamic_cast<DiskStore*>(s)) return *disk;
    throw_cache_error(
        "there is no disk cache here: TILEWEAVE_CACHE=off, no home directory, or a root that is not trusted",
        "run `tileweave doctor`, or set TILEWEAVE_CACHE_DIR to a directory of your own");
  }
};

int print_stat_as_json(const std::string& root, const RootSummary& s) {
  nlohmann::json profiles = nlohmann::json::array(), odd = nlohmann::json::array();
  for (const auto& p : s.profiles) {
    profiles.push_back({{"id", p.profile.id},
                        {"entries", p.profile.entries},
                        {"bytes", p.bytes},
                        {"target", profile_field(p.profile.text, "target")},
                        {"codegen", profile_field(p.profile.text, "codegen")},
                        {"assembler", profile_field(p.profile.text, "assembler")}});
  }
  for (const Oddity& o : s.oddities) odd.push_back({{"path", o.path}, {"what", o.what}});
  const nlohmann::json all = {{"root", root},
                              {"entries", s.entries},
                              {"bytes", s.bytes},
                              {"temporaries", s.temporaries},
                              {"free_bytes", s.free_bytes},
                              {"file_system", s.file_system},
                              {"locks_work", s.locks_work},
                              {"profiles", profiles},
                              {"oddities", odd}};
  // Names in a directory need not be UTF-8.
  fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  return 0;
}

int print_stat(bool as_json) {
  Opened o;
  const RootSummary s = summarize(o.root());
  if (as_json) return print_stat_as_json(o.root().description(), s);
  fmt::print("{}: {} entries, {} bytes, {} temporaries; {} on {}, {} bytes free; locks {}\n", o.root().description(),
             s.entries, s.bytes, s.temporaries,
             s.profiles.size() == 1 ? "1 profile" : fmt::format("{} profiles", s.profiles.size()), s.file_system,
             s.free_bytes, s.locks_work ? "work" : "do not work");
  for (const auto& p : s.profiles)
    fmt::print("  {} {:>6} entries {:>12} bytes  {} by {}\n", p.profile.id, p.profile.entries, p.bytes,
               profile_field(p.profile.text, "target"), profile_field(p.profile.text, "assembler"));
  for (const Oddity& odd : s.oddities) fmt::print("  odd: {}: {}\n", odd.path, odd.what);
  return 0;
}

int print_list() {
  Opened o;
  const auto stores = o.cache.stores();
  for (const EntryInfo& e : list_entries(stores))
    fmt::print("{} {:>9} bytes  {:<24} {}\n", e.key.address().hex(), e.payload_bytes, e.key.kernel_name(), e.place);
  return 0;
}

int print_fields(const std::vector<std::pair<std::string, std::string>>& fields) {
  for (const auto& [name, value] : fields) fmt::print("{:<16} {}\n", name, value);
  return 0;
}

// A pack, or a directory laid out as a root, wherever it lies; read only.
std::unique_ptr<Store> open_any(const std::string& path) {
  const std::string full = std::filesystem::absolute(path).lexically_normal().string();
  std::string why;
  Reporter reporter([&why](const std::string& line) { why = line; });
  std::unique_ptr<Store> store;
  if (std::filesystem::is_directory(full)) {
    DiskOptions options;
    options.root = full;
    options.writable = false;
    options.trust.or_root = true;
    store = DiskStore::open(options, reporter);
    if (!store && why.empty()) why = full + " is no cache root";
  } else {
    TrustPolicy policy = TrustPolicy::of_this_process();
    policy.or_root = true;
    store = PackStore::open(full, {}, policy, why);
  }
  if (!store) throw_cache_error(why, "give a pack or a cache root that belongs to you or to root");
  return store;
}

int write_a_pack(const std::string& out, const std::vector<std::string>& from) {
  std::vector<std::unique_ptr<Store>> opened;
  std::vector<Store*> sources;
  std::optional<Opened> own;
  if (from.empty()) {
    own.emplace();
    sources.push_back(&own->root());
  }
  for (const std::string& path : from) {
    opened.push_back(open_any(path));
    sources.push_back(opened.back().get());
  }
  const PackSummary p = write_pack(sources, out);
  fmt::print("{}: {} entries, {} bytes, sha256 {}\n", out, p.entries, p.bytes, p.digest);
  return 0;
}

int unpack_into_root(const std::string& path) {
  Opened o;
  const auto store = open_any(path);
  auto* const pack = dynamic_cast<PackStore*>(store.get());
  if (pack == nullptr) throw_cache_error(path + " is a directory, not a pack");
  const UnpackResult r = unpack(*pack, o.root());
  fmt::print("{} entries stored in {}, {} refused\n", r.stored, o.root().description(), r.refused);
  return r.refused == 0 ? 0 : 1;
}

int print_diff(const std::string& left, const std::string& right) {
  const auto a = open_any(left), b = open_any(right);
  const StoreDifference d = diff_stores(*a, *b);
  const auto print = [](const char* mark, const std::vector<EntryInfo>& entries) {
    for (const EntryInfo& e : entries)
      fmt::print("{} {} {} for {}\n", mark, e.key.address().hex(), e.key.kernel_name(), e.key.profile().target);
  };
  print("-", d.only_left);
  print("+", d.only_right);
  print("!", d.other_payload);
  return d.is_empty() ? 0 : 1;
}

// Drops what no process of this build can use, whole profiles at a time.
std::set<std::string> profiles_of_this_build(DiskStore& root) {
  std::set<std::string> keep;
  for (const Profile& p : root.tool_chains()) {
    if (p.codegen == jit::codegen_id() && p.llvm == jit::llvm_version()) keep.insert(p.id());
  }
  return keep;
}

int print_verify(const std::string& path) {
  VerifyResult r;
  if (path.empty()) {
    Opened o;
    r = verify_root(o.root());
  } else {
    const auto store = open_any(path);
    auto* const pack = dynamic_cast<PackStore*>(store.get());
    r = pack ? verify_pack(*pack) : verify_root(dynamic_cast<DiskStore&>(*store));
  }
  for (const Oddity& bad : r.bad) fmt::print("bad: {}: {}\n", bad.path, bad.what);
  fmt::print("{} entries intact, {} bad\n", r.intact, r.bad.size());
  return r.bad.empty() ? 0 : 1;
}

int print_sweep(const SweepResult& r, bool dry_run) {
  fmt::print("{} of {} entries, {} of {} bytes {}\n", r.removed_entries, r.entries, r.removed_bytes, r.bytes,
             dry_run ? "would go" : "removed");
  return 0;
}

int explain(const std::string& address) {
  Opened o;
  const auto stores = o.cache.stores();
  const auto entry = find_by_address(stores, address);
  if (!entry) throw_cache_error("no entry has the address '" + address + "'", "`tileweave cache ls` lists them");
  print_fields(describe_key(entry->key));
  for (const VariantDifference& v : explain_variants(stores, *entry)) {
    fmt::print("\nvariant {} differs in\n", v.variant.key.address().hex());
    for (const Difference& d : v.differences) fmt::print("  {}: {} here, {} there\n", d.field, d.ours, d.theirs);
  }
  return 0;
}
}  // namespace

void add_cache(CLI::App& app, int& status) {
  CLI::App* c = app.add_subcommand("cache", "look at the cache of compiled kernels and look after it");
  c->require_subcommand(1);
  auto as_json = std::make_shared<bool>(false);
  CLI::App* stat = c->add_subcommand("stat", "counts and bytes, by profile");
  stat->add_flag("--json", *as_json, "as JSON");
  stat->callback([as_json, &status] { status = print_stat(*as_json); });
  c->add_subcommand("ls", "one line for each entry")->callback([&status] { status = print_list(); });
  auto name = std::make_shared<std::string>();
  CLI::App* check = c->add_subcommand("verify", "read every entry of the root, or of a pack, and check it");
  check->add_option("pack", *name, "a pack or another root");
  check->callback([name, &status] { status = print_verify(*name); });
  auto dry_run = std::make_shared<bool>(false);
  CLI::App* inspect = c->add_subcommand("inspect", "what an entry, pack or manifest file holds");
  inspect->add_option("file", *name)->required();
  inspect->callback([name, &status] { status = print_fields(inspect_file(*name).fields); });
  CLI::App* why = c->add_subcommand("explain", "the fields of a key, and what its kernel's other variants differ in");
  why->add_option("address", *name, "32 hexadecimal digits, or the first of them")->required();
  why->callback([name, &status] { status = explain(*name); });
  CLI::App* gc = c->add_subcommand("gc", "remove the oldest entries down to the cap");
  gc->add_flag("--dry-run", *dry_run, "only say what would go");
  auto other_builds = std::make_shared<bool>(false);
  gc->add_flag("--other-builds", *other_builds, "also every entry that another build of the library made");
  gc->callback([dry_run, other_builds, &status] {
    Opened o;
    std::optional<std::set<std::string>> keep;
    if (*other_builds) keep = profiles_of_this_build(o.root());
    status = print_sweep(collect_garbage(o.root(), env().cache_max_size, keep, *dry_run), *dry_run);
  });
  CLI::App* clear = c->add_subcommand("clear", "remove every entry");
  clear->add_flag("--dry-run", *dry_run, "only say what would go");
  clear->callback([dry_run, &status] {
    Opened o;
    status = print_sweep(clear_root(o.root(), *dry_run), *dry_run);
  });
  auto other = std::make_shared<std::string>();
  auto sources = std::make_shared<std::vector<std::string>>();
  CLI::App* pack = c->add_subcommand("pack", "write the root, or the given packs and roots, as one pack");
  pack->add_option("sources", *sources, "packs and roots; without any, this user's root");
  pack->add_option("-o,--output", *other, "the pack to write")->required();
  pack->callback([sources, other, &status] { status = write_a_pack(*other, *sources); });
  CLI::App* unpack = c->add_subcommand("unpack", "store a pack's entries in the root");
  unpack->add_option("pack", *name)->required();
  unpack->callback([name, &status] { status = unpack_into_root(*name); });
  CLI::App* diff =
      c->add_subcommand("diff", "what two packs or roots do not have in common (- first, + second, ! other bytes)");
  diff->add_option("first", *name)->required();
  diff->add_option("second", *other)->required();
  diff->callback([name, other, &status] { status = print_diff(*name, *other); });
}

}  // namespace tileweave::tools
