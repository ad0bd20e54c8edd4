// The error hierarchy and the one form every message has: where, what, notes, context, help.
// Nothing else in the project formats an error or throws one by hand.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "tileweave/jit/base/place.h"

namespace tileweave {

struct Note {
  Place place;
  std::string text;
};

// What an error says. `message` starts in lower case and has no final period; numbers carry units.
struct Diagnostic {
  Place place;
  std::string message;
  std::vector<Note> notes;
  std::string context;  // "kernel 'matmul' with m=128 n=128"
  std::string help;     // what to do
};

// file:line: error: message / file:line: note: text / "  in <context>" / "  help: <help>", joined by newlines.
std::string format(const Diagnostic& d);

class Error : public std::runtime_error {
 public:
  explicit Error(const Diagnostic& d) : std::runtime_error(format(d)), diagnostic_(d) {}
  const Diagnostic& diagnostic() const { return diagnostic_; }

 private:
  Diagnostic diagnostic_;
};

// A mistake in a kernel, found while it is recorded.
class RecordError : public Error {
 public:
  using Error::Error;
};
// A right kernel that this device or assembler cannot take.
class CompileError : public Error {
 public:
  using Error::Error;
};
// Wrong launch arguments, a fault on the device, a failing driver call.
class LaunchError : public Error {
 public:
  enum class Kind { refused, fault, context_lost, timeout };
  explicit LaunchError(const Diagnostic& d, Kind kind = Kind::refused) : Error(d), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};
// A cache setting that cannot be honoured, or a sealed deployment's miss.
class CacheError : public Error {
 public:
  using Error::Error;
};
// A mistake of ours: names the condition and our own source line.
class InternalError : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void throw_record_error(const Place& p, std::string message, std::string help = {},
                                     std::vector<Note> notes = {});
[[noreturn]] void throw_compile_error(const Place& p, std::string message, std::string help = {},
                                      std::vector<Note> notes = {});
[[noreturn]] void throw_launch_error(const Place& p, std::string message, std::string help = {},
                                     LaunchError::Kind kind = LaunchError::Kind::refused);
[[noreturn]] void throw_cache_error(std::string message, std::string help = {});
// `where` is our own place: throw_internal_error(std::source_location::current(), "...").
[[noreturn]] void throw_internal_error(const Place& where, std::string message);
[[noreturn]] void throw_internal_error(const Diagnostic& d);  // one that crossed from libtileweave_jit

// While one lives on this thread, errors thrown by the functions above say "in <context>". Nested scopes: the
// innermost.
class ErrorContext {
 public:
  explicit ErrorContext(std::string context);
  ~ErrorContext();
  ErrorContext(const ErrorContext&) = delete;
  ErrorContext& operator=(const ErrorContext&) = delete;

 private:
  std::string previous_;
};

}  // namespace tileweave
