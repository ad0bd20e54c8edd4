// Runs Clang's front end over one file. What is about to be generated does not exist yet: headers named *.fusion.h read
// as empty, bodies that no decorated function needs are skipped, and errors outside of decorated functions are the
// compiler's.
#include "source.h"

#include "clang/AST/RecursiveASTVisitor.h"
#include "clang/Basic/FileManager.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendAction.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "clang/Lex/Preprocessor.h"
#include "clang/Sema/SemaConsumer.h"
#include "clang/Tooling/Tooling.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace tileweave::decorator {
namespace {

using namespace clang;

constexpr llvm::StringLiteral annotation = "tileweave::fusion_group";

// The real files, and every *.fusion.h as an empty one.
class EmptyHeaders : public llvm::vfs::ProxyFileSystem {
 public:
  using ProxyFileSystem::ProxyFileSystem;
  llvm::ErrorOr<llvm::vfs::Status> status(const llvm::Twine& path) override {
    if (is_generated(path)) return empty_status(path);
    return ProxyFileSystem::status(path);
  }
  llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> openFileForRead(const llvm::Twine& path) override {
    if (is_generated(path)) return std::make_unique<EmptyFile>(*empty_status(path));
    return ProxyFileSystem::openFileForRead(path);
  }

 private:
  class EmptyFile : public llvm::vfs::File {
   public:
    explicit EmptyFile(llvm::vfs::Status s) : status_(std::move(s)) {}
    llvm::ErrorOr<llvm::vfs::Status> status() override { return status_; }
    llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> getBuffer(const llvm::Twine& name, std::int64_t, bool,
                                                                 bool) override {
      return llvm::MemoryBuffer::getMemBufferCopy("", name);
    }
    std::error_code close() override { return {}; }

   private:
    llvm::vfs::Status status_;
  };
  static bool is_generated(const llvm::Twine& path) {
    llvm::SmallString<256> text;
    return path.toStringRef(text).ends_with(".fusion.h");
  }
  static llvm::ErrorOr<llvm::vfs::Status> empty_status(const llvm::Twine& path) {
    const std::string name = path.str();
    return llvm::vfs::Status(name, llvm::sys::fs::UniqueID(0x7477, std::hash<std::string>{}(name)),
                             std::chrono::system_clock::time_point(), 0, 0, 0, llvm::sys::fs::file_type::regular_file,
                             llvm::sys::fs::all_read);
  }
};

// Holds Clang's errors back while it parses, each with its notes; shows ours at once.
class Messages : public DiagnosticConsumer {
 public:
  Messages() : options_(new DiagnosticOptions), printer_(text_stream_, options_.get()) {}

  void BeginSourceFile(const LangOptions& language, const Preprocessor* pp) override {
    printer_.BeginSourceFile(language, pp);
  }
  void EndSourceFile() override { printer_.EndSourceFile(); }
  void HandleDiagnostic(DiagnosticsEngine::Level level, const Diagnostic& d) override {
    if (level < DiagnosticsEngine::Error && level != DiagnosticsEngine::Note) return;
    text_.clear();
    printer_.HandleDiagnostic(level, d);
    text_stream_.flush();
    if (!holding) {
      llvm::errs() << text_;
    } else if (level == DiagnosticsEngine::Note) {
      if (!held_.empty()) held_.back().text += text_;
    } else {
      held_.push_back({d.getLocation(), text_, level == DiagnosticsEngine::Fatal, false});
    }
    fatal = fatal || level == DiagnosticsEngine::Fatal;
  }
  bool show_in(const SourceManager& sources, SourceRange range) {
    bool any = false;
    const auto start = sources.getExpansionLoc(range.getBegin()), end = sources.getExpansionLoc(range.getEnd());
    for (Held& h : held_) {
      const SourceLocation at = sources.getExpansionLoc(h.place);
      const bool inside = at == start || at == end ||
                          (sources.isBeforeInTranslationUnit(start, at) && sources.isBeforeInTranslationUnit(at, end));
      if (!inside || at.isInvalid()) continue;
      if (!h.shown) llvm::errs() << h.text;
      h.shown = any = true;
    }
    return any;
  }
  void show_fatal() {
    for (const Held& h : held_) {
      if (h.fatal) llvm::errs() << h.text;
    }
  }
  std::size_t count() const { return held_.size(); }
  bool holding = true, fatal = false;

 private:
  struct Held {
    SourceLocation place;
    std::string text;
    bool fatal, shown;
  };
  std::vector<Held> held_;
  std::string text_;
  llvm::raw_string_ostream text_stream_{text_};
  llvm::IntrusiveRefCntPtr<DiagnosticOptions> options_;
  TextDiagnosticPrinter printer_;
};

class Finder : public RecursiveASTVisitor<Finder> {
 public:
  explicit Finder(ASTContext& context) : sources_(context.getSourceManager()) {}
  // Bodies hold no decorated functions.
  bool TraverseStmt(Stmt*) { return true; }
  bool VisitFunctionDecl(FunctionDecl* f) {
    if (!f->isFirstDecl() || !is_decorated(f) || sources_.isInSystemHeader(f->getLocation())) return true;
    FunctionDecl* definition = f->getDefinition();
    found.push_back(definition != nullptr ? definition : f);
    return true;
  }
  std::vector<FunctionDecl*> found;

 private:
  const SourceManager& sources_;
};

class Consumer : public SemaConsumer {
 public:
  Consumer(const Request& request, Messages& messages) : request_(request), messages_(messages) {}
  void InitializeSema(Sema& s) override { sema_ = &s; }
  void ForgetSema() override { sema_ = nullptr; }
  bool shouldSkipFunctionBody(Decl* d) override {
    const FunctionDecl* f = d->getAsFunction();
    return f == nullptr || !is_decorated(f);
  }
  void HandleTranslationUnit(ASTContext& context) override {
    if (messages_.fatal) return;
    Report report(context.getDiagnostics(), messages_.holding);
    Finder finder(context);
    finder.TraverseDecl(context.getTranslationUnitDecl());
    Parsed parsed{*sema_, context, report, std::move(finder.found), {}, {}};
    parsed.show_errors_in = [&](SourceRange range) { return messages_.show_in(context.getSourceManager(), range); };
    parsed.held_errors = [&] { return messages_.count(); };
    request_.use(parsed);
  }

 private:
  const Request& request_;
  Messages& messages_;
  Sema* sema_ = nullptr;
};

class Action : public ASTFrontendAction {
 public:
  Action(const Request& request, Messages& messages) : request_(request), messages_(messages) {}
  std::unique_ptr<ASTConsumer> CreateASTConsumer(CompilerInstance& compiler, llvm::StringRef) override {
    compiler.getFrontendOpts().SkipFunctionBodies = !request_.keep_bodies;
    compiler.getDiagnostics().setErrorLimit(0);
    return std::make_unique<Consumer>(request_, messages_);
  }

 private:
  const Request& request_;
  Messages& messages_;
};

bool takes_value(llvm::StringRef flag) {
  for (const char* f :
       {"-I", "-D", "-U", "-isystem", "-iquote", "-include", "-idirafter", "-imacros", "-x", "--sysroot"}) {
    if (flag == f) return true;
  }
  return false;
}
bool is_meaningful(llvm::StringRef flag) {
  for (const char* f : {"-I",
                        "-D",
                        "-U",
                        "-std=",
                        "-isystem",
                        "-iquote",
                        "-idirafter",
                        "-imacros",
                        "-include",
                        "-m",
                        "--sysroot",
                        "-fsigned-char",
                        "-funsigned-char",
                        "-fno-exceptions",
                        "-fno-rtti",
                        "-fshort-enums",
                        "-fopenmp",
                        "-fchar8_t",
                        "-fno-char8_t",
                        "-nostdinc",
                        "-x",
                        "-stdlib=",
                        "-pthread",
                        "-undef",
                        "-ansi"}) {
    if (flag.starts_with(f)) return true;
  }
  return false;
}

}  // namespace

void Report::error(SourceRange source, const std::string& message, const std::string& help, SourceRange help_at) {
  ++errors_;
  if (!shown_) return;
  *holding_ = false;
  const unsigned id = engine_->getCustomDiagID(DiagnosticsEngine::Error, "%0");
  engine_->Report(source.getBegin(), id) << message << CharSourceRange::getTokenRange(source);
  if (!help.empty()) {
    const unsigned note = engine_->getCustomDiagID(DiagnosticsEngine::Note, "%0");
    engine_->Report(help_at.isValid() ? help_at.getBegin() : source.getBegin(), note) << help;
  }
  *holding_ = true;
}

bool is_decorated(const FunctionDecl* f) {
  if (f == nullptr) return false;
  for (const FunctionDecl* each : f->redecls()) {
    for (const auto* a : each->specific_attrs<AnnotateAttr>()) {
      if (a->getAnnotation() == annotation) return true;
    }
  }
  if (const FunctionTemplateDecl* t = f->getPrimaryTemplate()) {
    return t->getTemplatedDecl() != f && is_decorated(t->getTemplatedDecl());
  }
  return false;
}

std::vector<std::string> meaningful_flags(const std::vector<std::string>& command) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (!is_meaningful(command[i])) {
      if (command[i] == "-o" || command[i] == "-MF" || command[i] == "-MT" || command[i] == "-MQ") ++i;
      continue;
    }
    out.push_back(command[i]);
    if (takes_value(command[i]) && i + 1 < command.size()) out.push_back(command[++i]);
  }
  return out;
}

bool parse(const Request& request) {
  Messages messages;
  auto files = llvm::makeIntrusiveRefCnt<FileManager>(
      FileSystemOptions(), llvm::makeIntrusiveRefCnt<EmptyHeaders>(llvm::vfs::getRealFileSystem()));
  std::vector<std::string> command{"clang++", "-fsyntax-only", "-w", "-resource-dir", TILEWEAVE_CLANG_RESOURCES};
  if (!request.keep_bodies) command.push_back("-DTILEWEAVE_FUSE");
  command.insert(command.end(), request.flags.begin(), request.flags.end());
  command.push_back(request.file);
  tooling::ToolInvocation invocation(command, std::make_unique<Action>(request, messages), files.get());
  invocation.setDiagnosticConsumer(&messages);
  invocation.run();
  if (messages.fatal) messages.show_fatal();
  return !messages.fatal;
}

}  // namespace tileweave::decorator
