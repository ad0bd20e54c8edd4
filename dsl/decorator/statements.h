// Translates a decorated function: its signature, and its statements into calls of dsl/trace.h.
#pragma once

#include "expressions.h"
#include "writer.h"

namespace tileweave::decorator {

// A translated function.
struct Body {
  std::string name;            // of the struct in namespace tileweave::trace::bodies
  std::string qualified;       // the user's name, "geo::area"
  std::string signature;       // "float(float, float)"
  std::vector<Field> results;  // one without a name: a scalar
  Writer text;                 // the struct
  bool from_header = false;    // the function stands in a header of the user's
};

class Statements {
 public:
  Statements(Parsed& parsed, Callees& callees)
      : parsed_(parsed), context_(parsed.context), expressions_(parsed, callees) {}

  // Nothing where the function cannot be translated; that has been reported then.
  std::optional<Body> function(const clang::FunctionDecl* f, const std::string& name);

 private:
  bool check_signature(const clang::FunctionDecl* f);
  void parameters(const clang::FunctionDecl* f, Body& body, std::vector<std::string>& declared);
  void statement(const clang::Stmt* s);
  void statements(llvm::ArrayRef<const clang::Stmt*> list);
  void block_of(const clang::Stmt* s);
  void declaration(const clang::DeclStmt* s);
  void variable(const clang::VarDecl* v);
  void if_statement(const clang::IfStmt* s);
  void loop(const clang::Stmt* s, const clang::Stmt* init, const clang::Expr* condition, const clang::Stmt* increment,
            const clang::Stmt* body);
  void do_loop(const clang::DoStmt* s);
  void switch_statement(const clang::SwitchStmt* s);
  void return_statement(const clang::ReturnStmt* s);
  std::string one_line(const clang::Stmt* s, clang::SourceLocation at);
  std::string condition_lambda(const clang::Expr* e);
  std::string flag(const clang::Expr* e);

  Parsed& parsed_;
  clang::ASTContext& context_;
  Expressions expressions_;
  Writer* out_ = nullptr;
  const clang::FunctionDecl* function_ = nullptr;
  std::vector<Field> results_;
  bool in_for_init_ = false;
};

}  // namespace tileweave::decorator
