// The analysis behind short forms, and their table.
// One walk from the last op to the first: every use is seen before the value that is used.
#include "tileweave/jit/ir/short_forms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "tileweave/jit/base/dtype.h"

namespace tileweave::ir {
namespace {

using Use = Rounding::Use;

constexpr ShortForm rows[] = {
#define TILEWEAVE_SHORT_FORM(op, type, use, form, ulp) {OpId::op, Dtype::type, Use::use, ulp},
#include "tileweave/jit/ir/short_forms.def"
};

Rounding joined(const Rounding& a, const Rounding& b) {
  if (a.use == Use::none) return b;
  if (b.use == Use::none) return a;
  if (a.type != b.type) return {Use::whole, Dtype::f32};
  return {std::max(a.use, b.use), a.type};
}

Rounding scaled(const Rounding& r) { return {std::max(r.use, Use::scaled), r.type}; }

// Ops whose result is never negative, and whose sum so has no more relative error than its terms.
bool is_not_negative(const Value* v) {
  if (v->def == nullptr) return false;
  const Op& op = *v->def;
  switch (op.id) {
    case OpId::exp:
    case OpId::exp2:
    case OpId::exp10:
    case OpId::sigmoid:
    case OpId::abs:
    case OpId::sqrt:
    case OpId::rsqrt:
      return true;
    case OpId::mul:
      return op.operands[0] == op.operands[1] || (is_not_negative(op.operands[0]) && is_not_negative(op.operands[1]));
    case OpId::where:
      return is_not_negative(op.operands[1]) && is_not_negative(op.operands[2]);
    case OpId::constant:
      return v->type.elem == Dtype::f32 && op.attrs.get_int(AttrKey::value) <= 0x7f800000 &&
             op.attrs.get_int(AttrKey::value) >= 0;
    default:
      return false;
  }
}

// A quotient or root of 16-bit numbers is correctly rounded, as the language promises.
bool is_exactly_rounded(const Op& op) {
  return (op.id == OpId::div || op.id == OpId::sqrt) &&
         std::all_of(op.operands.begin(), op.operands.end(), [](const Value* v) {
           return v->def != nullptr && v->def->id == OpId::convert && is_narrow_float(v->def->operands[0]->type.elem);
         });
}

}  // namespace

const ShortForm* short_form(OpId op, const Rounding& r) {
  if (r.use == Use::none || r.use == Use::whole) return nullptr;
  static const auto numbered = [] {
    std::array<ShortForm, std::size(rows)> all{};
    std::copy(std::begin(rows), std::end(rows), all.begin());
    for (std::size_t i = 0; i < all.size(); ++i) all[i].row = static_cast<int>(i);
    return all;
  }();
  const auto at = std::find_if(numbered.begin(), numbered.end(), [&](const ShortForm& f) {
    return f.op == op && f.type == r.type && (f.use == r.use || f.use == Use::scaled);
  });
  return at == numbered.end() ? nullptr : &*at;
}

double short_form_error(const ShortForm& form, double value) {
  if (!std::isfinite(value)) return 0;
  const bool f16 = form.type == Dtype::f16;
  const double relative = f16 ? 0x1p-10 : 0x1p-7;
  // Under the smallest normal number of the type, where only the rounding counts; or of f32.
  const double smallest = form.use == Use::scaled ? 0x1p-147 : f16 ? 0x1p-24 : 0x1p-133;
  return form.ulp * std::max(std::fabs(value) * relative, smallest);
}

RoundedValues::RoundedValues(const Function& f) { visit(f.body()); }

Rounding RoundedValues::of(const Value* v) const {
  const auto at = uses_.find(v);
  return at == uses_.end() ? Rounding{} : at->second;
}

const ShortForm* RoundedValues::form_of(const Op& op) const {
  if (op.results.size() != 1 || op.results[0]->type.is_view() || op.results[0]->type.is_pointer()) return nullptr;
  if (op.results[0]->type.elem != Dtype::f32 || is_exactly_rounded(op)) return nullptr;
  return short_form(op.id, of(op.results[0]));
}

void RoundedValues::use(const Value* v, const Rounding& r) { uses_[v] = joined(of(v), r); }

void RoundedValues::visit(const Region& r) {
  for (auto op = r.ops.rbegin(); op != r.ops.rend(); ++op) {
    for (auto inner = (*op)->regions.rbegin(); inner != (*op)->regions.rend(); ++inner) visit(**inner);
    visit(**op);
  }
}

void RoundedValues::visit(const Op& op) {
  const Rounding whole{Use::whole, Dtype::f32};
  const Rounding wanted = op.results.empty() ? whole : of(op.results[0]);
  const auto all = [&](const Rounding& r) {
    for (const Value* v : op.operands) use(v, r);
  };
  switch (op.id) {
    case OpId::convert: {
      const Dtype to = op.results[0]->type.elem;
      if (!is_narrow_float(to) || op.operands[0]->type.elem != Dtype::f32) return all(whole);
      // fp8's numbers are some of f16's.
      return all({Use::rounded, to == Dtype::bf16 ? Dtype::bf16 : Dtype::f16});
    }
    case OpId::neg:
    case OpId::abs:
    case OpId::minimum:
    case OpId::maximum:
    case OpId::fmin:
    case OpId::fmax:
    case OpId::broadcast:
    case OpId::expand_dims:
    case OpId::reshape:
    case OpId::trans:
      return all(wanted);
    case OpId::where:
      use(op.operands[0], whole);
      use(op.operands[1], wanted);
      return use(op.operands[2], wanted);
    case OpId::mul:
    case OpId::div:
      return all(scaled(wanted));
    case OpId::reduce:
      if (op.attrs.get_text(AttrKey::combine) != "sum" || !is_not_negative(op.operands[0])) return all(whole);
      use(op.operands[0], scaled(wanted));
      if (op.operands.size() == 2) use(op.operands[1], whole);
      return;
    default:
      return all(whole);
  }
}

}  // namespace tileweave::ir
