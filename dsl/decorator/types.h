// Which C++ types a decorated function may use: scalars that are element types, and structs of them, seen field by
// field.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clang/AST/ASTContext.h"

namespace tileweave::decorator {

// An element type, by its C++ name in generated code.
struct Elem {
  std::string name;  // "float", "std::uint8_t", "f16"
  int bits = 0;
  bool is_float = false, is_signed = false, is_bool = false;
  friend bool operator==(const Elem& a, const Elem& b) { return a.name == b.name; }
};

// The element type of a scalar, enum or narrow float; nothing for other types.
std::optional<Elem> elem_of(clang::QualType type, const clang::ASTContext& context);

// A scalar within a type: the type itself, or a field of a struct, "" or "inner_x".
struct Field {
  std::string name;
  Elem elem;
};
// The scalars of a type, in order: one without a name for a scalar; the fields of an aggregate, std::pair or
// std::tuple. Nothing where the type is neither; `why` says what stands in the way.
std::optional<std::vector<Field>> fields_of(clang::QualType type, const clang::ASTContext& context, std::string& why);

// How many scalars come before this member of its struct, and how many it has itself.
struct Slice {
  std::size_t first = 0, count = 0;
};
std::optional<Slice> slice_of(const clang::FieldDecl* member, const clang::ASTContext& context);

// The arguments of std::pair<A, B> or std::tuple<A...>.
std::optional<std::vector<clang::QualType>> tuple_types(clang::QualType type);

}  // namespace tileweave::decorator
