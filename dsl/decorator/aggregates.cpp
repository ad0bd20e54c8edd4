// Expressions of several numbers (structs, pairs, tuples), and expressions that stand for their effect alone.
#include "expressions.h"

namespace tileweave::decorator {

using namespace clang;

std::vector<Code> Expressions::values(const Expr* e) {
  if (elem_of(e->getType(), context_)) return {scalar(e)};
  const Expr* inner = e->IgnoreParenImpCasts();
  if (const auto* x = dyn_cast<ExprWithCleanups>(inner)) return values(x->getSubExpr());
  if (const auto* x = dyn_cast<MaterializeTemporaryExpr>(inner)) return values(x->getSubExpr());
  if (const auto* x = dyn_cast<CXXBindTemporaryExpr>(inner)) return values(x->getSubExpr());
  if (const auto* x = dyn_cast<CXXFunctionalCastExpr>(inner)) return values(x->getSubExpr());
  if (const auto* x = dyn_cast<CXXStaticCastExpr>(inner)) return values(x->getSubExpr());
  if (const auto* x = dyn_cast<CXXDefaultInitExpr>(inner)) return values(x->getExpr());
  if (const auto* x = dyn_cast<CompoundLiteralExpr>(inner)) return values(x->getInitializer());
  std::string why;
  const auto fields = fields_of(e->getType(), context_, why);
  if (!fields) {
    refuse(e, why.empty() ? "this value is no number" : why,
           "use numbers, and plain structs, pairs and tuples of them");
    return {};
  }
  if (const auto* l = dyn_cast<InitListExpr>(inner)) {
    std::vector<Code> out;
    const bool in_order = assigns(l);
    for (const Expr* init : l->inits()) {
      for (Code& c : values(init)) out.push_back(in_order ? kept(init, c) : std::move(c));
    }
    return out;
  }
  if (const auto* c = dyn_cast<CXXConstructExpr>(inner)) {
    if (c->getNumArgs() == 1 && c->getConstructor()->isCopyOrMoveConstructor()) return values(c->getArg(0));
    if (c->getNumArgs() == 0) {
      std::vector<Code> out;
      append_default(out, e->getType());
      return out;
    }
    const auto types = tuple_types(e->getType());
    if (types && c->getNumArgs() == types->size()) {
      std::vector<Code> out;
      for (std::size_t i = 0; i < types->size(); ++i) {
        std::vector<Code> part = values(c->getArg(static_cast<unsigned>(i)));
        if (part.size() == 1) {
          if (const auto elem = elem_of((*types)[i], context_)) part[0] = convert(part[0], *elem);
        }
        out.insert(out.end(), part.begin(), part.end());
      }
      return out;
    }
  }
  if (isa<ImplicitValueInitExpr, CXXScalarValueInitExpr>(inner)) {
    std::vector<Code> out;
    for (const Field& f : *fields) out.push_back({f.elem.name + "(0)", 0, true, f.elem});
    return out;
  }
  if (const auto names = lvalue_names(inner); names.size() == fields->size()) {
    std::vector<Code> out;
    for (std::size_t i = 0; i < names.size(); ++i) out.push_back({names[i], 0, false, (*fields)[i].elem});
    return out;
  }
  if (const auto* c = dyn_cast<CallExpr>(inner)) return call(c);
  if (const auto* c = dyn_cast<ConditionalOperator>(inner)) {
    if (assigns(c->getTrueExpr()) || assigns(c->getFalseExpr())) {
      refuse(e, "a choice of '" + e->getType().getAsString() + "' whose sides assign cannot be part of a fusion group",
             "write it as an if statement");
      return {};
    }
    const Code condition = kept(c, convert(scalar(c->getCond()), {"bool", 8, false, false, true}));
    const std::vector<Code> a = values(c->getTrueExpr()), b = values(c->getFalseExpr());
    std::vector<Code> out;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
      out.push_back({"where(" + condition.text + ", " + value(a[i]) + ", " + b[i].text + ")", 0, false, a[i].elem});
    }
    return out;
  }
  refuse(e, "this way to make a '" + e->getType().getAsString() + "' cannot be part of a fusion group",
         "write {a, b, ...}, or a copy");
  return {};
}

// What `T x;` holds: each member's initializer, zero where there is none.
void Expressions::append_default(std::vector<Code>& out, QualType type) {
  const CXXRecordDecl* r = elem_of(type, context_) || tuple_types(type) ? nullptr : type->getAsCXXRecordDecl();
  if (r == nullptr) {
    std::string why;
    const auto fields = fields_of(type, context_, why);
    for (const Field& f : *fields) out.push_back({f.elem.name + "(0)", 0, true, f.elem});
    return;
  }
  for (const FieldDecl* f : r->fields()) {
    if (f->getInClassInitializer() == nullptr) {
      append_default(out, f->getType());
      continue;
    }
    for (Code& c : values(f->getInClassInitializer())) out.push_back(std::move(c));
  }
}

// The value as of now, in a variable of its own.
Code Expressions::kept(const Expr* e, const Code& c) {
  const std::string name = fresh("value");
  emit(e->getBeginLoc(), "const Let<" + c.elem.name + "> " + name + " = " + c.text + ";");
  return {name, 0, false, c.elem};
}

void Expressions::effect(const Expr* e) {
  e = e->IgnoreParens();
  if (const auto* x = dyn_cast<ExprWithCleanups>(e)) return effect(x->getSubExpr());
  if (const auto* c = dyn_cast<CStyleCastExpr>(e); c != nullptr && c->getType()->isVoidType()) return;  // (void)x
  if (const auto* b = dyn_cast<BinaryOperator>(e); b != nullptr && b->getOpcode() == BO_Comma) {
    effect(b->getLHS());
    return effect(b->getRHS());
  }
  // A struct assigned as a whole: each of its numbers.
  if (const auto* o = dyn_cast<CXXOperatorCallExpr>(e);
      o != nullptr && o->getOperator() == OO_Equal && !elem_of(o->getArg(0)->getType(), context_)) {
    const std::vector<std::string> names = lvalue_names(o->getArg(0));
    const std::vector<Code> from = values(o->getArg(1));
    if (names.empty()) {
      refuse(o, "only local variables can be assigned to in a fusion group",
             "use local variables and return the result");
      return;
    }
    std::vector<std::string> temporaries;
    for (std::size_t i = 0; i < names.size() && i < from.size(); ++i) {
      temporaries.push_back(fresh(names[i] + "_new"));
      emit(e->getBeginLoc(), "const Let<" + from[i].elem.name + "> " + temporaries.back() + " = " + from[i].text + ";");
    }
    for (std::size_t i = 0; i < temporaries.size(); ++i)
      emit(e->getBeginLoc(), names[i] + " = " + temporaries[i] + ";");
    return;
  }
  // std::swap of two variables.
  if (const auto* c = dyn_cast<CallExpr>(e)) {
    const FunctionDecl* f = c->getDirectCallee();
    if (f != nullptr && f->isInStdNamespace() && f->getNameAsString() == "swap" && c->getNumArgs() == 2) {
      const std::string a = target(c->getArg(0)), b = target(c->getArg(1));
      const auto elem = elem_of(c->getArg(0)->getType(), context_);
      if (a.empty() || b.empty() || !elem) return;
      const std::string before = fresh(a + "_before");
      emit(e->getBeginLoc(), "const Let<" + elem->name + "> " + before + " = " + a + ";");
      emit(e->getBeginLoc(), a + " = " + b + ";");
      emit(e->getBeginLoc(), b + " = " + before + ";");
      return;
    }
  }
  if (e->getType()->isVoidType()) {
    if (const auto* c = dyn_cast<CallExpr>(e)) {
      call(c);
    } else if (isa<CXXThrowExpr>(e)) {
      scalar(e);
    } else {
      refuse(e, "this statement does nothing that a fusion group could do", "");
    }
    return;
  }
  std::string text;
  if (elem_of(e->getType(), context_)) {
    text = scalar(e).text;
  } else {
    if (const auto* c = dyn_cast<CallExpr>(e)) {
      call(c);
    } else {
      values(e);
    }
    return;
  }
  if (is_pure(e)) return;  // computed for nothing
  if (text.size() > 2 && text.front() == '(' && text.back() == ')') text = text.substr(1, text.size() - 2);
  emit(e->getBeginLoc(), text + ";");
}

}  // namespace tileweave::decorator
