// Parsing a user's file for the decorator: Clang with the generated headers empty and other functions' bodies skipped.
// First step of the tool; translate.h turns what is found into text.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "clang/AST/ASTContext.h"
#include "clang/Sema/Sema.h"
#include "clang/Tooling/CompilationDatabase.h"

namespace tileweave::decorator {

// What the tool says about the user's code, in Clang's form: file, line, column, caret; notes with a way out.
class Report {
 public:
  // `holding`: whether Clang's messages are kept back now; ours are not.
  Report(clang::DiagnosticsEngine& engine, bool& holding) : engine_(&engine), holding_(&holding) {}

  // `source` is underlined. Messages start in lower case; `help` is a note, with its own place if given.
  void error(clang::SourceRange source, const std::string& message, const std::string& help = {},
             clang::SourceRange help_at = {});
  int errors() const { return errors_; }
  // While off, errors are counted and not shown.
  void show(bool on) { shown_ = on; }
  // Takes back errors that were not shown.
  void forgive(int errors) { errors_ = errors; }

 private:
  clang::DiagnosticsEngine* engine_;
  bool* holding_;
  int errors_ = 0;
  bool shown_ = true;
};

// One parsed file, while Sema is alive.
struct Parsed {
  clang::Sema& sema;
  clang::ASTContext& context;
  Report& report;
  // The decorated functions in order, templates and all redeclarations once; those of system headers left out.
  std::vector<clang::FunctionDecl*> functions;
  // Shows Clang's own errors within the range, for code that did not parse; tells whether there were any.
  std::function<bool(clang::SourceRange)> show_errors_in;
  std::function<std::size_t()> held_errors;  // how many errors Clang has found so far
};

struct Request {
  std::string file;
  std::vector<std::string> flags;  // of the compiler, without program and file names
  bool keep_bodies = false;        // parse every body: for --list
  std::function<void(Parsed&)> use;
};

// Parses and calls `use`. False where the file cannot be read or preprocessed; that has been reported then.
bool parse(const Request& request);

// The flags of a file in a compilation database, or of the command line as they are: those that change what the code
// means.
std::vector<std::string> meaningful_flags(const std::vector<std::string>& command);

bool is_decorated(const clang::FunctionDecl* f);

}  // namespace tileweave::decorator
