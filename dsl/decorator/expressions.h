// Translates expressions of a decorated function into text over trace::Value.
// Below statements.h; what cannot be translated is reported and gives a placeholder, so that one run reports all.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "clang/AST/Expr.h"
#include "clang/AST/ExprCXX.h"
#include "source.h"
#include "types.h"

namespace tileweave::decorator {

// A scalar in generated code.
struct Code {
  std::string text;
  int binds = 0;  // precedence of its outermost operator: 0 primary, 1 unary, as in `binding` of expressions.cpp
  bool constant = false;  // a C++ number, no trace::Value yet
  Elem elem;
};

// Which functions a body calls, and what their text is called.
class Callees {
 public:
  virtual ~Callees() = default;
  // The name of the body of a decorated function; "" where it cannot be called (reported).
  virtual std::string body_name(const clang::FunctionDecl* f, clang::SourceRange at) = 0;
};

class Expressions {
 public:
  Expressions(Parsed& parsed, Callees& callees) : parsed_(parsed), context_(parsed.context), callees_(callees) {}

  Code scalar(const clang::Expr* e);
  // The scalars of a value of any supported type.
  std::vector<Code> values(const clang::Expr* e);
  // An expression whose value is not used: assignments, calls. Gives statements.
  void effect(const clang::Expr* e);

  // The names of a variable's scalars.
  std::vector<std::string> declare(const clang::VarDecl* v, const std::vector<Field>& fields);
  bool is_declared(const clang::VarDecl* v) const { return names_.contains(v->getCanonicalDecl()); }
  void mark_mutable(const std::set<const clang::VarDecl*>& variables) { mutable_ = variables; }
  bool is_mutable(const clang::VarDecl* v) const { return mutable_.contains(v->getCanonicalDecl()); }
  // Whether a reference bound to this would see a variable change.
  bool follows_assignments(const clang::Expr* bound) const;

  // Lines that must come before the expression in hand.
  std::function<void(clang::SourceLocation, const std::string&)> emit;
  std::string fresh(const std::string& stem);
  // Text as an operand that binds at least as tightly as `binds`; as a trace::Value even where it is a number.
  static std::string operand(const Code& c, int binds) { return c.binds > binds ? "(" + c.text + ")" : c.text; }
  static std::string value(const Code& c, int binds = 100) {
    return c.constant ? "Value<" + c.elem.name + ">(" + c.text + ")" : operand(c, binds);
  }
  Code convert(Code c, const Elem& to) const;
  // What `capture` emits while it runs, as lines of their own.
  std::vector<std::pair<clang::SourceLocation, std::string>> captured(const std::function<void()>& run);
  void refuse(const clang::Stmt* s, const std::string& message, const std::string& help);

 private:
  using Args = llvm::ArrayRef<const clang::Expr*>;

  std::optional<Code> constant(const clang::Expr* e);
  Code literal(const clang::APValue& v, const Elem& elem, const clang::Expr* e);
  Code cast(const clang::CastExpr* e);
  Code unary(const clang::UnaryOperator* e);
  Code binary(const clang::BinaryOperator* e);
  Code logical(const clang::BinaryOperator* e);
  Code assignment(const clang::BinaryOperator* e);
  Code select(const clang::AbstractConditionalOperator* e);
  Code variable(const clang::DeclRefExpr* e);
  Code member(const clang::MemberExpr* e);
  Code element(const clang::Expr* e, const clang::Expr* array, const clang::Expr* index);
  Code placeholder(const clang::Expr* e);

  std::vector<Code> call(const clang::CallExpr* e);
  std::optional<std::vector<Code>> decorated_call(const clang::CallExpr* e, const clang::FunctionDecl* f);
  std::optional<std::vector<Code>> library_call(const clang::CallExpr* e, const clang::FunctionDecl* f);
  std::optional<std::vector<Code>> operation_call(const clang::CallExpr* e);
  std::optional<Code> math_call(const clang::CallExpr* e, llvm::StringRef name, const Elem& result);
  std::optional<std::vector<Code>> make_tuple_like(const clang::CallExpr* e, llvm::StringRef name);
  void refuse_call(const clang::CallExpr* e, const clang::FunctionDecl* f);
  Code apply(const std::string& function, const std::vector<Code>& arguments, const Elem& result);

  // The name that an lvalue writes to; "" where it is none of the function's variables.
  std::string target(const clang::Expr* lvalue);
  std::vector<std::string> lvalue_names(const clang::Expr* e);
  bool is_pure(const clang::Expr* e) const;
  bool assigns(const clang::Expr* e) const;
  bool changes(const clang::Expr* first, llvm::ArrayRef<const clang::Expr*> rest) const;
  std::string in_lambda(const clang::Expr* e, const Elem& elem);
  Code kept(const clang::Expr* e, const Code& c);
  void append_default(std::vector<Code>& out, clang::QualType type);

  Parsed& parsed_;
  clang::ASTContext& context_;
  Callees& callees_;
  std::map<const clang::Decl*, std::vector<std::string>> names_;
  std::set<const clang::VarDecl*> mutable_;
  std::map<std::string, int> used_;
  std::vector<std::pair<clang::SourceLocation, std::string>>* capture_ = nullptr;
};

}  // namespace tileweave::decorator
