// `tileweave cache`: look at the cache, check it, and keep it small. The work is done by cache/inspect.h; here it is
// printed. Treats every file as hostile; never runs or compiles what it reads.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "commands.h"
#include "tileweave/cache/cache.h"
#include "tileweave/cache/inspect.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"

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

int print_stat() {
  Opened o;
  const RootSummary s = summarize(o.root());
  fmt::print("{}: {} entries, {} bytes, {} temporaries; {} on {}, {} bytes free; locks {}\n", o.root().description(),
             s.entries, s.bytes, s.temporaries,
             s.profiles.size() == 1 ? "1 profile" : fmt::format("{} profiles", s.profiles.size()), s.file_system,
             s.free_bytes, s.locks_work ? "work" : "do not work");
  for (const auto& p : s.profiles)
    fmt::print("  {} {:>6} entries {:>12} bytes\n", p.profile.id, p.profile.entries, p.bytes);
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

int print_verify() {
  Opened o;
  const VerifyResult r = verify_root(o.root());
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
  c->add_subcommand("stat", "counts and bytes, by profile")->callback([&status] { status = print_stat(); });
  c->add_subcommand("ls", "one line for each entry")->callback([&status] { status = print_list(); });
  c->add_subcommand("verify", "read every entry and check it")->callback([&status] { status = print_verify(); });
  auto name = std::make_shared<std::string>();
  auto dry_run = std::make_shared<bool>(false);
  CLI::App* inspect = c->add_subcommand("inspect", "what an entry or pack file holds");
  inspect->add_option("file", *name)->required();
  inspect->callback([name, &status] { status = print_fields(inspect_file(*name).fields); });
  CLI::App* why = c->add_subcommand("explain", "the fields of a key, and what its kernel's other variants differ in");
  why->add_option("address", *name, "32 hexadecimal digits, or the first of them")->required();
  why->callback([name, &status] { status = explain(*name); });
  CLI::App* gc = c->add_subcommand("gc", "remove the oldest entries down to the cap");
  gc->add_flag("--dry-run", *dry_run, "only say what would go");
  gc->callback([dry_run, &status] {
    Opened o;
    status = print_sweep(collect_garbage(o.root(), env().cache_max_size, std::nullopt, *dry_run), *dry_run);
  });
  CLI::App* clear = c->add_subcommand("clear", "remove every entry");
  clear->add_flag("--dry-run", *dry_run, "only say what would go");
  clear->callback([dry_run, &status] {
    Opened o;
    status = print_sweep(clear_root(o.root(), *dry_run), *dry_run);
  });
}

}  // namespace tileweave::tools
