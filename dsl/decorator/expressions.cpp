// Expressions of one number: constants, casts, operators, variables, members, arrays of constants.
#include "expressions.h"

#include "clang/AST/RecursiveASTVisitor.h"
#include "clang/Lex/Lexer.h"
#include "llvm/ADT/StringExtras.h"

namespace tileweave::decorator {

using namespace clang;

namespace {

// How tightly C++ operators bind: lower binds tighter.
int binding(BinaryOperatorKind op) {
  switch (op) {
    case BO_Mul:
    case BO_Div:
    case BO_Rem:
      return 3;
    case BO_Add:
    case BO_Sub:
      return 4;
    case BO_Shl:
    case BO_Shr:
      return 5;
    case BO_LT:
    case BO_GT:
    case BO_LE:
    case BO_GE:
      return 7;
    case BO_EQ:
    case BO_NE:
      return 8;
    case BO_And:
      return 9;
    case BO_Xor:
      return 10;
    case BO_Or:
      return 11;
    default:
      return 100;
  }
}

// An operand of the binary operator that binds as `binds`: in parentheses where C++ needs them, and where compilers ask
// for them (-Wparentheses): an operator beside a different bitwise or shift operator, a comparison within a comparison.
std::string operand_of(const Code& c, int binds, bool is_left) {
  const bool is_bitwise = binds == 5 || (binds >= 9 && binds <= 11), is_comparison = binds == 7 || binds == 8;
  const bool is_plain = c.binds <= 1 || (is_left && c.binds == binds && !is_comparison);
  const bool asks = (is_bitwise && !is_plain) || (is_comparison && (c.binds == 7 || c.binds == 8));
  return asks ? "(" + c.text + ")" : Expressions::operand(c, is_left ? binds : binds - 1);
}

std::string float_text(llvm::APFloat v, const Elem& elem) {
  const std::string limits = "std::numeric_limits<" + elem.name + ">::";
  if (v.isNaN()) return limits + "quiet_NaN()";
  if (v.isInfinity()) return (v.isNegative() ? "-" : "") + limits + "infinity()";
  llvm::SmallString<40> text;
  v.toString(text, 0, 4);
  std::string s(text);
  for (char& c : s) {
    if (c == 'E') c = 'e';
  }
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  if (elem.name == "float") s += "f";
  return s;
}

std::string integer_text(const llvm::APSInt& v, const Elem& elem) {
  if (elem.is_bool) return v.isZero() ? "false" : "true";
  if (elem.bits == 64 && v.isSigned() && v.isMinSignedValue()) return "std::numeric_limits<std::int64_t>::min()";
  if (elem.bits == 32 && v.isSigned() && v.isMinSignedValue()) return "std::numeric_limits<int>::min()";
  std::string s = llvm::toString(v, 10);
  if (!elem.is_signed) s += "u";
  if (elem.bits == 64) s += "L";
  return s;
}

// A token of the user's that can stand in generated code as it is: a literal outside of macros.
std::string spelling(const Expr* e, const ASTContext& context) {
  if (!isa<FloatingLiteral, IntegerLiteral, CXXBoolLiteralExpr>(e) || e->getBeginLoc().isMacroID()) return "";
  return Lexer::getSourceText(CharSourceRange::getTokenRange(e->getSourceRange()), context.getSourceManager(),
                              context.getLangOpts())
      .str();
}

// What an expression does besides giving its value: assignments, and calls that are worth leaving out.
class Effects : public RecursiveASTVisitor<Effects> {
 public:
  bool VisitBinaryOperator(BinaryOperator* b) {
    assigns = assigns || b->isAssignmentOp() || b->getOpcode() == BO_Comma;
    return !assigns;
  }
  bool VisitUnaryOperator(UnaryOperator* u) {
    assigns = assigns || u->isIncrementDecrementOp();
    return !assigns;
  }
  bool VisitCallExpr(CallExpr* c) {
    calls = calls || is_decorated(c->getDirectCallee());
    return true;
  }
  bool assigns = false, calls = false;
};

// The variables that an expression names, and those among them that it may assign to.
class Variables : public RecursiveASTVisitor<Variables> {
 public:
  bool VisitDeclRefExpr(DeclRefExpr* d) {
    if (const auto* v = dyn_cast<VarDecl>(d->getDecl())) named.insert(v->getCanonicalDecl());
    return true;
  }
  bool VisitBinaryOperator(BinaryOperator* b) { return !b->isAssignmentOp() || note(b->getLHS()); }
  bool VisitUnaryOperator(UnaryOperator* u) { return !u->isIncrementDecrementOp() || note(u->getSubExpr()); }
  std::set<const VarDecl*> named, assigned;

 private:
  bool note(const Expr* target) {
    Variables within;
    within.TraverseStmt(const_cast<Expr*>(target));
    assigned.insert(within.named.begin(), within.named.end());
    return true;
  }
};

Variables variables_of(const Expr* e) {
  Variables v;
  v.TraverseStmt(const_cast<Expr*>(e));
  return v;
}

}  // namespace

void Expressions::refuse(const Stmt* s, const std::string& message, const std::string& help) {
  // Code that Clang could not parse either: its message says more.
  if (const auto* e = llvm::dyn_cast<Expr>(s); e != nullptr && e->containsErrors()) {
    if (parsed_.show_errors_in(s->getSourceRange())) {
      parsed_.report.show(false);
      parsed_.report.error(s->getSourceRange(), "");
      parsed_.report.show(true);
      return;
    }
  }
  parsed_.report.error(s->getSourceRange(), message, help);
}

Code Expressions::placeholder(const Expr* e) {
  Elem elem{"float", 32, true, true, false};
  if (const auto known = elem_of(e->getType(), context_)) elem = *known;
  return {"0", 0, true, elem};
}

std::string Expressions::fresh(const std::string& stem) {
  // Names that generated code uses itself.
  static const std::set<std::string> taken{"op",     "cpp",    "to",        "if_",     "for_",     "while_",   "where",
                                           "call",   "Let",    "Local",     "Counter", "Value",    "choose",   "table",
                                           "block",  "break_", "continue_", "return_", "do_while", "bit_cast", "std",
                                           "trace",  "name",   "type",      "fields",  "Fields",   "f16",      "bf16",
                                           "f8e4m3", "f8e5m2", "bodies",    "fused",   "tileweave"};
  int& n = used_[stem];
  ++n;
  if (n == 1 && !taken.contains(stem)) return stem;
  const std::string candidate = stem + "_" + std::to_string(n);
  if (used_.contains(candidate)) return fresh(stem);
  used_[candidate] = 1;
  return candidate;
}

std::vector<std::string> Expressions::declare(const VarDecl* v, const std::vector<Field>& fields) {
  std::vector<std::string> names;
  for (const Field& f : fields) {
    names.push_back(fresh(f.name.empty() ? v->getNameAsString() : v->getNameAsString() + "_" + f.name));
  }
  names_[v->getCanonicalDecl()] = names;
  return names;
}

std::vector<std::pair<SourceLocation, std::string>> Expressions::captured(const std::function<void()>& run) {
  std::vector<std::pair<SourceLocation, std::string>> lines;
  const auto before = emit;
  emit = [&](SourceLocation at, const std::string& text) { lines.emplace_back(at, text); };
  run();
  emit = before;
  return lines;
}

Code Expressions::literal(const APValue& v, const Elem& elem, const Expr* e) {
  Code c{"", 0, true, elem};
  if (const std::string s = spelling(e, context_); !s.empty()) {
    c.text = s;
    return c;
  }
  if (v.isFloat()) {
    c.text = float_text(v.getFloat(), elem);
  } else if (elem.is_float && v.isInt()) {
    c.text = llvm::toString(v.getInt(), 10);
  } else {
    c.text = integer_text(v.getInt(), elem);
  }
  if (c.text.starts_with("-")) c.binds = 1;
  // Which of the user's names it was.
  if (const auto* d = dyn_cast<DeclRefExpr>(e->IgnoreParenImpCasts()))
    c.text += " /* " + d->getDecl()->getNameAsString() + " */";
  return c;
}

// A value that C++ knows, folded by Clang. Reads of the function's own variables are none.
std::optional<Code> Expressions::constant(const Expr* e) {
  if (e->isValueDependent() || e->containsErrors() || !e->isPRValue()) return std::nullopt;
  const auto elem = elem_of(e->getType(), context_);
  if (!elem || e->getType()->isRecordType()) return std::nullopt;
  Expr::EvalResult r;
  if (!e->EvaluateAsRValue(r, context_) || r.HasSideEffects || (!r.Val.isInt() && !r.Val.isFloat()))
    return std::nullopt;
  return literal(r.Val, *elem, e);
}

Code Expressions::convert(Code c, const Elem& to) const {
  if (c.elem == to) return c;
  if (c.constant) {
    c.text = to.name + "(" + c.text + ")";
  } else {
    c.text = "to<" + to.name + ">(" + c.text + ")";
  }
  c.binds = 0;
  c.elem = to;
  return c;
}

bool Expressions::is_pure(const Expr* e) const {
  Effects effects;
  effects.TraverseStmt(const_cast<Expr*>(e));
  return !effects.assigns && !effects.calls;
}

bool Expressions::assigns(const Expr* e) const {
  Effects effects;
  effects.TraverseStmt(const_cast<Expr*>(e));
  return effects.assigns;
}

// Whether what follows reads what the first operand assigns to: then it has to be computed after it, and in generated
// code operands of & and arguments have no order.
bool Expressions::changes(const Expr* first, llvm::ArrayRef<const Expr*> rest) const {
  const std::set<const VarDecl*> assigned = variables_of(first).assigned;
  return !assigned.empty() && llvm::any_of(rest, [&](const Expr* e) {
    return llvm::any_of(variables_of(e).named, [&](const VarDecl* v) { return assigned.contains(v); });
  });
}

bool Expressions::follows_assignments(const Expr* bound) const {
  if (const auto* x = dyn_cast<ExprWithCleanups>(bound)) bound = x->getSubExpr();
  if (isa<MaterializeTemporaryExpr>(bound)) return false;
  return llvm::any_of(variables_of(bound).named, [&](const VarDecl* v) { return is_mutable(v); });
}

// The expression as a lambda that runs its statements and gives its value.
std::string Expressions::in_lambda(const Expr* e, const Elem& elem) {
  Code c;
  const auto lines = captured([&] { c = convert(scalar(e), elem); });
  std::string text = "[&] { ";
  for (const auto& [at, line] : lines) text += line + " ";
  return text + "return Value<" + elem.name + ">(" + c.text + "); }";
}

Code Expressions::scalar(const Expr* e) {
  if (auto c = constant(e)) return *c;
  const auto elem = elem_of(e->getType(), context_);
  if (const auto* p = dyn_cast<ParenExpr>(e)) return scalar(p->getSubExpr());
  if (const auto* x = dyn_cast<ConstantExpr>(e)) return scalar(x->getSubExpr());
  if (const auto* x = dyn_cast<ExprWithCleanups>(e)) return scalar(x->getSubExpr());
  if (const auto* x = dyn_cast<MaterializeTemporaryExpr>(e)) return scalar(x->getSubExpr());
  if (const auto* x = dyn_cast<CXXBindTemporaryExpr>(e)) return scalar(x->getSubExpr());
  if (const auto* x = dyn_cast<SubstNonTypeTemplateParmExpr>(e)) return scalar(x->getReplacement());
  if (const auto* x = dyn_cast<CXXDefaultArgExpr>(e)) return scalar(x->getExpr());
  if (const auto* x = dyn_cast<InitListExpr>(e); x != nullptr && elem && x->getNumInits() == 1)
    return scalar(x->getInit(0));
  if (isa<ImplicitValueInitExpr, CXXScalarValueInitExpr>(e) && elem) return {elem->name + "(0)", 0, true, *elem};
  if (const auto* b = dyn_cast<BuiltinBitCastExpr>(e); b != nullptr && elem) {
    const Code from = scalar(b->getSubExpr());
    return {"bit_cast<" + elem->name + ">(" + value(from) + ")", 0, false, *elem};
  }
  if (const auto* c = dyn_cast<CastExpr>(e)) return cast(c);
  if (const auto* u = dyn_cast<UnaryOperator>(e)) return unary(u);
  if (const auto* b = dyn_cast<BinaryOperator>(e)) return binary(b);
  if (const auto* c = dyn_cast<AbstractConditionalOperator>(e)) return select(c);
  if (const auto* d = dyn_cast<DeclRefExpr>(e)) return variable(d);
  if (const auto* m = dyn_cast<MemberExpr>(e)) return member(m);
  if (const auto* a = dyn_cast<ArraySubscriptExpr>(e)) return element(e, a->getBase(), a->getIdx());
  if (const auto* c = dyn_cast<CXXConstructExpr>(e); c != nullptr && elem && c->getNumArgs() == 1) {
    const Code from = scalar(c->getArg(0));  // a narrow float of a float
    return from.elem == *elem ? from : convert(convert(from, {"float", 32, true, true, false}), *elem);
  }
  if (const auto* c = dyn_cast<CallExpr>(e)) {
    std::vector<Code> r = call(c);
    if (r.size() == 1) return r[0];
    return placeholder(e);
  }
  if (isa<LambdaExpr>(e)) {
    refuse(e, "a lambda cannot be part of a fusion group",
           "write its body in place, or as a TILEWEAVE_FUSION_GROUP function");
  } else if (isa<CXXThrowExpr>(e)) {
    refuse(e, "'throw' cannot be part of a fusion group: lanes do not stop",
           "return a value that stands for the error, such as NaN");
  } else if (isa<CXXNewExpr, CXXDeleteExpr>(e)) {
    refuse(e, "memory is not allocated in a fusion group", "use local variables");
  } else if (isa<StringLiteral, PredefinedExpr>(e)) {
    refuse(e, "a string is no number", "a fusion group works on numbers only");
  } else if (isa<StmtExpr>(e)) {
    refuse(e, "a statement expression cannot be part of a fusion group",
           "write its statements before, or a function of their own");
  } else if (isa<CXXThisExpr>(e)) {
    refuse(e, "'this' cannot be part of a fusion group", "make it a free function with the members as parameters");
  } else if (isa<CXXTypeidExpr>(e)) {
    refuse(e, "run-time types cannot be part of a fusion group", "");
  } else {
    refuse(e, std::string("this kind of expression cannot be part of a fusion group (") + e->getStmtClassName() + ")",
           "use arithmetic, comparisons, conditions, loops and functions of numbers");
  }
  return placeholder(e);
}

Code Expressions::cast(const CastExpr* e) {
  const auto to = elem_of(e->getType(), context_);
  switch (e->getCastKind()) {
    case CK_LValueToRValue:
    case CK_NoOp:
    case CK_ConstructorConversion:
      return scalar(e->getSubExpr());
    case CK_UserDefinedConversion:
      return to ? convert(scalar(e->getSubExpr()), *to) : placeholder(e);
    case CK_IntegralCast:
    case CK_BooleanToSignedIntegral:
    case CK_FloatingCast:
    case CK_IntegralToFloating:
    case CK_FloatingToIntegral:
    case CK_IntegralToBoolean:
    case CK_FloatingToBoolean: {
      if (!to) {
        refuse(e, "'" + e->getType().getAsString() + "' is no element type",
               "use float, double, bool or an integer of up to 64 bits");
        return placeholder(e);
      }
      return convert(scalar(e->getSubExpr()), *to);
    }
    case CK_PointerToIntegral:
    case CK_IntegralToPointer:
    case CK_PointerToBoolean:
    case CK_BitCast:
    case CK_LValueBitCast:
    case CK_ArrayToPointerDecay:
    case CK_NullToPointer:
    case CK_ReinterpretMemberPointer:
      refuse(e, "pointers cannot be part of a fusion group",
             isa<CXXReinterpretCastExpr>(e) || e->getCastKind() == CK_LValueBitCast
                 ? "to see a number's bits use std::bit_cast"
                 : "pass the value itself");
      return placeholder(e);
    default:
      refuse(e, std::string("this conversion cannot be part of a fusion group (") + e->getCastKindName() + ")",
             "convert between numbers only");
      return placeholder(e);
  }
}

Code Expressions::unary(const UnaryOperator* e) {
  const auto elem = elem_of(e->getType(), context_);
  switch (e->getOpcode()) {
    case UO_Plus:
    case UO_Extension:
      return scalar(e->getSubExpr());
    case UO_Minus:
    case UO_Not: {
      const Code c = scalar(e->getSubExpr());
      return {(e->getOpcode() == UO_Minus ? "-" : "~") + (c.constant ? value(c) : operand(c, 0)), 1, false, c.elem};
    }
    case UO_LNot: {
      const Code c = convert(scalar(e->getSubExpr()), {"bool", 8, false, false, true});
      const Code negated{"!" + (c.constant ? value(c) : operand(c, 0)), 1, false, c.elem};
      return elem ? convert(negated, *elem) : negated;
    }
    case UO_PreInc:
    case UO_PreDec:
    case UO_PostInc:
    case UO_PostDec: {
      const std::string name = target(e->getSubExpr());
      if (name.empty() || !elem) return placeholder(e);
      const std::string one = e->isIncrementOp() ? "1" : "-1";
      if (e->isPostfix()) return {name + ".postfix(" + elem->name + "(" + one + "))", 0, false, *elem};
      return {"(" + name + (e->isIncrementOp() ? " += " : " -= ") + elem->name + "(1))", 0, false, *elem};
    }
    case UO_Deref:
    case UO_AddrOf:
      refuse(e, "pointers cannot be part of a fusion group", "pass the value itself");
      return placeholder(e);
    default:
      refuse(e, "this operator cannot be part of a fusion group", "use arithmetic on real numbers");
      return placeholder(e);
  }
}

Code Expressions::binary(const BinaryOperator* e) {
  if (e->isAssignmentOp()) return assignment(e);
  if (e->isLogicalOp()) return logical(e);
  if (e->getOpcode() == BO_Comma) {
    effect(e->getLHS());
    return scalar(e->getRHS());
  }
  const int binds = binding(e->getOpcode());
  const auto elem = elem_of(e->getType(), context_);
  if (binds == 100 || !elem || !elem_of(e->getLHS()->getType(), context_)) {
    if (e->getLHS()->getType()->isPointerType() || e->getRHS()->getType()->isPointerType()) {
      refuse(e, "pointers cannot be part of a fusion group", "pass the value itself");
    } else if (e->getOpcode() == BO_Cmp) {
      refuse(e, "'<=>' cannot be part of a fusion group", "compare with <, == and the like");
    } else {
      refuse(e, "this operator cannot be part of a fusion group on '" + e->getLHS()->getType().getAsString() + "'",
             "use float, double, bool or an integer of up to 64 bits");
    }
    return placeholder(e);
  }
  Code a = scalar(e->getLHS()), b = scalar(e->getRHS());
  if (e->isShiftOp()) b = convert(b, a.elem);
  if (!(a.elem == b.elem)) b = convert(b, a.elem);
  const std::string left = a.constant && b.constant ? value(a) : operand_of(a, binds, true);
  return {left + " " + e->getOpcodeStr().str() + " " + operand_of(b, binds, false), binds, false, *elem};
}

Code Expressions::logical(const BinaryOperator* e) {
  const Elem flag{"bool", 8, false, false, true};
  const auto elem = elem_of(e->getType(), context_);
  const bool is_and = e->getOpcode() == BO_LAnd;
  const Code a = convert(scalar(e->getLHS()), flag);
  Code r;
  if (is_pure(e->getRHS()) && !changes(e->getLHS(), e->getRHS())) {
    const Code b = convert(scalar(e->getRHS()), flag);
    const int binds = is_and ? 9 : 11;
    // Comparisons in parentheses, as people write them beside & and |.
    const auto side = [&](const Code& c) {
      return c.constant ? value(c) : c.binds > 1 && c.binds != binds ? "(" + c.text + ")" : operand(c, binds);
    };
    r = {side(a) + (is_and ? " & " : " | ") + side(b), binds, false, flag};
  } else {
    const std::string other = "[] { return Value<bool>(" + std::string(is_and ? "false" : "true") + "); }";
    const std::string rest = in_lambda(e->getRHS(), flag);
    r = {"choose(" + value(a) + ", " + (is_and ? rest + ", " + other : other + ", " + rest) + ")", 0, false, flag};
  }
  return elem ? convert(r, *elem) : r;
}

Code Expressions::select(const AbstractConditionalOperator* e) {
  const auto elem = elem_of(e->getType(), context_);
  if (isa<BinaryConditionalOperator>(e)) {
    refuse(e, "'?:' without its middle operand cannot be part of a fusion group", "write the condition and the value");
    return placeholder(e);
  }
  if (!elem) {
    refuse(e, "'" + e->getType().getAsString() + "' is no number", "choose numbers");
    return placeholder(e);
  }
  const Code c = convert(scalar(e->getCond()), {"bool", 8, false, false, true});
  if (is_pure(e->getTrueExpr()) && is_pure(e->getFalseExpr()) &&
      !changes(e->getCond(), {e->getTrueExpr(), e->getFalseExpr()})) {
    const Code a = convert(scalar(e->getTrueExpr()), *elem), b = convert(scalar(e->getFalseExpr()), *elem);
    return {"where(" + c.text + ", " + value(a) + ", " + b.text + ")", 0, false, *elem};
  }
  return {
      "choose(" + c.text + ", " + in_lambda(e->getTrueExpr(), *elem) + ", " + in_lambda(e->getFalseExpr(), *elem) + ")",
      0, false, *elem};
}

std::vector<std::string> Expressions::lvalue_names(const Expr* e) {
  e = e->IgnoreParenImpCasts();
  if (const auto* d = dyn_cast<DeclRefExpr>(e)) {
    const auto at = names_.find(d->getDecl()->getCanonicalDecl());
    return at == names_.end() ? std::vector<std::string>{} : at->second;
  }
  if (const auto* m = dyn_cast<MemberExpr>(e)) {
    std::vector<std::string> all = lvalue_names(m->getBase());
    const auto* field = dyn_cast<FieldDecl>(m->getMemberDecl());
    if (all.empty() || field == nullptr) return {};
    std::optional<Slice> s = slice_of(field, context_);
    if (const auto types = tuple_types(QualType(field->getParent()->getTypeForDecl(), 0));
        types && types->size() == 2) {
      std::string why;
      const auto first = fields_of((*types)[0], context_, why), second = fields_of((*types)[1], context_, why);
      if (first && second) {
        s = field->getName() == "first" ? Slice{0, first->size()} : Slice{first->size(), second->size()};
      }
    }
    if (!s || s->first + s->count > all.size()) return {};
    return {all.begin() + static_cast<std::ptrdiff_t>(s->first),
            all.begin() + static_cast<std::ptrdiff_t>(s->first + s->count)};
  }
  return {};
}

std::string Expressions::target(const Expr* lvalue) {
  const std::vector<std::string> names = lvalue_names(lvalue);
  if (names.size() == 1) return names[0];
  const Expr* e = lvalue->IgnoreParenImpCasts();
  if (const auto* d = dyn_cast<DeclRefExpr>(e)) {
    refuse(lvalue,
           "'" + d->getDecl()->getNameAsString() +
               "' is not a variable of the function: a fusion group changes nothing outside",
           "return the value instead");
  } else if (isa<ArraySubscriptExpr, UnaryOperator>(e)) {
    refuse(lvalue, "memory is not written in a fusion group", "use local variables and return the result");
  } else {
    refuse(lvalue, "only local variables can be assigned to in a fusion group",
           "use local variables and return the result");
  }
  return "";
}

Code Expressions::assignment(const BinaryOperator* e) {
  const auto elem = elem_of(e->getType(), context_);
  const std::string name = target(e->getLHS());
  if (name.empty() || !elem) {
    scalar(e->getRHS());
    return placeholder(e);
  }
  Code rhs = scalar(e->getRHS());
  if (const auto* c = dyn_cast<CompoundAssignOperator>(e)) {
    const auto computed = elem_of(c->getComputationLHSType(), context_);
    const std::string symbol =
        BinaryOperator::getOpcodeStr(BinaryOperator::getOpForCompoundAssignment(e->getOpcode())).str();
    if (!computed) {
      refuse(e, "'" + c->getComputationLHSType().getAsString() + "' is no element type",
             "use float, double, bool or an integer");
      return placeholder(e);
    }
    rhs = convert(rhs, *computed);
    if (*computed == *elem) return {"(" + name + " " + symbol + "= " + rhs.text + ")", 0, false, *elem};
    const int binds = binding(BinaryOperator::getOpForCompoundAssignment(e->getOpcode()));
    const Code sum{"to<" + computed->name + ">(" + name + ") " + symbol + " " + operand_of(rhs, binds, false), binds,
                   false, *computed};
    return {"(" + name + " = " + convert(sum, *elem).text + ")", 0, false, *elem};
  }
  return {"(" + name + " = " + convert(rhs, *elem).text + ")", 0, false, *elem};
}

Code Expressions::variable(const DeclRefExpr* e) {
  const auto elem = elem_of(e->getType(), context_);
  const auto at = names_.find(e->getDecl()->getCanonicalDecl());
  if (at != names_.end() && at->second.size() == 1 && elem) return {at->second[0], 0, false, *elem};
  if (const auto* v = dyn_cast<VarDecl>(e->getDecl())) {
    if (const APValue* known = v->getType().isConstQualified() && v->getInit() != nullptr && !v->isInvalidDecl()
                                   ? v->evaluateValue()
                                   : nullptr;
        known != nullptr && elem && (known->isInt() || known->isFloat())) {
      return literal(*known, *elem, e);
    }
    if (v->hasGlobalStorage()) {
      refuse(e,
             "'" + v->getNameAsString() + "' is a variable outside of the function, which a fusion group does not read",
             v->getType().isConstQualified() ? "make it constexpr" : "pass it as a parameter");
      return placeholder(e);
    }
    if (v->isInvalidDecl() && parsed_.show_errors_in(v->getSourceRange())) return placeholder(e);
  }
  if (at == names_.end() && isa<VarDecl>(e->getDecl())) return placeholder(e);  // its declaration has been refused
  refuse(e, "'" + e->getDecl()->getNameAsString() + "' is no number", "a fusion group works on numbers only");
  return placeholder(e);
}

Code Expressions::member(const MemberExpr* e) {
  const auto elem = elem_of(e->getType(), context_);
  const std::vector<std::string> names = lvalue_names(e);
  if (names.size() == 1 && elem) return {names[0], 0, false, *elem};
  if (e->isArrow()) {
    refuse(e, "pointers cannot be part of a fusion group", "pass the value itself");
    return placeholder(e);
  }
  if (const auto* field = dyn_cast<FieldDecl>(e->getMemberDecl())) {
    const Expr* base = e->getBase()->IgnoreParens();
    if (!isa<DeclRefExpr, MemberExpr>(base)) {
      const std::vector<Code> all = values(base);
      const auto s = slice_of(field, context_);
      if (s && s->count == 1 && s->first < all.size()) return all[s->first];
    }
  }
  if (const auto* base = dyn_cast<DeclRefExpr>(e->getBase()->IgnoreParenImpCasts());
      base == nullptr || !names_.contains(base->getDecl()->getCanonicalDecl())) {
    refuse(e, "only members of the function's own structs can be read in a fusion group",
           "pass the value as a parameter");
  }
  return placeholder(e);
}

// array[index], the array constexpr: its elements stand in the generated code.
Code Expressions::element(const Expr* e, const Expr* array, const Expr* index) {
  const auto elem = elem_of(e->getType(), context_);
  const auto* d = dyn_cast<DeclRefExpr>(array->IgnoreParenImpCasts());
  const auto* v = d != nullptr ? dyn_cast<VarDecl>(d->getDecl()) : nullptr;
  const APValue* known =
      v != nullptr && v->getType().isConstQualified() && v->getInit() != nullptr ? v->evaluateValue() : nullptr;
  if (known != nullptr && known->isStruct() && known->getStructNumFields() == 1)
    known = &known->getStructField(0);  // std::array
  if (known == nullptr || !known->isArray() || !elem) {
    if (v != nullptr && v->getType()->isPointerType()) {
      refuse(e, "pointers cannot be part of a fusion group", "a kernel loads; the group gets the values");
    } else {
      refuse(e, "only constexpr arrays of numbers can be read in a fusion group",
             "use separate variables, or make the array constexpr");
    }
    return placeholder(e);
  }
  constexpr unsigned longest = 256;
  if (known->getArraySize() > longest) {
    refuse(e,
           "an array of " + std::to_string(known->getArraySize()) +
               " constants is too long for a fusion group, which holds up to " + std::to_string(longest),
           "compute the value, or gather it in a kernel");
    return placeholder(e);
  }
  std::string list;
  for (unsigned i = 0; i < known->getArraySize(); ++i) {
    const APValue& one =
        i < known->getArrayInitializedElts() ? known->getArrayInitializedElt(i) : known->getArrayFiller();
    if (!one.isInt() && !one.isFloat()) {
      refuse(e, "only constexpr arrays of numbers can be read in a fusion group", "use an array of one dimension");
      return placeholder(e);
    }
    list +=
        (i == 0 ? "" : ", ") + (one.isFloat() ? float_text(one.getFloat(), *elem) : integer_text(one.getInt(), *elem));
  }
  const Code at = scalar(index);
  return {"table<" + elem->name + ">({" + list + "}, " + value(at) + ")", 0, false, *elem};
}

}  // namespace tileweave::decorator
