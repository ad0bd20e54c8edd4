// Type rules of the ops that talk to the host (print, assert, debug_value), of atomics and of the user's own functions.
// Called through infer.cpp by the builder and the verifier.
#include "tileweave/jit/ir/infer.h"

#include <algorithm>

namespace tileweave::ir {
namespace {

const Type& require_pointer(const OpShape& s) {
  if (s.operands.empty() || !s.operands[0]->type.is_pointer()) {
    refuse(s,
           "takes a pointer tile" + (s.operands.empty() ? std::string() : ", got " + to_string(s.operands[0]->type)));
  }
  return s.operands[0]->type;
}

void require_same_block(const OpShape& s, const Type& ptr, std::size_t i) {
  const Type& v = s.operands[i]->type;
  if (!v.is_tile() || v.elem != ptr.elem || v.rank != ptr.rank || v.extents != ptr.extents) {
    refuse(s, "pointer " + to_string(ptr) + " and value " + to_string(v) + " do not go together");
  }
}

template <std::size_t n>
void require_word(const OpShape& s, AttrKey key, const std::string_view (&known)[n]) {
  const std::string& word = s.attrs.get_text(key);
  if (std::find(std::begin(known), std::end(known), word) == std::end(known)) {
    refuse(s, std::string(attr_name(key)) + " '" + word + "' is not known");
  }
}

constexpr std::string_view orders[] = {"relaxed", "acquire", "release", "acq_rel"};
constexpr std::string_view scopes[] = {"block", "device", "system"};
constexpr std::string_view combines[] = {"sum", "min", "max", "and", "or", "xor", "xchg"};

// `n` value operands after the pointer, then perhaps a mask.
std::vector<Type> infer_atomic(const OpShape& s, std::size_t n) {
  const Type& ptr = require_pointer(s);
  const bool masked = s.attrs.get_int(AttrKey::masked) != 0;
  require_operands(s, 1 + n + (masked ? 1 : 0), 1 + n + (masked ? 1 : 0));
  if (ptr.is_const) refuse(s, "cannot write through the read-only " + to_string(ptr), "drop const from the parameter");
  for (std::size_t i = 1; i <= n; ++i) require_same_block(s, ptr, i);
  require_word(s, AttrKey::order, orders);
  require_word(s, AttrKey::scope, scopes);
  const Type r = Type::tile(ptr.elem, ptr.shape());
  if (masked) require_mask(s, s.operands.back(), r);
  return {r};
}

}  // namespace

std::vector<Type> infer_atomic_rmw(const OpShape& s) {
  std::vector<Type> r = infer_atomic(s, 1);
  require_word(s, AttrKey::combine, combines);
  const std::string& how = s.attrs.get_text(AttrKey::combine);
  const bool is_bitwise = how == "and" || how == "or" || how == "xor";
  if (is_bitwise && !is_int(r[0].elem)) {
    refuse(s, "a bitwise atomic takes integers, got " + to_string(r[0]),
           "bitcast the pointer's tensor to an integer type");
  }
  if (is_bool(r[0].elem) && how != "xchg") refuse(s, how + " has no meaning for " + to_string(r[0]));
  return r;
}

std::vector<Type> infer_atomic_cas(const OpShape& s) { return infer_atomic(s, 2); }

std::vector<Type> infer_print(const OpShape& s) {
  require_operands(s, 1, 1);
  require_tile(s, s.operands[0], "operand");
  return {};
}

std::vector<Type> infer_assert_(const OpShape& s) {
  require_operands(s, 1, 3);
  if (s.operands.size() == 2) refuse(s, "an index comes with its extent");
  for (std::size_t i = 1; i < s.operands.size(); ++i) require_scalar_i64(s, s.operands[i], i == 1 ? "index" : "extent");
  const Type& t = s.operands[0]->type;
  if (!t.is_tile() || t.rank != 0 || !is_bool(t.elem)) refuse(s, "the flag is " + to_string(t) + ", it must be a bool");
  return {};
}

std::vector<Type> infer_debug_value(const OpShape& s) {
  require_operands(s, 1, 1);
  if (s.operands[0]->type.is_view()) refuse(s, "a view is shown by itself");
  return {};
}

std::vector<Type> infer_external(const OpShape& s) {
  require_operands(s, 1, 8);
  const Type r = asked_type(s);
  for (const Value* v : s.operands) {
    require_tile(s, v, "operand");
    if (v->type.rank != r.rank || v->type.extents != r.extents) {
      refuse(s, "extents differ: operand " + to_string(v->type) + ", result " + to_string(r));
    }
  }
  if (s.attrs.get_text(AttrKey::name).empty()) refuse(s, "a function has a name");
  return {r};
}

}  // namespace tileweave::ir
