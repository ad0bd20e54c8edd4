// From Clang's types to element types and lists of scalars.
#include "types.h"

#include "clang/AST/DeclCXX.h"
#include "clang/AST/DeclTemplate.h"

namespace tileweave::decorator {

using namespace clang;

std::optional<Elem> elem_of(QualType type, const ASTContext& context) {
  type = type.getNonReferenceType().getCanonicalType().getUnqualifiedType();
  if (const auto* e = type->getAs<EnumType>()) type = e->getDecl()->getIntegerType().getCanonicalType();
  if (const CXXRecordDecl* r = type->getAsCXXRecordDecl()) {
    const std::string name = r->getQualifiedNameAsString();
    for (const char* narrow : {"f16", "bf16", "f8e4m3", "f8e5m2"}) {
      if (name == std::string("tileweave::") + narrow)
        return Elem{narrow, narrow[1] == '8' ? 8 : 16, true, true, false};
    }
    return std::nullopt;
  }
  if (type->isSpecificBuiltinType(BuiltinType::Float)) return Elem{"float", 32, true, true, false};
  if (type->isSpecificBuiltinType(BuiltinType::Double)) return Elem{"double", 64, true, true, false};
  if (type->isBooleanType()) return Elem{"bool", 8, false, false, true};
  if (!type->isIntegerType() || type->isBitIntType()) return std::nullopt;
  const auto bits = static_cast<int>(context.getTypeSize(type));
  if (bits > 64) return std::nullopt;
  const bool is_signed = type->isSignedIntegerType();
  if (bits == 32) return Elem{is_signed ? "int" : "unsigned", 32, false, is_signed, false};
  return Elem{std::string(is_signed ? "std::int" : "std::uint") + std::to_string(bits) + "_t", bits, false, is_signed,
              false};
}

std::optional<std::vector<QualType>> tuple_types(QualType type) {
  const CXXRecordDecl* r = type.getNonReferenceType()->getAsCXXRecordDecl();
  const auto* t = llvm::dyn_cast_or_null<ClassTemplateSpecializationDecl>(r);
  if (t == nullptr || !t->isInStdNamespace()) return std::nullopt;
  if (t->getName() != "pair" && t->getName() != "tuple") return std::nullopt;
  std::vector<QualType> out;
  for (const TemplateArgument& a : t->getTemplateArgs().asArray()) {
    if (a.getKind() == TemplateArgument::Type) out.push_back(a.getAsType());
    if (a.getKind() != TemplateArgument::Pack) continue;
    for (const TemplateArgument& each : a.getPackAsArray()) out.push_back(each.getAsType());
  }
  return out;
}

namespace {

bool append(std::vector<Field>& out, QualType type, const std::string& prefix, const ASTContext& context,
            std::string& why) {
  if (auto e = elem_of(type, context)) {
    out.push_back({prefix, *e});
    return true;
  }
  const std::string inner = prefix.empty() ? "" : prefix + "_";
  if (auto types = tuple_types(type)) {
    const bool is_pair = type->getAsCXXRecordDecl()->getName() == "pair";
    for (std::size_t i = 0; i < types->size(); ++i) {
      const std::string name = is_pair ? (i == 0 ? "first" : "second") : "v" + std::to_string(i);
      if (!append(out, (*types)[i], inner + name, context, why)) return false;
    }
    return true;
  }
  const CXXRecordDecl* r = type->getAsCXXRecordDecl();
  if (r == nullptr || !r->hasDefinition()) {
    why = "'" + type.getAsString() + "' is no number";
    return false;
  }
  if (!r->isAggregate() || r->getNumBases() != 0 || r->isUnion() || !r->isTriviallyCopyable()) {
    why = "'" + type.getAsString() + "' is no plain struct of numbers";
    return false;
  }
  for (const FieldDecl* f : r->fields()) {
    if (f->isBitField()) {
      why = "'" + f->getNameAsString() + "' of '" + type.getAsString() + "' is a bit-field";
      return false;
    }
    if (!append(out, f->getType(), inner + f->getNameAsString(), context, why)) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Field>> fields_of(QualType type, const ASTContext& context, std::string& why) {
  std::vector<Field> out;
  if (type->isIncompleteType() || !append(out, type.getNonReferenceType().getUnqualifiedType(), "", context, why)) {
    return std::nullopt;
  }
  return out;
}

std::optional<Slice> slice_of(const FieldDecl* member, const ASTContext& context) {
  Slice s;
  std::string why;
  for (const FieldDecl* f : member->getParent()->fields()) {
    const auto fields = fields_of(f->getType(), context, why);
    if (!fields) return std::nullopt;
    if (f == member) {
      s.count = fields->size();
      return s;
    }
    s.first += fields->size();
  }
  // std::pair's members stand where its types do.
  return std::nullopt;
}

}  // namespace tileweave::decorator
