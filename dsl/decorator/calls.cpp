// Calls in a decorated function: of other decorated functions, of the C and C++ library, of tileweave's own operations.
#include "clang/AST/DeclTemplate.h"
#include "clang/Basic/SourceManager.h"
#include "expressions.h"

namespace tileweave::decorator {

using namespace clang;

namespace {

struct Known {
  enum class Kind { math, test, round, same } kind;
  llvm::StringRef name;
  unsigned arity;
  const char* code;
};
constexpr Known known_functions[] = {
#define FUSE_MATH(name, arity, code) {Known::Kind::math, #name, arity, code},
#define FUSE_TEST(name, code) {Known::Kind::test, #name, 1, code},
#define FUSE_ROUND(name, code) {Known::Kind::round, #name, 1, code},
#define FUSE_SAME(name, arity, code) {Known::Kind::same, #name, arity, code},
#include "functions.def"
};

const Known* find_known(llvm::StringRef name, unsigned arity) {
  for (const Known& k : known_functions) {
    if (k.name == name && k.arity == arity) return &k;
  }
  return nullptr;
}

// expf, __builtin_expf and std::exp as exp; fabsf as fabs. Nothing for functions of long double.
llvm::StringRef plain_name(llvm::StringRef name) {
  name.consume_front("__builtin_");
  name.consume_front("__");
  for (const Known& k : known_functions) {
    if (name == k.name) return name;
    if (name.size() == k.name.size() + 1 && name.starts_with(k.name) && name.back() == 'f') return k.name;
  }
  return name;
}

bool is_of_library(const FunctionDecl* f, const ASTContext& context) {
  return f->isInStdNamespace() || f->getBuiltinID() != 0 ||
         (f->isExternC() && context.getSourceManager().isInSystemHeader(f->getLocation()));
}

const Elem flag_type{"bool", 8, false, false, true};
const Elem double_type{"double", 64, true, true, false};

}  // namespace

Code Expressions::apply(const std::string& function, const std::vector<Code>& arguments, const Elem& result) {
  std::string text = function + "(";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    text += (i == 0 ? "" : ", ") + (i == 0 ? value(arguments[i]) : arguments[i].text);
  }
  return {text + ")", 0, false, result};
}

std::vector<Code> Expressions::call(const CallExpr* e) {
  const FunctionDecl* f = e->getDirectCallee();
  if (auto r = operation_call(e)) return *r;
  if (f == nullptr) {
    refuse(e, "a call through a pointer or object cannot be part of a fusion group", "call the function by its name");
    return {};
  }
  if (is_decorated(f)) {
    if (auto r = decorated_call(e, f)) return *r;
    return {};
  }
  if (auto r = library_call(e, f)) return *r;
  refuse_call(e, f);
  return {};
}

std::optional<std::vector<Code>> Expressions::decorated_call(const CallExpr* e, const FunctionDecl* f) {
  const std::string body = callees_.body_name(f, e->getSourceRange());
  if (body.empty()) return std::nullopt;
  std::vector<Code> arguments;
  for (unsigned i = 0; i < e->getNumArgs() && i < f->getNumParams(); ++i) {
    std::string why;
    const auto fields = fields_of(f->getParamDecl(i)->getType(), context_, why);
    std::vector<Code> part = values(e->getArg(i));
    for (std::size_t k = 0; k < part.size(); ++k) {
      if (fields && k < fields->size()) part[k] = convert(part[k], (*fields)[k].elem);
      arguments.push_back(part[k]);
    }
  }
  std::string text = "call<" + body + ">(";
  for (std::size_t i = 0; i < arguments.size(); ++i) text += (i == 0 ? "" : ", ") + value(arguments[i]);
  text += ")";
  std::string why;
  const auto results = fields_of(f->getReturnType(), context_, why);
  if (!results) return std::nullopt;
  if (results->size() == 1) return std::vector<Code>{{text, 0, false, (*results)[0].elem}};
  const std::string name = fresh(f->getNameAsString() + "_result");
  emit(e->getBeginLoc(), "const auto " + name + " = " + text + ";");
  std::vector<Code> out;
  for (std::size_t i = 0; i < results->size(); ++i) {
    out.push_back({"std::get<" + std::to_string(i) + ">(" + name + ")", 0, false, (*results)[i].elem});
  }
  return out;
}

std::optional<Code> Expressions::math_call(const CallExpr* e, llvm::StringRef name, const Elem& result) {
  std::vector<Code> arguments;
  for (const Expr* a : e->arguments()) {
    if (!elem_of(a->getType(), context_)) return std::nullopt;
    arguments.push_back(scalar(a));
  }
  const Known* k = find_known(name, e->getNumArgs());
  if (k == nullptr) return std::nullopt;
  Elem type = result;
  switch (k->kind) {
    case Known::Kind::math:
      if (!result.is_float && name != "abs") return std::nullopt;
      break;
    case Known::Kind::test:
    case Known::Kind::round:
      type = arguments[0].elem.is_float ? arguments[0].elem : double_type;
      break;
    case Known::Kind::same:
      break;
  }
  for (Code& a : arguments) a = convert(a, type);
  const bool test = k->kind == Known::Kind::test;
  return convert(apply(k->code, arguments, test ? flag_type : type), result);
}

std::optional<std::vector<Code>> Expressions::make_tuple_like(const CallExpr* e, llvm::StringRef name) {
  if (name == "make_pair" || name == "make_tuple") {
    std::vector<Code> out;
    for (const Expr* a : e->arguments()) {
      for (Code& c : values(a)) out.push_back(std::move(c));
    }
    return out;
  }
  if (name != "get") return std::nullopt;
  const auto types = tuple_types(e->getArg(0)->getType());
  const TemplateArgumentList* list = e->getDirectCallee()->getTemplateSpecializationArgs();
  if (!types || list == nullptr || list->size() == 0 || list->get(0).getKind() != TemplateArgument::Integral)
    return std::nullopt;
  const auto wanted = static_cast<std::size_t>(list->get(0).getAsIntegral().getZExtValue());
  const std::vector<Code> all = values(e->getArg(0));
  std::size_t first = 0;
  for (std::size_t i = 0; i < types->size(); ++i) {
    std::string why;
    const auto fields = fields_of((*types)[i], context_, why);
    if (!fields) return std::nullopt;
    if (i == wanted && first + fields->size() <= all.size()) {
      return std::vector<Code>(all.begin() + static_cast<std::ptrdiff_t>(first),
                               all.begin() + static_cast<std::ptrdiff_t>(first + fields->size()));
    }
    first += fields->size();
  }
  return std::nullopt;
}

std::optional<std::vector<Code>> Expressions::library_call(const CallExpr* e, const FunctionDecl* f) {
  if (const auto* conversion = dyn_cast<CXXConversionDecl>(f)) {  // a narrow float as a float
    const auto* m = dyn_cast<CXXMemberCallExpr>(e);
    const auto to = elem_of(conversion->getConversionType(), context_);
    if (m != nullptr && to && elem_of(m->getImplicitObjectArgument()->getType(), context_)) {
      return std::vector<Code>{convert(scalar(m->getImplicitObjectArgument()), *to)};
    }
  }
  if (f->getIdentifier() == nullptr) {
    // operator[] of a constexpr std::array
    if (const auto* o = dyn_cast<CXXOperatorCallExpr>(e);
        o != nullptr && o->getOperator() == OO_Subscript && f->isInStdNamespace()) {
      return std::vector<Code>{element(e, o->getArg(0), o->getArg(1))};
    }
    return std::nullopt;
  }
  if (!is_of_library(f, context_)) return std::nullopt;
  const llvm::StringRef name = plain_name(f->getName());
  if (f->isInStdNamespace()) {
    if (auto r = make_tuple_like(e, name)) return r;
    if ((name == "move" || name == "forward") && e->getNumArgs() == 1) return values(e->getArg(0));
  }
  const auto result = elem_of(e->getType(), context_);
  if (!result) return std::nullopt;
  if (name == "bit_cast" && e->getNumArgs() == 1) {
    const Code from = scalar(e->getArg(0));
    return std::vector<Code>{{"bit_cast<" + result->name + ">(" + value(from) + ")", 0, false, *result}};
  }
  if (name == "expect" && e->getNumArgs() == 2)
    return std::vector<Code>{convert(scalar(e->getArg(0)), *result)};  // [[likely]]
  if ((name == "labs" || name == "llabs") && e->getNumArgs() == 1) {
    return std::vector<Code>{apply("op::abs", {scalar(e->getArg(0))}, *result)};
  }
  if ((name == "popcount" || name == "popcountll" || name == "popcountl") && e->getNumArgs() == 1) {
    const Code a = scalar(e->getArg(0));
    return std::vector<Code>{convert(apply("op::popcount", {a}, a.elem), *result)};
  }
  if (name == "countl_zero" && e->getNumArgs() == 1) {
    const Code a = scalar(e->getArg(0));
    return std::vector<Code>{convert(apply("op::clz", {a}, a.elem), *result)};
  }
  if (auto c = math_call(e, name, *result)) return std::vector<Code>{*c};
  return std::nullopt;
}

// tw::exp(x), tw::where(c, a, b): a function object of the op table.
std::optional<std::vector<Code>> Expressions::operation_call(const CallExpr* e) {
  const auto* o = dyn_cast<CXXOperatorCallExpr>(e);
  if (o == nullptr || o->getOperator() != OO_Call || o->getNumArgs() < 2) return std::nullopt;
  const auto* object = dyn_cast<DeclRefExpr>(o->getArg(0)->IgnoreParenImpCasts());
  const CXXRecordDecl* type = o->getArg(0)->getType()->getAsCXXRecordDecl();
  if (object == nullptr || type == nullptr || type->getQualifiedNameAsString() != "tileweave::detail::OpFunction")
    return std::nullopt;
  auto result = elem_of(e->getType(), context_);
  if (!result) return std::nullopt;
  const std::string name = object->getDecl()->getNameAsString();
  std::vector<Code> arguments;
  for (unsigned i = 1; i < o->getNumArgs(); ++i) arguments.push_back(scalar(o->getArg(i)));
  if (name == "where" && arguments.size() == 3) {
    arguments[0] = convert(arguments[0], flag_type);
    const std::string text = "where(" + arguments[0].text + ", " + value(convert(arguments[1], *result)) + ", " +
                             convert(arguments[2], *result).text + ")";
    return std::vector<Code>{{text, 0, false, *result}};
  }
  // The operands' common type; a comparison or test gives bool.
  Elem common = *result;
  if (result->is_bool) {
    common = arguments[0].elem;
    for (const Code& a : arguments) {
      if (a.elem.is_float && (!common.is_float || a.elem.bits > common.bits)) common = a.elem;
    }
  }
  for (Code& a : arguments) a = convert(a, common);
  return std::vector<Code>{apply("op::" + name, arguments, *result)};
}

void Expressions::refuse_call(const CallExpr* e, const FunctionDecl* f) {
  const std::string name = f->getQualifiedNameAsString();
  if (name.starts_with("printf") || name == "puts" || name == "fprintf" || name == "std::puts" ||
      name == "std::printf") {
    refuse(e, "'" + name + "' prints: a fusion group has no side effects", "print in a kernel, with tw::device_print");
    return;
  }
  if (name == "memcpy" || name == "std::memcpy" || name == "__builtin_memcpy") {
    refuse(e, "'" + name + "' works on memory, which a fusion group does not touch",
           "to see a number's bits use std::bit_cast");
    return;
  }
  if (isa<CXXMethodDecl>(f)) {
    refuse(e, "a call of the member function '" + name + "' cannot be part of a fusion group",
           "make it a free function marked TILEWEAVE_FUSION_GROUP");
    return;
  }
  if (is_of_library(f, context_)) {
    const bool is_long_double = f->getReturnType().getCanonicalType()->isSpecificBuiltinType(BuiltinType::LongDouble);
    refuse(e,
           "'" + name + "' " + (is_long_double ? "of long double" : "is a library function that") +
               " has no counterpart in a fusion group",
           is_long_double ? "convert to double"
                          : "write it with the functions of <cmath> listed in docs/fusion_groups.md");
    return;
  }
  parsed_.report.error(e->getSourceRange(),
                       "'" + name + "' is not marked TILEWEAVE_FUSION_GROUP, so a fusion group cannot call it",
                       "mark it here: TILEWEAVE_FUSION_GROUP before its declaration", f->getSourceRange());
}

}  // namespace tileweave::decorator
