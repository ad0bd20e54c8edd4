// Tests the reading of environment variables: values, defaults, bad values, foreign rights, and what enters the key.
// Mirrors jit/base/env.h.
#include "tileweave/jit/base/env.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <vector>

namespace tileweave {
namespace {

struct Reading {
  Env env;
  std::vector<std::string> warnings;
};
Reading read(const std::map<std::string, std::string>& variables, bool same_user = true) {
  Reading r;
  r.env = read_env({[&](const char* name) {
                      const auto it = variables.find(name);
                      return it == variables.end() ? std::optional<std::string>() : it->second;
                    },
                    [&](const std::string& w) { r.warnings.push_back(w); }, same_user});
  return r;
}

TEST_CASE("nothing set: the defaults, no warning") {
  const Reading r = read({});
  CHECK(r.warnings.empty());
  CHECK(r.env.device.empty());
  CHECK(r.env.assembler == AssemblerChoice::automatic);
  CHECK(r.env.debug == DebugLevel::none);
  CHECK(r.env.cache == CacheMode::rw);
  CHECK(r.env.cache_max_size == std::uint64_t{1} << 30);
  CHECK(r.env.lock_timeout_s == 120);
  CHECK(r.env.jit == JitMode::allow);
  CHECK_FALSE(r.env.check);
}

TEST_CASE("every kind of value is read") {
  const Reading r = read({{"TILEWEAVE_DEVICE", "cuda:3"},
                          {"TILEWEAVE_ASSEMBLER", "nvjitlink"},
                          {"TILEWEAVE_DEBUG", "full"},
                          {"TILEWEAVE_CHECK", "1"},
                          {"TILEWEAVE_CACHE", "ro"},
                          {"TILEWEAVE_CACHE_DIR", "/var/cache/tw"},
                          {"TILEWEAVE_CACHE_MAX_SIZE", "64M"},
                          {"TILEWEAVE_CACHE_TRUST", "group:44"},
                          {"TILEWEAVE_LOCK_TIMEOUT", "5"},
                          {"TILEWEAVE_JIT", "forbid"},
                          {"HOME", "/home/a b"}});
  CHECK(r.warnings.empty());
  CHECK(r.env.device == "cuda:3");
  CHECK(r.env.assembler == AssemblerChoice::nvjitlink);
  CHECK(r.env.debug == DebugLevel::full);
  CHECK(r.env.check);
  CHECK(r.env.cache == CacheMode::ro);
  CHECK(r.env.cache_dir == "/var/cache/tw");
  CHECK(r.env.cache_max_size == std::uint64_t{64} << 20);
  CHECK(r.env.cache_trust == "group:44");
  CHECK(r.env.lock_timeout_s == 5);
  CHECK(r.env.jit == JitMode::forbid);
  CHECK(r.env.home == "/home/a b");
}

TEST_CASE("sizes") {
  const auto size = [](const char* text) { return read({{"TILEWEAVE_CACHE_MAX_SIZE", text}}).env.cache_max_size; };
  CHECK(size("0") == 0);
  CHECK(size("1000") == 1000);
  CHECK(size("3K") == 3072);
  CHECK(size("2GiB") == std::uint64_t{2} << 30);
  CHECK(size("2GB") == std::uint64_t{2} << 30);
}

TEST_CASE("a bad value is named once, with what would be right, and the default is used") {
  const Reading r = read({{"TILEWEAVE_CACHE", "readonly"}});
  REQUIRE(r.warnings.size() == 1);
  CHECK(r.warnings[0] == "tileweave: warning: TILEWEAVE_CACHE=readonly is not one of rw|ro|off; using rw");
  CHECK(r.env.cache == CacheMode::rw);

  for (const auto& [name, value] : std::map<std::string, std::string>{{"TILEWEAVE_CACHE_MAX_SIZE", "99999999999G"},
                                                                      {"TILEWEAVE_LOCK_TIMEOUT", "-1"},
                                                                      {"TILEWEAVE_DEBUG", "2"},
                                                                      {"TILEWEAVE_CHECK", "yes"},
                                                                      {"TILEWEAVE_DEVICE", "gpu"},
                                                                      {"TILEWEAVE_CACHE_DIR", "relative/path"},
                                                                      {"TILEWEAVE_CACHE_TRUST", "group:staff"}}) {
    CAPTURE(name);
    const Reading bad = read({{name, value}});
    REQUIRE(bad.warnings.size() == 1);
    CHECK(bad.warnings[0].find(name + "=" + value) != std::string::npos);
    CHECK(env_value(bad.env, name) == env_value(Env(), name));
  }
}

TEST_CASE("an empty value counts as not set") {
  const Reading r = read({{"TILEWEAVE_CACHE", ""}, {"TILEWEAVE_DEVICE", ""}});
  CHECK(r.warnings.empty());
  CHECK(r.env.cache == CacheMode::rw);
}

TEST_CASE("with another user's rights, paths are ignored") {
  const Reading r = read({{"TILEWEAVE_CACHE_DIR", "/tmp/evil"},
                          {"XDG_CACHE_HOME", "/tmp/evil"},
                          {"HOME", "/tmp/evil"},
                          {"PATH", "/tmp/evil"},
                          {"TILEWEAVE_DUMP", "/tmp/evil"},
                          {"TILEWEAVE_CACHE_LAYERS", "/tmp/evil.pack"},
                          {"TILEWEAVE_RECORD", "/tmp/evil"},
                          {"TILEWEAVE_CACHE_TRUST", "group:1"},
                          {"CUDA_HOME", "/tmp/evil"},
                          {"TILEWEAVE_CACHE", "off"}},
                         false);
  for (const EnvRow& row : env_rows()) {
    CAPTURE(row.name);
    CHECK(env_value(r.env, row.name).find("evil") == std::string::npos);
    if (row.same_user_only) CHECK(env_value(r.env, row.name) == env_value(Env(), row.name));
  }
  CHECK(r.env.cache == CacheMode::off);
}

TEST_CASE("the table is sound: names unique, every row has a text") {
  std::set<std::string_view> names;
  for (const EnvRow& row : env_rows()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(row.text.size() > 10);
    CHECK_FALSE(row.accepts.empty());
  }
  CHECK(names.size() >= 15);
}

TEST_CASE("env() is one object until a test reloads it, and old references stay readable") {
  const Env& before = env();
  CHECK(&before == &env());
  const char* old = std::getenv("TILEWEAVE_LOCK_TIMEOUT");
  const std::string saved = old ? old : "";
  setenv("TILEWEAVE_LOCK_TIMEOUT", "77", 1);
  CHECK(env().lock_timeout_s == before.lock_timeout_s);
  reload_env_for_test();
  CHECK(env().lock_timeout_s == 77);
  CHECK(before.lock_timeout_s != 77);
  if (old) {
    setenv("TILEWEAVE_LOCK_TIMEOUT", saved.c_str(), 1);
  } else {
    unsetenv("TILEWEAVE_LOCK_TIMEOUT");
  }
  reload_env_for_test();
  CHECK(env().lock_timeout_s == before.lock_timeout_s);
}

}  // namespace
}  // namespace tileweave
