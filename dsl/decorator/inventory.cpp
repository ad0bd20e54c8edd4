// Walks a parsed file for decorated functions, tw::fusion_group(...) and tw::kernel(...).
#include "inventory.h"

#include "clang/AST/RecursiveASTVisitor.h"
#include "clang/Basic/FileManager.h"
#include "clang/Basic/SourceManager.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace tileweave::decorator {

using namespace clang;

namespace {

using Objects = std::map<std::string, llvm::json::Object>;

class Walk : public RecursiveASTVisitor<Walk> {
 public:
  Walk(ASTContext& context, Objects& groups, Objects& kernels)
      : context_(context),
        sources_(context.getSourceManager()),
        groups_(groups),
        kernels_(kernels),
        policy_(context.getLangOpts()) {
    policy_.SuppressUnwrittenScope = true;
    policy_.FullyQualifiedName = true;
  }
  // Uninstantiated templates are looked at once, as they are written.
  bool shouldVisitTemplateInstantiations() const { return false; }

  bool TraverseDecl(Decl* d) {
    if (d != nullptr && d->getLocation().isValid() && !isa<TranslationUnitDecl, NamespaceDecl, LinkageSpecDecl>(d) &&
        !is_users(d->getLocation()))
      return true;
    return RecursiveASTVisitor::TraverseDecl(d);
  }
  bool VisitFunctionDecl(FunctionDecl* f) {
    if (!f->isFirstDecl() || !is_decorated(f)) return true;
    llvm::json::Object o = object(f->getQualifiedNameAsString(), f->getLocation());
    o["kind"] = "decorated";
    o["type"] = f->getType().getAsString(policy_);
    o["template"] = f->getDescribedFunctionTemplate() != nullptr;
    groups_.try_emplace(place(f->getLocation()), std::move(o));
    return true;
  }
  bool VisitCallExpr(CallExpr* c) {
    const std::string callee = callee_name(c);
    if ((callee != "kernel" && callee != "fusion_group") || c->getNumArgs() < 2) return true;
    const StringLiteral* text = literal_within(c->getArg(0));
    const LambdaExpr* lambda = nullptr;
    for (const Expr* a : c->arguments()) {
      if (const auto* l = dyn_cast<LambdaExpr>(a->IgnoreImplicit()->IgnoreParenImpCasts())) lambda = l;
      if (lambda == nullptr) lambda = within(a);
    }
    if (lambda == nullptr) return true;
    llvm::json::Object o = object(text != nullptr ? text->getString().str() : "", c->getBeginLoc());
    llvm::json::Array parameters;
    bool depends = false;
    for (const ParmVarDecl* p : lambda->getCallOperator()->parameters()) {
      const QualType t = p->getType();
      depends = depends || t->isDependentType();
      parameters.push_back(llvm::json::Object{{"name", p->getNameAsString()}, {"type", spelled(p)}});
    }
    if (callee == "kernel") {
      o["parameters"] = std::move(parameters);
      o["template"] = depends;
      kernels_.try_emplace(place(c->getBeginLoc()), std::move(o));
    } else {
      o["kind"] = "lambda";
      o["type"] = "generic(" + std::to_string(parameters.size()) + ")";
      o["template"] = true;
      groups_.try_emplace(place(c->getBeginLoc()), std::move(o));
    }
    return true;
  }

 private:
  bool is_users(SourceLocation l) const {
    l = sources_.getExpansionLoc(l);
    if (sources_.isInSystemHeader(l)) return false;
    const PresumedLoc at = sources_.getPresumedLoc(l);
    // The language's and the library's own headers are no user code.
    return at.isValid() && llvm::StringRef(at.getFilename()).find("tileweave/") == llvm::StringRef::npos;
  }
  std::string place(SourceLocation l) const {
    const PresumedLoc at = sources_.getPresumedLoc(sources_.getExpansionLoc(l));
    return std::string(at.getFilename()) + ":" + std::to_string(100000000 + at.getLine()) + ":" +
           std::to_string(1000 + at.getColumn());
  }
  llvm::json::Object object(const std::string& name, SourceLocation l) const {
    const PresumedLoc at = sources_.getPresumedLoc(sources_.getExpansionLoc(l));
    return llvm::json::Object{
        {"name", name}, {"file", std::string(at.getFilename())}, {"line", static_cast<std::int64_t>(at.getLine())}};
  }
  static std::string callee_name(const CallExpr* c) {
    if (const FunctionDecl* f = c->getDirectCallee()) {
      const std::string name = f->getQualifiedNameAsString();
      return name.starts_with("tileweave::") ? f->getNameAsString() : "";
    }
    // In a template the callee may be unresolved.
    if (const auto* u = dyn_cast<UnresolvedLookupExpr>(c->getCallee()->IgnoreImplicit())) {
      for (const NamedDecl* d : u->decls()) {
        if (d->getQualifiedNameAsString().starts_with("tileweave::")) return u->getName().getAsString();
      }
    }
    return "";
  }
  // The name may have been converted to a string_view.
  static const StringLiteral* literal_within(const Stmt* s) {
    if (const auto* text = dyn_cast<StringLiteral>(s)) return text;
    for (const Stmt* child : s->children()) {
      if (child == nullptr) continue;
      if (const StringLiteral* text = literal_within(child)) return text;
    }
    return nullptr;
  }
  static const LambdaExpr* within(const Stmt* s) {
    for (const Stmt* child : s->children()) {
      if (child == nullptr) continue;
      if (const auto* l = dyn_cast<LambdaExpr>(child)) return l;
      if (const LambdaExpr* l = within(child)) return l;
    }
    return nullptr;
  }
  std::string spelled(const ParmVarDecl* p) const { return p->getType().getAsString(policy_); }

  ASTContext& context_;
  const SourceManager& sources_;
  Objects &groups_, &kernels_;
  PrintingPolicy policy_;
};

llvm::json::Array array_of(const Objects& objects) {
  llvm::json::Array out;
  for (const auto& [place, o] : objects) out.push_back(llvm::json::Object(o));
  return out;
}

}  // namespace

void Inventory::add(Parsed& parsed) {
  Walk(parsed.context, groups_, kernels_).TraverseDecl(parsed.context.getTranslationUnitDecl());
}

std::string Inventory::json() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::formatv("{0:2}", llvm::json::Value(llvm::json::Object{{"fusion_groups", array_of(groups_)},
                                                                     {"kernels", array_of(kernels_)}}));
  return out.str();
}

namespace {

// Where the file really is. Clang's names can climb out of a link ("/lib/gcc/../../include"), and a build tool that
// removes the dots as text would look for a file that does not exist, at every build.
std::string real_path(llvm::StringRef name) {
  llvm::SmallString<256> real;
  return llvm::sys::fs::real_path(name, real) ? name.str() : real.str().str();
}

}  // namespace

std::string dependencies(const Parsed& parsed, const std::string& target) {
  const SourceManager& sources = parsed.context.getSourceManager();
  std::vector<std::string> files;
  for (auto f = sources.fileinfo_begin(); f != sources.fileinfo_end(); ++f) {
    const llvm::StringRef name = f->first.getName();
    if (!name.ends_with(".fusion.h")) files.push_back(real_path(name));
  }
  std::sort(files.begin(), files.end());
  std::string out = target + ":";
  for (const std::string& f : files) {
    out += " \\\n  ";
    for (const char c : f) {
      if (c == ' ' || c == '#') out += '\\';
      out += c;
    }
  }
  return out + "\n";
}

}  // namespace tileweave::decorator
