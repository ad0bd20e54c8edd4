// Statements of a decorated function. Each becomes a statement of the generated body, at the line where the user's
// stands.
#include "statements.h"

#include "clang/AST/RecursiveASTVisitor.h"

namespace tileweave::decorator {

using namespace clang;

namespace {

// The variables that a body assigns to.
class Assigned : public RecursiveASTVisitor<Assigned> {
 public:
  std::set<const VarDecl*> variables;
  bool VisitBinaryOperator(BinaryOperator* b) {
    if (b->isAssignmentOp()) note(b->getLHS());
    return true;
  }
  bool VisitUnaryOperator(UnaryOperator* u) {
    if (u->isIncrementDecrementOp()) note(u->getSubExpr());
    return true;
  }
  bool VisitCXXOperatorCallExpr(CXXOperatorCallExpr* c) {
    if (c->getOperator() == OO_Equal) note(c->getArg(0));
    return true;
  }
  bool VisitCallExpr(CallExpr* c) {
    const FunctionDecl* f = c->getDirectCallee();
    if (f != nullptr && f->isInStdNamespace() && f->getIdentifier() != nullptr && f->getName() == "swap") {
      for (const Expr* a : c->arguments()) note(a);
    }
    return true;
  }

 private:
  void note(const Expr* e) {
    e = e->IgnoreParenImpCasts();
    if (const auto* m = dyn_cast<MemberExpr>(e)) return note(m->getBase());
    if (const auto* d = dyn_cast<DeclRefExpr>(e)) {
      if (const auto* v = dyn_cast<VarDecl>(d->getDecl())) variables.insert(v->getCanonicalDecl());
    }
  }
};

// Whether a loop can end: by a break of its own, or a return.
class Exits : public RecursiveASTVisitor<Exits> {
 public:
  bool found = false;
  bool TraverseForStmt(ForStmt* s) { return nested(s); }
  bool TraverseWhileStmt(WhileStmt* s) { return nested(s); }
  bool TraverseDoStmt(DoStmt* s) { return nested(s); }
  bool TraverseSwitchStmt(SwitchStmt* s) { return nested(s); }
  bool VisitBreakStmt(BreakStmt*) {
    found = found || depth_ == 0;
    return true;
  }
  bool VisitReturnStmt(ReturnStmt*) {
    found = true;
    return true;
  }

 private:
  template <class S>
  bool nested(S* s) {
    ++depth_;
    for (Stmt* child : s->children()) {
      if (child != nullptr) TraverseStmt(child);
    }
    --depth_;
    return true;
  }
  int depth_ = 0;
};

// Breaks that belong to a switch and do not stand at the end of one of its sections.
class InnerBreaks : public RecursiveASTVisitor<InnerBreaks> {
 public:
  bool found = false;
  bool TraverseForStmt(ForStmt*) { return true; }
  bool TraverseWhileStmt(WhileStmt*) { return true; }
  bool TraverseDoStmt(DoStmt*) { return true; }
  bool TraverseSwitchStmt(SwitchStmt*) { return true; }
  bool VisitBreakStmt(BreakStmt*) {
    found = true;
    return true;
  }
};

bool ends_here(const Stmt* s) { return isa<ReturnStmt, BreakStmt, ContinueStmt>(s); }

}  // namespace

bool Statements::check_signature(const FunctionDecl* f) {
  const int before = parsed_.report.errors();
  const SourceRange at = f->getNameInfo().getSourceRange();
  if (isa<CXXMethodDecl>(f)) {
    parsed_.report.error(at,
                         "'" + f->getNameAsString() + "' is a member function, and a fusion group is a free function",
                         "make it a free function with the members as parameters");
    return false;
  }
  if (!f->doesThisDeclarationHaveABody()) {
    parsed_.report.error(at, "'" + f->getNameAsString() + "' has no body in this file",
                         "define it here, or move TILEWEAVE_FUSION_GROUP to the file that does");
    return false;
  }
  if (f->isInvalidDecl()) {
    if (!parsed_.show_errors_in(f->getSourceRange())) {
      parsed_.report.error(at, "'" + f->getNameAsString() + "' did not parse", "compile the file to see why");
    } else {
      parsed_.report.show(false);
      parsed_.report.error(at, "");
      parsed_.report.show(true);
    }
    return false;
  }
  if (f->isVariadic()) {
    parsed_.report.error(at, "'" + f->getNameAsString() + "' takes any number of arguments (...)",
                         "give it a fixed list of parameters");
  }
  if (f->getNumParams() == 0) {
    parsed_.report.error(at, "'" + f->getNameAsString() + "' has no parameters, so there is nothing to work on",
                         "make it a constexpr variable");
  }
  if (f->getReturnType()->isVoidType()) {
    parsed_.report.error(at,
                         "'" + f->getNameAsString() + "' returns nothing: a fusion group has no effect but its result",
                         "return the result, or a struct of several");
  }
  std::string why;
  if (!f->getReturnType()->isVoidType()) {
    const QualType r = f->getReturnType();
    const auto fields = fields_of(r, context_, why);
    if (r->isReferenceType() || r->isPointerType()) {
      parsed_.report.error(f->getReturnTypeSourceRange(),
                           "'" + f->getNameAsString() + "' returns a " + (r->isPointerType() ? "pointer" : "reference"),
                           "return the value");
    } else if (!fields) {
      parsed_.report.error(f->getReturnTypeSourceRange(),
                           "the result of '" + f->getNameAsString() + "' cannot be an element: " + why,
                           "return float, double, bool, an integer of up to 64 bits, or a plain struct of these");
    } else {
      results_ = *fields;
    }
  }
  for (const ParmVarDecl* p : f->parameters()) {
    const QualType t = p->getType();
    const std::string name = p->getNameAsString().empty() ? "a parameter" : "parameter '" + p->getNameAsString() + "'";
    why.clear();
    if (t->isPointerType() || p->getOriginalType()->isArrayType()) {
      parsed_.report.error(p->getSourceRange(),
                           name + " is a pointer: a fusion group gets the values, not where they stand",
                           "pass the value; a kernel or a tensor expression loads and stores");
    } else if (t->isReferenceType() && !t.getNonReferenceType().isConstQualified()) {
      parsed_.report.error(p->getSourceRange(),
                           name + " is a reference to write through: a fusion group changes nothing outside",
                           "return the result, or a struct of several");
    } else if (!fields_of(t, context_, why)) {
      parsed_.report.error(p->getSourceRange(), name + " cannot be an element: " + why,
                           "use float, double, bool, an integer of up to 64 bits, or a plain struct of these");
    }
  }
  return parsed_.report.errors() == before;
}

void Statements::parameters(const FunctionDecl* f, Body& body, std::vector<std::string>& declared) {
  std::string types, list;
  std::vector<std::pair<std::string, std::string>> copies;
  for (const ParmVarDecl* p : f->parameters()) {
    std::string why;
    const std::vector<Field> fields = *fields_of(p->getType(), context_, why);
    if (p->getNameAsString().empty()) {
      for (const Field& field : fields) {
        types += (types.empty() ? "" : ", ") + field.elem.name;
        list += (list.empty() ? "" : ", ") + std::string("Value<") + field.elem.name + ">";
      }
      continue;
    }
    const std::vector<std::string> names = expressions_.declare(p, fields);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::string& elem = fields[i].elem.name;
      std::string name = names[i];
      if (expressions_.is_mutable(p)) {
        name = expressions_.fresh(names[i] + "_in");
        declared.push_back("Local<" + elem + "> " + names[i] + "(" + name + ");");
      }
      types += (types.empty() ? "" : ", ") + elem;
      list += (list.empty() ? "" : ", ") + std::string("Value<") + elem + "> " + name;
    }
  }
  std::string result;
  if (results_.size() == 1) {
    result = results_[0].elem.name;
  } else {
    for (const Field& r : results_) result += (result.empty() ? "Results<" : ", ") + r.elem.name;
    result += ">";
  }
  body.signature = result + "(" + types + ")";
  body.results = results_;
  body.text.line("using type = " + body.signature + ";");
  if (results_.size() > 1 || !results_[0].name.empty()) {
    std::string classes, members, arguments, passed, kinds;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const std::string k = std::to_string(i), comma = i == 0 ? "" : ", ";
      classes += comma + "class T" + k;
      members += "T" + k + " " + results_[i].name + "; ";
      arguments += comma + "const T" + k + "& v" + k;
      passed += comma + "v" + k;
      kinds += comma + "T" + k;
    }
    body.text.line("template <" + classes + ">");
    body.text.line("struct Fields { " + members + "};");
    body.text.line("template <" + classes + ">");
    body.text.line("static Fields<" + kinds + "> fields(" + arguments + ") { return {" + passed + "}; }");
  }
  body.text.line_at(f->getLocation(), "static void trace(" + list + ") {");
}

std::optional<Body> Statements::function(const FunctionDecl* f, const std::string& name) {
  function_ = f;
  if (!check_signature(f)) return std::nullopt;
  const int before = parsed_.report.errors();
  Assigned assigned;
  assigned.TraverseStmt(f->getBody());
  expressions_.mark_mutable(assigned.variables);
  Body body{name, f->getQualifiedNameAsString(), "", {}, Writer(context_.getSourceManager()), false};
  out_ = &body.text;
  expressions_.emit = [this](SourceLocation at, const std::string& text) { out_->line_at(at, text); };
  body.text.line("struct " + name + " {");
  body.text.open();
  body.text.line("static constexpr std::string_view name = \"" + f->getQualifiedNameAsString() + "\";");
  std::vector<std::string> copies;
  parameters(f, body, copies);
  body.text.open();
  for (const std::string& copy : copies) body.text.line_at(f->getLocation(), copy);
  statement(f->getBody());
  body.text.close();
  body.text.line("}");
  body.text.close();
  body.text.line("};");
  body.text.own_lines();
  if (parsed_.report.errors() != before) return std::nullopt;
  return body;
}

void Statements::statements(llvm::ArrayRef<const Stmt*> list) {
  for (const Stmt* s : list) {
    statement(s);
    if (ends_here(s)) break;  // what follows is never reached
  }
}

// A statement as the inside of a lambda.
void Statements::block_of(const Stmt* s) {
  out_->open();
  if (const auto* c = dyn_cast_or_null<CompoundStmt>(s)) {
    statements(std::vector<const Stmt*>(c->body_begin(), c->body_end()));
  } else if (s != nullptr) {
    statement(s);
  }
  out_->close();
}

void Statements::statement(const Stmt* s) {
  if (const auto* c = dyn_cast<CompoundStmt>(s)) {
    if (s == function_->getBody()) return statements(std::vector<const Stmt*>(c->body_begin(), c->body_end()));
    out_->line_at(s->getBeginLoc(), "{");
    block_of(s);
    out_->line("}");
    return;
  }
  if (const auto* d = dyn_cast<DeclStmt>(s)) return declaration(d);
  if (const auto* i = dyn_cast<IfStmt>(s)) return if_statement(i);
  if (const auto* r = dyn_cast<ReturnStmt>(s)) return return_statement(r);
  if (const auto* l = dyn_cast<ForStmt>(s)) {
    if (l->getConditionVariable() != nullptr) {
      expressions_.refuse(s, "a loop that declares a variable in its condition cannot be part of a fusion group",
                          "declare it before the loop");
      return;
    }
    return loop(s, l->getInit(), l->getCond(), l->getInc(), l->getBody());
  }
  if (const auto* w = dyn_cast<WhileStmt>(s)) {
    if (w->getConditionVariable() != nullptr) {
      expressions_.refuse(s, "a loop that declares a variable in its condition cannot be part of a fusion group",
                          "declare it before the loop");
      return;
    }
    return loop(s, nullptr, w->getCond(), nullptr, w->getBody());
  }
  if (const auto* d = dyn_cast<DoStmt>(s)) return do_loop(d);
  if (const auto* w = dyn_cast<SwitchStmt>(s)) return switch_statement(w);
  if (const auto* a = dyn_cast<AttributedStmt>(s)) return statement(a->getSubStmt());
  if (isa<NullStmt>(s)) return;
  if (isa<BreakStmt>(s)) return out_->line_at(s->getBeginLoc(), "break_();");
  if (isa<ContinueStmt>(s)) return out_->line_at(s->getBeginLoc(), "continue_();");
  if (const auto* e = dyn_cast<Expr>(s)) return expressions_.effect(e);
  if (isa<GotoStmt, LabelStmt, IndirectGotoStmt>(s)) {
    expressions_.refuse(s, "'goto' and labels cannot be part of a fusion group", "use if, loops, break and return");
  } else if (isa<CXXTryStmt>(s)) {
    expressions_.refuse(s, "exceptions cannot be part of a fusion group: lanes do not stop",
                        "return a value that stands for the error, such as NaN");
  } else if (isa<GCCAsmStmt, MSAsmStmt>(s)) {
    expressions_.refuse(s, "inline assembly cannot be part of a fusion group", "write it in C++");
  } else if (isa<CXXForRangeStmt>(s)) {
    expressions_.refuse(s, "a range-based for cannot be part of a fusion group", "count with an index");
  } else if (isa<CoreturnStmt, CoroutineBodyStmt>(s)) {
    expressions_.refuse(s, "a coroutine cannot be a fusion group", "");
  } else {
    expressions_.refuse(s,
                        std::string("this statement cannot be part of a fusion group (") + s->getStmtClassName() + ")",
                        "use if, switch, loops and return");
  }
}

void Statements::declaration(const DeclStmt* s) {
  for (const Decl* d : s->decls()) {
    if (const auto* v = dyn_cast<VarDecl>(d)) {
      variable(v);
    } else if (const auto* b = dyn_cast<DecompositionDecl>(d)) {
      expressions_.refuse(s, "structured bindings cannot be part of a fusion group",
                          "name the struct, and its members where they are used");
      (void)b;
    } else if (!isa<StaticAssertDecl, TypedefNameDecl, EnumDecl, RecordDecl, UsingDecl, UsingDirectiveDecl, EmptyDecl>(
                   d)) {
      expressions_.refuse(s, "this declaration cannot be part of a fusion group", "declare variables of numbers");
    }
  }
}

void Statements::variable(const VarDecl* v) {
  const QualType t = v->getType();
  const SourceRange at = v->getSourceRange();
  if (isa<DecompositionDecl>(v)) {
    parsed_.report.error(at, "structured bindings cannot be part of a fusion group",
                         "name the struct, and use its members");
    return;
  }
  if (v->isConstexpr() || (t.isConstQualified() && v->isStaticLocal())) return;  // folded where it is used
  if (v->isStaticLocal()) {
    parsed_.report.error(at, "'" + v->getNameAsString() + "' is static: a fusion group keeps nothing from call to call",
                         "make it constexpr, or a parameter");
    return;
  }
  if (t.isVolatileQualified()) {
    parsed_.report.error(at, "'" + v->getNameAsString() + "' is volatile: a fusion group has no side effects",
                         "drop volatile");
    return;
  }
  if (t->isReferenceType() && !t.getNonReferenceType().isConstQualified()) {
    parsed_.report.error(at, "'" + v->getNameAsString() + "' is a reference to write through",
                         "use the variable itself");
    return;
  }
  if (t->isReferenceType() && v->getInit() != nullptr && expressions_.follows_assignments(v->getInit())) {
    parsed_.report.error(at, "'" + v->getNameAsString() + "' is a reference to a variable that is assigned to",
                         "copy the value: drop the &");
    return;
  }
  if (t->isArrayType()) {
    parsed_.report.error(at, "'" + v->getNameAsString() + "' is an array, and a lane has no memory to index",
                         "use separate variables, or make the array constexpr");
    return;
  }
  if (t->isPointerType()) {
    parsed_.report.error(at, "'" + v->getNameAsString() + "' is a pointer, which cannot be part of a fusion group",
                         "use the value itself");
    return;
  }
  std::string why;
  const auto fields = fields_of(t, context_, why);
  if (!fields) {
    if (v->isInvalidDecl() && parsed_.show_errors_in(at)) {
      parsed_.report.show(false);
      parsed_.report.error(at, "");
      parsed_.report.show(true);
      return;
    }
    const Expr* init = v->getInit();
    if (init != nullptr && isa<LambdaExpr>(init->IgnoreImplicit())) {
      parsed_.report.error(at, "a lambda cannot be part of a fusion group",
                           "write its body in place, or as a TILEWEAVE_FUSION_GROUP function");
      return;
    }
    parsed_.report.error(at, "'" + v->getNameAsString() + "' cannot be an element: " + why,
                         "use float, double, bool, an integer of up to 64 bits, or a plain struct of these");
    return;
  }
  std::vector<Code> init;
  const Expr* e = v->getInit();
  const auto* built = e != nullptr ? dyn_cast<CXXConstructExpr>(e->IgnoreImplicit()) : nullptr;
  const bool uninitialised = e == nullptr || (built != nullptr && built->getNumArgs() == 0 && !tuple_types(t) &&
                                              v->getInitStyle() == VarDecl::CInit);
  if (!uninitialised) init = expressions_.values(e);
  const std::vector<std::string> names = expressions_.declare(v, *fields);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Elem& elem = (*fields)[i].elem;
    const Code value = i < init.size() ? expressions_.convert(init[i], elem) : Code{elem.name + "(0)", 0, true, elem};
    const bool mutable_variable = expressions_.is_mutable(v);
    out_->line_at(v->getLocation(),
                  mutable_variable
                      ? (in_for_init_ ? "Counter<" : "Local<") + elem.name + "> " + names[i] + "(" + value.text + ");"
                      : "[[maybe_unused]] const Let<" + elem.name + "> " + names[i] + " = " + value.text + ";");
  }
}

std::string Statements::flag(const Expr* e) {
  return expressions_.convert(expressions_.scalar(e), {"bool", 8, false, false, true}).text;
}

void Statements::if_statement(const IfStmt* s) {
  if (s->isConsteval()) {
    expressions_.refuse(s, "'if consteval' cannot be part of a fusion group", "write the code that runs at run time");
    return;
  }
  const bool scoped = s->getInit() != nullptr || s->getConditionVariable() != nullptr;
  if (scoped) {
    out_->line_at(s->getBeginLoc(), "{");
    out_->open();
    if (s->getInit() != nullptr) statement(s->getInit());
    if (s->getConditionVariable() != nullptr) variable(s->getConditionVariable());
  }
  Expr::EvalResult known;
  if (s->isConstexpr() && s->getCond()->EvaluateAsRValue(known, context_) && known.Val.isInt()) {
    const Stmt* taken = known.Val.getInt().getBoolValue() ? s->getThen() : s->getElse();
    if (taken != nullptr) statement(taken);
  } else {
    const std::string head = "if_(" + flag(s->getCond()) + ", [&] {";
    const std::string short_branch = s->getElse() == nullptr ? one_line(s->getThen(), s->getBeginLoc()) : "";
    if (!short_branch.empty() && head.size() + short_branch.size() < 110) {
      out_->line_at(s->getBeginLoc(), head + " " + short_branch + " });");
    } else {
      out_->line_at(s->getBeginLoc(), head);
      block_of(s->getThen());
      if (s->getElse() != nullptr) {
        out_->line("}, [&] {");
        block_of(s->getElse());
      }
      out_->line("});");
    }
  }
  if (scoped) {
    out_->close();
    out_->line("}");
  }
}

// A simple statement on the line of its `if`, as text; "" where it is neither.
std::string Statements::one_line(const Stmt* s, SourceLocation at) {
  const SourceManager& sources = context_.getSourceManager();
  if (sources.getPresumedLineNumber(s->getEndLoc()) != sources.getPresumedLineNumber(at)) return "";
  if (isa<BreakStmt>(s)) return "break_();";
  if (isa<ContinueStmt>(s)) return "continue_();";
  if (!isa<ReturnStmt>(s)) return "";
  Writer text(sources);
  Writer* const before = std::exchange(out_, &text);
  const auto lines = expressions_.captured([&] { statement(s); });
  out_ = before;
  std::string line = text.text();
  line.erase(0, line.find("return_"));
  if (!line.empty() && line.back() == '\n') line.pop_back();
  for (auto l = lines.rbegin(); l != lines.rend(); ++l) line.insert(0, l->second + " ");
  return line.find('\n') == std::string::npos ? line : "";
}

std::string Statements::condition_lambda(const Expr* e) {
  std::string c;
  const auto lines = expressions_.captured([&] { c = flag(e); });
  std::string text = "[&] { ";
  for (const auto& [at, line] : lines) text += line + " ";
  return text + "return Value<bool>(" + c + "); }";
}

void Statements::loop(const Stmt* s, const Stmt* init, const Expr* condition, const Stmt* increment, const Stmt* body) {
  Expr::EvalResult known;
  const bool always = condition == nullptr || (condition->EvaluateAsRValue(known, context_) && known.Val.isInt() &&
                                               known.Val.getInt().getBoolValue());
  Exits exits;
  exits.TraverseStmt(const_cast<Stmt*>(body));
  if (always && !exits.found) {
    expressions_.refuse(s, "this loop never ends: it has no condition, no break and no return", "give it a condition");
    return;
  }
  if (init != nullptr) {
    out_->line_at(s->getBeginLoc(), "{");
    out_->open();
    in_for_init_ = true;
    statement(init);
    in_for_init_ = false;
  }
  const std::string test = condition == nullptr ? "[] { return Value<bool>(true); }" : condition_lambda(condition);
  out_->line_at(s->getBeginLoc(), (increment != nullptr ? "for_(" : "while_(") + test + ", [&] {");
  block_of(body);
  if (increment != nullptr) {
    const auto lines = expressions_.captured([&] { expressions_.effect(cast<Expr>(increment)); });
    std::string step;
    for (const auto& [at, line] : lines) step += line + " ";
    out_->line("}, [&] { " + step + "});");
  } else {
    out_->line("});");
  }
  if (init != nullptr) {
    out_->close();
    out_->line("}");
  }
}

void Statements::do_loop(const DoStmt* s) {
  Expr::EvalResult known;
  Exits exits;
  exits.TraverseStmt(const_cast<Stmt*>(s->getBody()));
  if (s->getCond()->EvaluateAsRValue(known, context_) && known.Val.isInt() && known.Val.getInt().getBoolValue() &&
      !exits.found) {
    expressions_.refuse(s, "this loop never ends: it has no condition, no break and no return", "give it a condition");
    return;
  }
  out_->line_at(s->getBeginLoc(), "do_while([&] {");
  block_of(s->getBody());
  out_->line_at(s->getWhileLoc(), "}, " + condition_lambda(s->getCond()) + ");");
}

// A switch as a chain of branches. A section that falls through goes on with the next ones' statements.
void Statements::switch_statement(const SwitchStmt* s) {
  struct Section {
    std::vector<std::string> labels;
    bool is_default = false;
    std::vector<const Stmt*> list;
  };
  const auto* body = dyn_cast<CompoundStmt>(s->getBody());
  const auto elem = elem_of(s->getCond()->getType(), context_);
  if (body == nullptr || !elem) {
    expressions_.refuse(s, "this switch cannot be part of a fusion group", "give it a body in braces");
    return;
  }
  std::vector<Section> sections;
  const std::function<void(const Stmt*)> add = [&](const Stmt* child) {
    if (const auto* c = dyn_cast<SwitchCase>(child)) {
      if (sections.empty() || !sections.back().list.empty()) sections.emplace_back();
      if (const auto* k = dyn_cast<CaseStmt>(c)) {
        if (k->getRHS() != nullptr) {
          expressions_.refuse(k, "a range of cases cannot be part of a fusion group", "use if");
          return;
        }
        sections.back().labels.push_back(expressions_.scalar(k->getLHS()).text);
      } else {
        sections.back().is_default = true;
      }
      add(c->getSubStmt());
      return;
    }
    if (sections.empty()) return;
    if (const auto* c = dyn_cast<CompoundStmt>(child); c != nullptr && child != body) {  // case 1: { ...; break; }
      for (const Stmt* inner : c->body()) sections.back().list.push_back(inner);
      return;
    }
    sections.back().list.push_back(child);
  };
  for (const Stmt* child : body->body()) add(child);
  // What each section runs: to its break, return or continue.
  bool inner_breaks = false;
  std::vector<std::vector<const Stmt*>> runs;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    std::vector<const Stmt*> run;
    bool ended = false;
    for (std::size_t k = i; k < sections.size() && !ended; ++k) {
      for (const Stmt* each : sections[k].list) {
        ended = ends_here(each);
        if (ended && isa<BreakStmt>(each)) break;
        run.push_back(each);
        if (ended) break;
        InnerBreaks breaks;
        breaks.TraverseStmt(const_cast<Stmt*>(each));
        inner_breaks = inner_breaks || breaks.found;
      }
    }
    runs.push_back(std::move(run));
  }
  const std::string name = expressions_.fresh("chosen");
  out_->line_at(s->getBeginLoc(), "{");
  out_->open();
  if (s->getInit() != nullptr) statement(s->getInit());
  out_->line("const Let<" + elem->name + "> " + name + " = " + expressions_.scalar(s->getCond()).text + ";");
  if (inner_breaks) {
    out_->line("block([&] {");
    out_->open();
  }
  std::size_t open = 0;
  const std::vector<const Stmt*>* otherwise = nullptr;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].is_default) {
      otherwise = &runs[i];
      continue;  // its other labels go the same way
    }
    std::string condition;
    for (const std::string& label : sections[i].labels) {
      const std::string one = name + " == " + label;
      condition += sections[i].labels.size() == 1 ? one : (condition.empty() ? "" : " | ") + ("(" + one + ")");
    }
    out_->line("if_(" + condition + ", [&] {");
    out_->open();
    statements(runs[i]);
    out_->close();
    out_->line("}, [&] {");
    out_->open();
    ++open;
  }
  if (otherwise != nullptr) statements(*otherwise);
  for (; open > 0; --open) {
    out_->close();
    out_->line("});");
  }
  if (inner_breaks) {
    out_->close();
    out_->line("});");
  }
  out_->close();
  out_->line("}");
}

void Statements::return_statement(const ReturnStmt* s) {
  if (s->getRetValue() == nullptr) {
    expressions_.refuse(s, "a return without a value cannot be part of a fusion group", "return the result");
    return;
  }
  std::vector<Code> values = expressions_.values(s->getRetValue());
  for (std::size_t i = 0; i < values.size() && i < results_.size(); ++i)
    values[i] = expressions_.convert(values[i], results_[i].elem);
  if (values.size() == 1) return out_->line_at(s->getBeginLoc(), "return_(" + values[0].text + ");");
  std::string list;
  for (const Code& v : values) list += (list.empty() ? "" : ", ") + v.text;
  out_->line_at(s->getBeginLoc(), "return_({" + list + "});");
}

}  // namespace tileweave::decorator
