// The settings a user makes by environment variables, typed and read once: env().cache_dir, env().debug, ...
// Below everything: any box may ask; only env.cpp calls getenv. The rows, with what they accept, are in env.def.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tileweave {

enum class AssemblerChoice : std::uint8_t { automatic, ptxas, nvptxcompiler, nvjitlink, driver };
enum class DebugLevel : std::uint8_t { none, lines, full };
enum class CacheMode : std::uint8_t { rw, ro, off };
enum class JitMode : std::uint8_t { allow, forbid };
// What a launch does while its kernel is still being compiled: wait for it, run the kernel's generic variant, or run it
// on the CPU.
enum class Meanwhile : std::uint8_t { wait, generic, cpu };

struct Env {
#define TILEWEAVE_ENV(field, name, type, default_value, accepts, key, scope, text) type field = default_value;
#include "tileweave/jit/base/env.def"
};

// The process's settings: read at the first call, the same object ever after.
const Env& env();

// One row as text, for `tileweave doctor` and the reference page.
struct EnvRow {
  std::string_view name, accepts, text;
  bool in_key, same_user_only;
};
std::span<const EnvRow> env_rows();
// The value of a row, printed the way it would be set.
std::string env_value(const Env& e, std::string_view name);

// Where variables come from and where complaints go. A bad value is reported once and its default is used.
struct EnvSource {
  std::function<std::optional<std::string>(const char* name)> lookup;
  std::function<void(const std::string& warning)> warn;
  bool same_user = true;  // false: the rows marked same_user keep their defaults
};
Env read_env(const EnvSource& source);

// For tests that have changed the environment: reads it again. References from earlier calls of env() stay valid.
void reload_env_for_test();

}  // namespace tileweave
