// Formats and throws every error of the project.
#include "tileweave/jit/base/error.h"

#include <utility>

namespace tileweave {
namespace {
thread_local std::string current_context;

Diagnostic make(const Place& p, std::string message, std::string help, std::vector<Note> notes) {
  return {p, std::move(message), std::move(notes), current_context, std::move(help)};
}

std::string line(const Place& p, const char* kind, const std::string& text) {
  return (p.known() ? to_string(p) + ": " : std::string()) + kind + ": " + text;
}
}  // namespace

std::string format(const Diagnostic& d) {
  std::string out = line(d.place, "error", d.message);
  for (const Note& n : d.notes) out += "\n" + line(n.place, "note", n.text);
  if (!d.context.empty()) out += "\n  in " + d.context;
  if (!d.help.empty()) out += "\n  help: " + d.help;
  return out;
}

void throw_record_error(const Place& p, std::string message, std::string help, std::vector<Note> notes) {
  throw RecordError(make(p, std::move(message), std::move(help), std::move(notes)));
}
void throw_compile_error(const Place& p, std::string message, std::string help, std::vector<Note> notes) {
  throw CompileError(make(p, std::move(message), std::move(help), std::move(notes)));
}
void throw_launch_error(const Place& p, std::string message, std::string help, LaunchError::Kind kind) {
  throw LaunchError(make(p, std::move(message), std::move(help), {}), kind);
}
void throw_cache_error(std::string message, std::string help) {
  throw CacheError(make({}, std::move(message), std::move(help), {}));
}
void throw_internal_error(const Place& where, std::string message) {
  throw InternalError(make({}, "internal error: " + std::move(message) + " (" + to_string(where) + ")",
                           "this is a mistake in tileweave, not in your program; please report it", {}));
}
void throw_internal_error(const Diagnostic& d) { throw InternalError(d); }

ErrorContext::ErrorContext(std::string context) : previous_(std::exchange(current_context, std::move(context))) {}
ErrorContext::~ErrorContext() { current_context = std::move(previous_); }

}  // namespace tileweave
