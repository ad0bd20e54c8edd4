// Which f32 values of a function are only ever rounded to f16 or bf16, and the ops that need compute no further there.
// Asked by the passes for GPUs, by the GPU lowering, and by the interpreter for how far such a backend may be off.
#pragma once

#include <unordered_map>

#include "tileweave/jit/ir/function.h"

namespace tileweave::ir {

// How the uses of a value see it.
struct Rounding {
  enum class Use : std::uint8_t { none, rounded, scaled, whole };
  Use use = Use::none;  // whole: something needs all of the value
  Dtype type = Dtype::f32;
  friend bool operator==(const Rounding&, const Rounding&) = default;
};

struct ShortForm {
  OpId op;
  Dtype type;
  Rounding::Use use;
  double ulp;   // of `type`, beside the rounding to it
  int row = 0;  // in short_forms.def
};
// Null where the op has to be computed in full.
const ShortForm* short_form(OpId op, const Rounding& r);

// How far the form may be from a result of this value.
double short_form_error(const ShortForm& form, double value);

// Looks at a whole function. A value may have a short form where every use rounds it: by a conversion, after selections
// and moves (rounded), or after products, quotients and sums of values that are not negative, which pass a relative
// error on (scaled).
class RoundedValues {
 public:
  explicit RoundedValues(const Function& f);
  Rounding of(const Value* v) const;
  const ShortForm* form_of(const Op& op) const;

 private:
  void visit(const Region& r);
  void visit(const Op& op);
  void use(const Value* v, const Rounding& r);

  std::unordered_map<const Value*, Rounding> uses_;
};

}  // namespace tileweave::ir
