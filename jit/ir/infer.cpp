// Type and shape rules of element-wise ops, shape ops and reductions, and the dispatch over all ops.
// Called by the builder and the verifier; memory and control ops stand in infer_memory.cpp and infer_control.cpp.
#include "tileweave/jit/ir/infer.h"

#include <algorithm>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/builder.h"

namespace tileweave::ir {
namespace {

// "lhs" and "rhs" where there are two operands of one kind, letters as in the table otherwise.
std::string_view operand_name(const OpShape& s, std::size_t i) {
  static constexpr std::string_view letters[] = {"a", "b", "c"}, sides[] = {"lhs", "rhs"};
  static constexpr std::string_view select[] = {"condition", "b", "c"};
  if (s.id == OpId::where) return select[i];
  if (s.operands.size() == 1) return "operand";
  return s.operands.size() == 2 ? sides[i] : letters[i];
}

std::string named(const OpShape& s, std::size_t i) {
  return std::string(operand_name(s, i)) + " " + to_string(s.operands[i]->type);
}

bool accepts(OpTypes types, Dtype t) {
  switch (types) {
    case OpTypes::Num:
      return !is_bool(t);
    case OpTypes::Float:
    case OpTypes::Test:
      return is_float(t);
    case OpTypes::Int:
      return is_int(t);
    case OpTypes::Bits:
      return is_int(t) || is_bool(t);
    case OpTypes::Compare:
    case OpTypes::Select:
      return true;
    case OpTypes::structural:
      return false;
  }
  return false;
}

std::string_view accepted(OpTypes types) {
  switch (types) {
    case OpTypes::Num:
      return "numbers";
    case OpTypes::Float:
    case OpTypes::Test:
      return "floating-point tiles";
    case OpTypes::Int:
      return "integers";
    case OpTypes::Bits:
      return "integers or bools";
    default:
      return "tiles";
  }
}

std::string help_for(OpTypes types, Dtype got) {
  if (is_bool(got) && types != OpTypes::Bits) return "convert it with .to<int>() or .to<float>()";
  if (types == OpTypes::Float || types == OpTypes::Test) return "convert it with .to<float>()";
  return is_float(got) ? "convert it with .to<int>(), or use its bits with .bitcast<int>()" : "";
}

void require_same_shape(const OpShape& s, std::size_t first, std::size_t i) {
  const Type &a = s.operands[first]->type, &b = s.operands[i]->type;
  if (a.rank == b.rank && a.extents == b.extents) return;
  const std::string what = a.rank == b.rank ? "extents differ: " : "ranks differ: ";
  refuse(s, what + named(s, first) + ", " + named(s, i),
         a.rank == b.rank ? "give both the same extents, or broadcast one with tw::broadcast"
                          : "add an axis with tw::expand, or broadcast with tw::broadcast");
}

void require_same_elem(const OpShape& s, std::size_t first, std::size_t i) {
  if (s.operands[first]->type.elem == s.operands[i]->type.elem) return;
  refuse(s, "element types differ: " + named(s, first) + ", " + named(s, i), "convert one of them with .to<T>()");
}

std::vector<Type> infer_elementwise(const OpShape& s) {
  const OpInfo& info = op_info(s.id);
  require_operands(s, static_cast<std::size_t>(info.arity), static_cast<std::size_t>(info.arity));
  for (std::size_t i = 0; i < s.operands.size(); ++i) require_tile(s, s.operands[i], operand_name(s, i));
  const std::size_t first = info.types == OpTypes::Select ? 1 : 0;
  if (first == 1 && !is_bool(s.operands[0]->type.elem)) {
    refuse(s, "the condition is " + to_string(s.operands[0]->type) + ", it must be bool",
           "compare with something, such as x != 0");
  }
  const Type& t = s.operands[first]->type;
  if (!accepts(info.types, t.elem)) {
    refuse(s, "takes " + std::string(accepted(info.types)) + ", got " + to_string(t), help_for(info.types, t.elem));
  }
  for (std::size_t i = first + 1; i < s.operands.size(); ++i) require_same_elem(s, first, i);
  for (std::size_t i = 1; i < s.operands.size(); ++i) require_same_shape(s, 0, i);
  return {info.types == OpTypes::Compare || info.types == OpTypes::Test ? t.with_elem(Dtype::boolean) : t};
}

std::string list_text(std::span<const std::int64_t> e) {
  std::string out = "{";
  for (std::size_t i = 0; i < e.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(e[i]);
  return out + "}";
}

void check_result(const OpShape& s, const Type& t) {
  if (t.is_view() || t.elements() <= max_tile_elements) return;
  refuse(s,
         "the tile " + to_string(t) + " has " + std::to_string(t.elements()) + " elements, over the limit of " +
             std::to_string(max_tile_elements),
         "use a smaller block and loop over it with tw::range");
}

bool combine_takes(Combine c, Dtype t) {
  if (c == Combine::bit_and || c == Combine::bit_or || c == Combine::bit_xor) return is_int(t) || is_bool(t);
  return !is_bool(t);
}

// The element type a dot of two tiles of `t` accumulates in; nothing where there is no such dot.
std::optional<Dtype> dot_accumulator(Dtype t) {
  if (t == Dtype::f64) return Dtype::f64;
  if (is_float(t)) return Dtype::f32;
  if (t == Dtype::i8 || t == Dtype::u8) return Dtype::i32;
  return std::nullopt;
}

}  // namespace

void refuse(const OpShape& s, const std::string& message, const std::string& help) {
  throw_record_error(s.place, std::string(op_info(s.id).name) + ": " + message, help);
}

void require_operands(const OpShape& s, std::size_t least, std::size_t most) {
  const std::size_t n = s.operands.size();
  if (n >= least && n <= most) return;
  refuse(s, "takes " + std::to_string(least) + (most == least ? "" : " to " + std::to_string(most)) +
                " operands, got " + std::to_string(n));
}

void require_tile(const OpShape& s, const Value* v, std::string_view what) {
  if (!v->type.is_tile()) refuse(s, std::string(what) + " is " + to_string(v->type) + ", it must be a tile");
}

void require_scalar_i64(const OpShape& s, const Value* v, std::string_view what) {
  if (v->type == Type::scalar(Dtype::i64)) return;
  refuse(s, std::string(what) + " is " + to_string(v->type) + ", it must be a scalar i64");
}

void require_mask(const OpShape& s, const Value* mask, const Type& of) {
  const Type want = Type::tile(Dtype::boolean, of.shape());
  if (mask->type == want) return;
  refuse(s, "the mask is " + to_string(mask->type) + ", it must be " + to_string(want) + " like the tile it masks",
         is_bool(mask->type.elem) ? "give the mask the extents of the tile" : "compare with something to get a bool");
}

int require_axis(const OpShape& s, int rank) {
  const std::int64_t axis = s.attrs.get_int(AttrKey::axis, -1);
  if (axis >= 0 && axis < rank) return static_cast<int>(axis);
  const std::string of = s.operands.empty() ? "" : " of " + to_string(s.operands[0]->type);
  refuse(s, "there is no axis " + std::to_string(axis) + of + ", which has " + std::to_string(rank) +
                (rank == 1 ? " axis" : " axes"));
}

const Type& asked_type(const OpShape& s) {
  if (s.results.size() != 1) refuse(s, "needs exactly one result type");
  return s.results[0];
}

const std::vector<std::int64_t>& require_extents(const OpShape& s) {
  const auto& e = s.attrs.get_list(AttrKey::extents);
  if (e.size() > max_rank)
    refuse(s, "extents " + list_text(e) + " have more than " + std::to_string(max_rank) + " axes");
  for (const std::int64_t n : e) {
    if (n < 1) refuse(s, "extents " + list_text(e) + ": each must be at least 1");
  }
  return e;
}

std::vector<Type> infer(const OpShape& s) {
  std::vector<Type> types;
  if (is_elementwise(s.id)) {
    types = infer_elementwise(s);
  } else {
    switch (s.id) {
#define TILEWEAVE_STRUCTURAL_OP(id, mnemonic, effects, legal, text) \
  case OpId::id:                                                    \
    types = infer_##id(s);                                          \
    break;
#include "tileweave/jit/ir/structural_ops.def"
      default:
        break;
    }
  }
  for (const Type& t : types) check_result(s, t);
  return types;
}

// --- constants and shapes

std::vector<Type> infer_constant(const OpShape& s) {
  require_operands(s, 0, 0);
  const Type& t = asked_type(s);
  if (!t.is_tile()) refuse(s, "cannot be " + to_string(t) + ", it must be a tile");
  if (s.attrs.find(AttrKey::value) == nullptr) refuse(s, "has no value");
  const int bits = dtype_info(t.elem).bits;
  const auto value = static_cast<std::uint64_t>(s.attrs.get_int(AttrKey::value));
  if ((bits < 64 && value >> bits != 0) || (is_bool(t.elem) && value > 1)) {
    refuse(s, "value " + std::to_string(value) + " does not fit the bits of " + to_string(t));
  }
  return {t};
}

std::vector<Type> infer_iota(const OpShape& s) {
  require_operands(s, 0, 0);
  const Type& t = asked_type(s);
  if (!t.is_tile() || t.rank != 1 || (t.elem != Dtype::i32 && t.elem != Dtype::i64)) {
    refuse(s, "cannot be " + to_string(t) + ", it must be an i32 or i64 tile of one axis");
  }
  if (t.extents[0] < 1) refuse(s, "needs at least one element, got " + std::to_string(t.extents[0]));
  const std::int64_t start = s.attrs.get_int(AttrKey::start);
  std::int64_t last = 0;
  if (__builtin_add_overflow(start, t.extents[0] - 1, &last) ||
      (t.elem == Dtype::i32 &&
       (start != static_cast<std::int32_t>(start) || last != static_cast<std::int32_t>(last)))) {
    refuse(s, "from " + std::to_string(start) + ", " + std::to_string(t.extents[0]) + " elements do not fit " +
                  std::string(dtype_name(t.elem)));
  }
  return {t};
}

std::vector<Type> infer_broadcast(const OpShape& s) {
  require_operands(s, 1, 1);
  const Type& x = s.operands[0]->type;
  if (x.is_view()) refuse(s, "cannot broadcast " + to_string(x));
  const auto& e = require_extents(s);
  bool fits = x.rank == 0 || e.size() == static_cast<std::size_t>(x.rank);
  for (std::size_t i = 0; fits && i < static_cast<std::size_t>(x.rank); ++i) {
    fits = x.extents[i] == e[i] || x.extents[i] == 1;
  }
  if (!fits) {
    refuse(s, "cannot broadcast " + to_string(x) + " to " + list_text(e),
           "an axis must have extent 1 or the wanted one; add axes with tw::expand");
  }
  return {x.with_shape(e)};
}

std::vector<Type> infer_expand_dims(const OpShape& s) {
  require_operands(s, 1, 1);
  const Type& x = s.operands[0]->type;
  if (x.is_view()) refuse(s, "cannot expand " + to_string(x));
  if (x.rank == max_rank)
    refuse(s, to_string(x) + " already has " + std::to_string(max_rank) + " axes, the most there are");
  const int axis = require_axis(s, x.rank + 1);
  Extents e = x.shape();
  e.insert(e.begin() + axis, 1);
  return {x.with_shape(e)};
}

std::vector<Type> infer_reshape(const OpShape& s) {
  require_operands(s, 1, 1);
  const Type& x = s.operands[0]->type;
  if (x.is_view()) refuse(s, "cannot reshape " + to_string(x));
  const Type r = x.with_shape(require_extents(s));
  if (r.elements() != x.elements()) {
    refuse(s, to_string(x) + " has " + std::to_string(x.elements()) + " elements, " + to_string(r) + " has " +
                  std::to_string(r.elements()));
  }
  return {r};
}

std::vector<Type> infer_trans(const OpShape& s) {
  require_operands(s, 1, 1);
  const Type& x = s.operands[0]->type;
  if (x.is_view()) refuse(s, "cannot transpose " + to_string(x));
  const auto& perm = s.attrs.get_list(AttrKey::perm);
  Extents e;
  unsigned seen = 0;
  for (const std::int64_t p : perm) {
    if (p < 0 || p >= x.rank || (seen >> p & 1) != 0) break;
    seen |= 1u << p;
    e.push_back(x.extents[static_cast<std::size_t>(p)]);
  }
  if (e.size() != perm.size() || e.size() != static_cast<std::size_t>(x.rank)) {
    refuse(s, list_text(perm) + " is no permutation of the axes of " + to_string(x));
  }
  return {x.with_shape(e)};
}

std::vector<Type> infer_convert(const OpShape& s) {
  require_operands(s, 1, 1);
  require_tile(s, s.operands[0], "operand");
  return {s.operands[0]->type.with_elem(asked_type(s).elem)};
}

std::vector<Type> infer_bitcast(const OpShape& s) {
  require_operands(s, 1, 1);
  require_tile(s, s.operands[0], "operand");
  const Type &x = s.operands[0]->type, r = x.with_elem(asked_type(s).elem);
  const bool bools = is_bool(x.elem) != is_bool(r.elem);
  if (dtype_info(x.elem).bits != dtype_info(r.elem).bits || bools) {
    refuse(s, "cannot read the bits of " + to_string(x) + " as " + std::string(dtype_name(r.elem)),
           bools ? "convert with .to<T>()" : "both must have the same width");
  }
  return {r};
}

// --- reductions

std::vector<Type> infer_reduce(const OpShape& s) {
  require_operands(s, 1, 2);
  require_tile(s, s.operands[0], "operand");
  const Type& x = s.operands[0]->type;
  const int axis = require_axis(s, x.rank);
  const std::string& how = s.attrs.get_text(AttrKey::combine);
  const auto c = combine_from_name(how);
  if (!c) refuse(s, "there is no combine '" + how + "'");
  if (!combine_takes(*c, x.elem)) {
    const bool bitwise = is_float(x.elem);
    refuse(s, how + " takes " + (bitwise ? "integers or bools" : "numbers") + ", got " + to_string(x),
           bitwise ? "" : "convert it with .to<int>(), or use tw::any or tw::all");
  }
  if (s.operands.size() == 2) require_mask(s, s.operands[1], x);
  Extents e = x.shape();
  e.erase(e.begin() + axis);
  return {x.with_shape(e)};
}

std::vector<Type> infer_arg_reduce(const OpShape& s) {
  require_operands(s, 1, 2);
  require_tile(s, s.operands[0], "operand");
  const Type& x = s.operands[0]->type;
  const int axis = require_axis(s, x.rank);
  const std::string& how = s.attrs.get_text(AttrKey::combine);
  if (how != "min" && how != "max") refuse(s, "combine must be min or max, got '" + how + "'");
  if (is_bool(x.elem)) refuse(s, "takes numbers, got " + to_string(x), "convert it with .to<int>()");
  if (s.operands.size() == 2) require_mask(s, s.operands[1], x);
  Extents e = x.shape();
  e.erase(e.begin() + axis);
  return {Type::tile(Dtype::i32, e)};
}

std::vector<Type> infer_dot(const OpShape& s) {
  require_operands(s, 3, 3);
  for (const Value* v : s.operands) require_tile(s, v, "operand");
  const Type &a = s.operands[0]->type, &b = s.operands[1]->type, &acc = s.operands[2]->type;
  const auto lhs_rhs = [&] { return "lhs " + to_string(a) + ", rhs " + to_string(b); };
  if (a.rank < 2 || a.rank != b.rank) refuse(s, "both operands need the same rank, at least 2: " + lhs_rhs());
  if (a.elem != b.elem) refuse(s, "element types differ: " + lhs_rhs(), "convert one of them with .to<T>()");
  const auto r = static_cast<std::size_t>(a.rank);
  if (a.extents[r - 1] != b.extents[r - 2]) {
    refuse(s,
           "inner extents differ: lhs " + to_string(a) + " has " + std::to_string(a.extents[r - 1]) + ", rhs " +
               to_string(b) + " has " + std::to_string(b.extents[r - 2]),
           "load rhs as {k, n}, or pass tw::trans(rhs)");
  }
  for (std::size_t i = 0; i + 2 < r; ++i) {
    if (a.extents[i] != b.extents[i]) refuse(s, "batch extents differ: " + lhs_rhs());
  }
  const auto elem = dot_accumulator(a.elem);
  if (!elem) {
    refuse(s, "there is no dot of " + std::string(dtype_name(a.elem)) + " tiles: " + lhs_rhs(),
           "dot takes f64, f32, f16, bf16, f8e4m3, f8e5m2, i8 and u8");
  }
  Type want = a.with_elem(*elem);
  want.extents[r - 1] = b.extents[r - 1];
  if (acc != want) refuse(s, "the accumulator is " + to_string(acc) + ", it must be " + to_string(want));
  const std::string& p = s.attrs.get_text(AttrKey::precision);
  if (!p.empty() && p != "tf32") refuse(s, "there is no precision '" + p + "'", "leave it out, or use tf32");
  if (p == "tf32" && a.elem != Dtype::f32) refuse(s, "precision tf32 is for f32 tiles, got " + lhs_rhs());
  return {want};
}

}  // namespace tileweave::ir
