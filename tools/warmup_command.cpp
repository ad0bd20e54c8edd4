// `tileweave warmup`: compiles a manifest for any targets into one pack. Needs no GPU, no driver and no network, and
// writes nothing but its output. The same manifest and build give the same bytes.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "commands.h"
#include "tileweave/cache/collected.h"
#include "tileweave/cache/manifest.h"
#include "tileweave/cache/pack.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/warm.h"
#include "warmup_workers.h"

namespace tileweave::tools {
namespace {

// Part of the interface: build scripts tell them apart.
enum Exit { all_compiled = 0, none_compiled = 1, not_run = 2, some_failed = 3 };

struct WarmupRequest {
  std::vector<std::string> manifests, targets;
  std::string out;
  int processes = 1;
  std::uint64_t seconds = 60, memory_mib = 4096;
  bool generic = true;
  std::string progress = "auto";
};

class Progress {
 public:
  Progress(const std::string& when, std::size_t total)
      : is_on_(when == "always" || (when == "auto" && ::isatty(2) != 0)), total_(total) {}
  ~Progress() {
    if (is_on_) fmt::print(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(bool failed, const WarmupItem& item) {
    ++done_;
    if (failed) ++failed_;
    if (!is_on_) return;
    constexpr std::size_t width = 30;
    const std::size_t filled = width * done_ / total_;
    fmt::print(stderr, "\r\033[K[{:#<{}}{:.<{}}] {}/{}{} {} for {:.20}", "", filled, "", width - filled, done_, total_,
               failed_ == 0 ? "" : fmt::format(" {} failed", failed_), item.record->kernel_name, item.target);
    std::fflush(stderr);
  }

 private:
  bool is_on_;
  std::size_t total_, done_ = 0, failed_ = 0;
};

std::vector<cache::Record> read_all(const std::vector<std::string>& files) {
  std::vector<cache::Manifest> manifests;
  for (const std::string& file : files) {
    manifests.push_back(cache::read_manifest(file));
    if (const auto cut = manifests.back().cut_bytes) {
      fmt::print(stderr, "warning: {}: the last {} bytes are no record and are left out\n", file, cut);
    }
  }
  return cache::merge_records(manifests);
}

std::vector<std::string> full_targets(const std::vector<std::string>& named) {
  std::set<std::string> seen;
  std::vector<std::string> out;
  for (const std::string& t : named) {
    std::string full = jit::full_target(t);
    if (seen.insert(full).second) out.push_back(std::move(full));
  }
  return out;
}

// A target that nothing can be compiled for is a mistake of the command line, not of the records.
void check_targets(const std::vector<std::string>& targets, const WarmupLimits& limits) {
  const cache::Record probe{"probe", "func \"probe\"() {\n}\n"};
  std::vector<WarmupItem> items;
  for (const std::string& t : targets) items.push_back({&probe, t});
  std::map<std::size_t, std::string> refused;
  const WarmupSink sink{[](std::size_t, const cache::Key&, const cache::Entry&) {},
                        [&](std::size_t item, std::string why) { refused[item] = std::move(why); }};
  compile_in_children(items, limits, sink);
  if (refused.empty()) return;
  throw_cache_error("nothing can be compiled for --target " + targets[refused.begin()->first] + ": " +
                    refused.begin()->second);
}

int warm(const WarmupRequest& request) {
  const WarmupLimits limits{request.processes, std::chrono::seconds(request.seconds), request.memory_mib << 20};
  std::vector<cache::Record> records = read_all(request.manifests);
  if (records.empty()) throw_cache_error("the manifest has no records", "run the program with TILEWEAVE_RECORD first");
  if (request.generic) records = jit::with_generic_variants(records);
  const std::vector<std::string> targets = full_targets(request.targets);
  check_targets(targets, limits);

  std::vector<WarmupItem> items;
  for (const cache::Record& r : records) {
    for (const std::string& t : targets) items.push_back({&r, t});
  }
  cache::CollectedStore made;
  std::map<std::size_t, std::string> failures;  // in the order of the items, whichever ended first
  {
    Progress progress(request.progress, items.size());
    const WarmupSink sink{[&](std::size_t item, cache::Key key, cache::Entry entry) {
                            made.put(key, entry);
                            progress.step(false, items[item]);
                          },
                          [&](std::size_t item, std::string why) {
                            failures[item] = std::move(why);
                            progress.step(true, items[item]);
                          }};
    compile_in_children(items, limits, sink);
  }
  for (const auto& [item, why] : failures) {
    fmt::print(stderr, "failed: kernel '{}' for {}: {}\n", items[item].record->kernel_name, items[item].target, why);
  }
  const std::size_t good = items.size() - failures.size();
  if (good == 0) {
    fmt::print("0 of {} variants compiled; {} is not written\n", items.size(), request.out);
    return none_compiled;
  }
  cache::Store* sources[] = {&made};
  const cache::PackSummary pack = cache::write_pack(sources, request.out);
  std::set<std::string> kernels;
  for (const cache::Record& r : records) kernels.insert(r.kernel_name);
  fmt::print("{} of {} variants of {} kernels for {} targets\n{}: {} entries, {} bytes, sha256 {}\n", good,
             items.size(), kernels.size(), targets.size(), request.out, pack.entries, pack.bytes, pack.digest);
  return failures.empty() ? all_compiled : some_failed;
}

int run(const WarmupRequest& request) {
  try {
    return warm(request);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return not_run;
  }
}

}  // namespace

void add_warmup(CLI::App& app, int& status) {
  auto r = std::make_shared<WarmupRequest>();
  CLI::App* c = app.add_subcommand("warmup", "compile what a manifest records, for any targets, into a pack");
  c->footer("exit status: 0 all compiled, 3 some failed, 1 none compiled, 2 nothing was tried");
  c->add_option("manifest", r->manifests, ".rec files")->required();
  c->add_option("--target", r->targets,
                "native, x86-64-v2|v3|v4, sm_80, sm_86, sm_89, sm_90, sm_90a; several with commas")
      ->required()
      ->delimiter(',');
  c->add_option("-o,--output", r->out, "the pack to write")->required();
  c->add_option("-j,--processes", r->processes, "children that compile at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  constexpr std::uint64_t one = 1, most = 10'000'000;
  c->add_option("--timeout", r->seconds, "seconds that one record may take for one target")
      ->check(CLI::Range(one, most))
      ->capture_default_str();
  c->add_option("--memory", r->memory_mib, "MiB that one child may take")
      ->check(CLI::Range(one, most))
      ->capture_default_str();
  c->add_flag("!--no-generic", r->generic, "leave out the generic variants, which serve layouts nobody recorded");
  c->add_option("--progress", r->progress, "a bar on stderr: auto (on a terminal), always, never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  c->callback([r, &status] { status = run(*r); });
}

}  // namespace tileweave::tools
