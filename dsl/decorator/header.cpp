// Translates the decorated functions of a file, callees first, and writes the header around them.
#include "header.h"

#include <algorithm>

#include "clang/AST/DeclTemplate.h"
#include "clang/Sema/EnterExpressionEvaluationContext.h"
#include "clang/Sema/Sema.h"
#include "clang/Sema/Template.h"
#include "clang/Sema/TemplateDeduction.h"
#include "llvm/ADT/StringExtras.h"
#include "statements.h"

namespace tileweave::decorator {

using namespace clang;

namespace {

// "geo::detail::area" and its parts, without inline and anonymous namespaces.
std::vector<std::string> path_of(const FunctionDecl* f) {
  std::vector<std::string> path{f->getNameAsString()};
  for (const DeclContext* c = f->getDeclContext(); c != nullptr; c = c->getParent()) {
    const auto* n = dyn_cast<NamespaceDecl>(c);
    if (n != nullptr && !n->isInline() && !n->isAnonymousNamespace()) path.insert(path.begin(), n->getNameAsString());
  }
  return path;
}

std::string joined(const std::vector<std::string>& parts, const std::string& by) { return llvm::join(parts, by); }

class HeaderWriter : public Callees {
 public:
  HeaderWriter(Parsed& parsed, std::string file, std::string header_name)
      : parsed_(parsed), file_(std::move(file)), header_name_(std::move(header_name)) {}

  std::optional<std::string> run() {
    for (FunctionDecl* f : parsed_.functions) ++overloads_[joined(path_of(f), "::")];
    for (FunctionDecl* f : parsed_.functions) {
      if (FunctionTemplateDecl* t = f->getDescribedFunctionTemplate()) {
        translate_template(t);
      } else {
        body_name(f, f->getLocation());
      }
    }
    if (parsed_.report.errors() != 0) return std::nullopt;
    return with_own_lines(text(), header_name_);
  }

  std::string body_name(const FunctionDecl* f, SourceRange at) override {
    if (const FunctionDecl* definition = definition_of(f)) f = definition;
    if (const auto known = names_.find(f); known != names_.end()) {
      if (std::ranges::find(running_, f) != running_.end()) {
        parsed_.report.error(
            at,
            "'" + f->getNameAsString() +
                "' calls itself: a fusion group has no recursion, for every lane would go as deep as the deepest",
            "write it as a loop");
        return "";
      }
      return known->second;
    }
    const std::string name = new_name(f);
    names_[f] = name;
    running_.push_back(f);
    Statements translation(parsed_, *this);
    std::optional<Body> body = translation.function(f, name);
    running_.pop_back();
    if (!body) return failed_.insert(f), name;
    body->from_header = !parsed_.context.getSourceManager().isInMainFile(
        parsed_.context.getSourceManager().getExpansionLoc(f->getLocation()));
    bodies_.emplace_back(f, std::move(*body));
    return name;
  }

 private:
  const FunctionDecl* definition_of(const FunctionDecl* f) {
    const FunctionDecl* definition = f->getDefinition();
    if (definition == nullptr && f->getTemplateInstantiationPattern() != nullptr)
      instantiate(const_cast<FunctionDecl*>(f));
    return f->getDefinition();
  }
  void instantiate(FunctionDecl* f) {
    parsed_.sema.InstantiateFunctionDefinition(f->getLocation(), f, true, true);
    parsed_.sema.PerformPendingInstantiations();
  }

  std::string new_name(const FunctionDecl* f) {
    std::string name = joined(path_of(f), "_");
    const bool several = f->getPrimaryTemplate() != nullptr || overloads_[joined(path_of(f), "::")] > 1;
    for (const ParmVarDecl* p : f->parameters()) {
      if (!several) break;
      const auto e = elem_of(p->getType(), parsed_.context);
      std::string type = e ? e->name : p->getType().getNonReferenceType().getUnqualifiedType().getAsString();
      std::erase_if(type, [](char c) { return !llvm::isAlnum(c) && c != '_'; });
      name += "_" + type;
    }
    name += "_body";
    const int n = ++taken_[name];
    return n == 1 ? name : name + std::to_string(n);
  }

  // A template over one type: an overload for each element type with which it compiles.
  void translate_template(FunctionTemplateDecl* t) {
    const SourceRange at = t->getTemplatedDecl()->getNameInfo().getSourceRange();
    const TemplateParameterList* list = t->getTemplateParameters();
    if (list->size() != 1 || !isa<TemplateTypeParmDecl>(list->getParam(0)) || list->getParam(0)->isParameterPack()) {
      parsed_.report.error(at, "'" + t->getNameAsString() + "' is a template over more than one element type",
                           "make it a template over one typename, or call the instances from functions that are none");
      return;
    }
    ASTContext& c = parsed_.context;
    bool first = true, any = false;
    for (const QualType type : {c.FloatTy, c.DoubleTy, c.IntTy, c.UnsignedIntTy, c.LongTy, c.UnsignedLongTy}) {
      FunctionDecl* f = instance(t, type);
      if (f == nullptr || f->getBody() == nullptr || f->isInvalidDecl()) continue;
      // What is wrong is wrong for every type: it is said once. A type that the body does not take is left out.
      const int before = parsed_.report.errors();
      parsed_.report.show(first);
      body_name(f, f->getLocation());
      parsed_.report.show(true);
      const bool failed = failed_.contains(definition_of(f));
      if (failed && !first) parsed_.report.forgive(before);
      any = any || !failed;
      if (failed && first) return;
      first = false;
    }
    if (any) return;
    if (parsed_.show_errors_in(t->getSourceRange())) {
      parsed_.report.show(false);
      parsed_.report.error(at, "");
      parsed_.report.show(true);
      return;
    }
    parsed_.report.error(
        at, "'" + t->getNameAsString() + "' compiles with none of float, double, int, unsigned, long and unsigned long",
        "make it a template that one of them satisfies");
  }
  FunctionDecl* instance(FunctionTemplateDecl* t, QualType type) {
    Sema& sema = parsed_.sema;
    TemplateArgumentListInfo arguments(t->getLocation(), t->getLocation());
    arguments.addArgument(
        TemplateArgumentLoc(TemplateArgument(type), parsed_.context.getTrivialTypeSourceInfo(type, t->getLocation())));
    FunctionDecl* f = nullptr;
    sema::TemplateDeductionInfo info(t->getLocation());
    EnterExpressionEvaluationContext evaluated(sema, Sema::ExpressionEvaluationContext::PotentiallyEvaluated);
    if (sema.DeduceTemplateArguments(t, &arguments, f, info) != TemplateDeductionResult::Success || f == nullptr)
      return nullptr;
    const std::size_t before = parsed_.held_errors();
    instantiate(f);
    if (parsed_.held_errors() != before) return nullptr;
    return f->getDefinition();
  }

  std::string text() {
    std::string out = "// Written by `tileweave fuse` from " + file_ +
                      ": edit that file, not this one.\n#pragma once\n\n#include <tileweave/dsl/decorated.h>\n#include "
                      "<tileweave/dsl/trace_cpp.h>\n\n";
    out += "namespace tileweave::trace::bodies {\n";
    for (const auto& [f, body] : bodies_) out += "\n" + guarded(body, body.text.text());
    out += "\n}  // namespace tileweave::trace::bodies\n";
    // Overloads of one name are one group; in the order of the user's declarations.
    std::vector<std::pair<std::vector<std::string>, std::vector<const Body*>>> groups;
    for (const auto& [f, body] : bodies_) {
      const auto path = path_of(f);
      auto at = std::ranges::find(groups, path, [](const auto& g) { return g.first; });
      if (at == groups.end()) at = groups.insert(groups.end(), {path, {}});
      at->second.push_back(&body);
    }
    for (const auto& [path, overloads] : groups) {
      std::vector<std::string> spaces{"tileweave", "fused"};
      spaces.insert(spaces.end(), path.begin(), path.end() - 1);
      std::string list, signature;
      for (const Body* b : overloads) {
        list += (list.empty() ? "" : ",\n                        ") + std::string("trace::Traced<trace::bodies::") +
                b->name + ">";
        signature += (signature.empty() ? "" : "; ") + b->signature;
      }
      const std::string where = joined(spaces, "::");
      out += guarded(*overloads[0],
                     "\nnamespace " + where + " {\n// " + signature + "\ninline constexpr Decorated<" + list + "> " +
                         path.back() + "{};\n}  // namespace " + where + "\n",
                     "GROUP_");
    }
    return out;
  }
  // Functions of headers may be in the generated headers of several files.
  std::string guarded(const Body& body, const std::string& text, const std::string& kind = "") const {
    if (!body.from_header) return text;
    const std::string macro = "TILEWEAVE_FUSED_" + kind + body.name;
    return "#ifndef " + macro + "\n#define " + macro + "\n" + text + "#endif\n";
  }

  Parsed& parsed_;
  std::string file_, header_name_;
  std::map<const FunctionDecl*, std::string> names_;
  std::set<const FunctionDecl*> failed_;
  std::vector<const FunctionDecl*> running_;
  std::vector<std::pair<const FunctionDecl*, Body>> bodies_;  // callees first
  std::map<std::string, int> overloads_, taken_;
};

}  // namespace

std::optional<std::string> header(Parsed& parsed, const std::string& file, const std::string& header_name) {
  return HeaderWriter(parsed, file, header_name).run();
}

}  // namespace tileweave::decorator
