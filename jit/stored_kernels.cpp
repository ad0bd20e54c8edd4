// Reads kernels from files. See stored_kernels.h.
// Over cache/ for manifests, packs and roots; a stored key holds the tile IR, with options and constants beside it.
#include "tileweave/jit/stored_kernels.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>

#include "tileweave/cache/disk.h"
#include "tileweave/cache/manifest.h"
#include "tileweave/cache/pack.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::jit {
namespace {

// By text, without what a launch finds out for itself.
using Kernels = std::map<std::string, ir::Function>;

void add(Kernels& to, ir::Function f, std::string_view name) {
  if (!name.empty() && f.name != name) return;
  for (ir::Param& p : f.params) p.facts = {};
  std::string text = ir::to_text(f);
  to.try_emplace(std::move(text), std::move(f));
}

template <class N>
N number(const std::string& text) {
  N n{};
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

void set_option(ir::Options& o, std::string_view name, const std::string& value) {
  const bool yes = value == "true";
  if (name == "warps") o.warps = number<int>(value);
  if (name == "stages") o.stages = number<int>(value);
  if (name == "debug") o.debug = number<int>(value);
  if (name == "fast_math") o.fast_math = yes;
  if (name == "contract") o.contract = yes;
  if (name == "checked") o.checked = yes;
  if (name == "overflow") o.overflow = yes;
}

// What keys.cpp put apart, together again.
ir::Function function_of(const cache::Key& key) {
  constexpr std::string_view option = "option ", argument = "argument ", constant = " constant";
  std::string text;
  ir::Options options;
  std::vector<std::pair<std::size_t, std::uint64_t>> constants;  // argument from 1, bits
  cache::KeyReader reader(key.blob());
  while (const auto field = reader.next()) {
    if (field->name == "ir") {
      text.assign(reinterpret_cast<const char*>(field->value.data()), field->value.size());
    } else if (field->name.starts_with(option)) {
      set_option(options, field->name.substr(option.size()), field->to_text());
    } else if (field->name.starts_with(argument) && field->name.ends_with(constant)) {
      const std::string at(field->name.substr(argument.size()));
      constants.emplace_back(number<std::size_t>(at), number<std::uint64_t>(field->to_text()));
    }
  }
  ir::Function f = ir::parse(text);
  f.options = options;
  for (const auto& [at, bits] : constants) {
    if (at >= 1 && at <= f.params.size()) f.params[at - 1].constant = bits;
  }
  ir::verify(f, ir::Stage::recorded);
  return f;
}

void add_store(Kernels& to, cache::Store& store, std::string_view name) {
  store.visit([&](const cache::EntryInfo& info) {
    if (name.empty() || info.key.kernel_name() == name) add(to, function_of(info.key), name);
    return true;
  });
}

std::unique_ptr<cache::Store> open_root(const std::string& path) {
  cache::DiskOptions options;
  options.root = path;
  options.writable = false;
  options.trust.or_root = true;
  std::string why;
  cache::Reporter reporter([&why](const std::string& line) { why = line; });
  std::unique_ptr<cache::Store> store = cache::DiskStore::open(options, reporter);
  if (store == nullptr) {
    throw_cache_error(why.empty() ? path + " is no cache root" : why,
                      "give a cache root that belongs to you or to root");
  }
  return store;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw_cache_error(path + " cannot be read");
  return text;
}

}  // namespace

std::vector<ir::Function> stored_kernels(const std::string& path, std::string_view name) {
  Kernels found;
  const std::string full = std::filesystem::absolute(path).lexically_normal().string();
  cache::TrustPolicy policy = cache::TrustPolicy::of_this_process();
  policy.or_root = true;
  std::string why;
  if (std::filesystem::is_directory(full)) {
    add_store(found, *open_root(full), name);
  } else if (const auto pack = cache::PackStore::open(full, {}, policy, why)) {
    add_store(found, *pack, name);
  } else {
    const std::string bytes = read_file(full);
    std::string no_manifest;
    if (const auto manifest = cache::parse_manifest(std::as_bytes(std::span(bytes)), no_manifest)) {
      for (const cache::Record& r : manifest->records) {
        if (name.empty() || r.kernel_name == name) add(found, ir::parse(r.ir), name);
      }
    } else if (bytes.find("func") == std::string::npos) {
      throw_cache_error(path + " is no tile IR, manifest or pack: " + why);
    } else {
      add(found, ir::parse(bytes), name);
    }
  }
  std::vector<ir::Function> kernels;
  for (auto& [text, f] : found) kernels.push_back(std::move(f));
  return kernels;
}

}  // namespace tileweave::jit
