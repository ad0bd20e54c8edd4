// Options.overflow: an addition, subtraction or product of signed integers that does not fit its type fails the launch.
// Works on the IR alone, so every backend checks the same; the value itself stays the wrapped one.
#include <string>

#include "tileweave/jit/ir/rewrite.h"
#include "tileweave/jit/passes/passes.h"

namespace tileweave::passes {
namespace {

using namespace ir;

bool is_checked(const Op& op) {
  if (op.id != OpId::add && op.id != OpId::sub && op.id != OpId::mul) return false;
  const Dtype t = op.operands[0]->type.elem;
  if (!is_int(t) || !is_signed(t)) return false;
  // The function of a scan or fold runs between lanes and cannot talk to the host.
  const Op* around = op.parent->parent;
  return around == nullptr || (around->id != OpId::scan && around->id != OpId::fold);
}

class Checker {
 public:
  Checker(Builder& b, const Op& op, Value* a, Value* c, Value* result) : b_(b), op_(op), x_(a), y_(c), r_(result) {}

  void report() {
    Value* fits = op_.id == OpId::mul ? product_fits() : sum_fits();
    while (fits->type.rank > 0) fits = b_.reduce(fits, fits->type.rank - 1, Combine::bit_and, nullptr, op_.place);
    Attrs attrs;
    attrs.set(AttrKey::text,
              std::string(op_info(op_.id).name) + " overflows " + std::string(dtype_name(x_->type.elem)));
    attrs.set(AttrKey::place, to_string(op_.place));
    b_.insert(OpId::assert_, {fits}, std::move(attrs), {}, op_.place);
  }

 private:
  Value* make(OpId id, Value* a, Value* c) { return b_.elementwise(id, {a, c}, op_.place); }

  // Of a sum: its sign differs from that of both terms; of a difference the subtrahend counts with the other sign
  // (H. S. Warren, "Hacker's Delight", 2-13).
  Value* sum_fits() {
    Value* first = make(OpId::bit_xor, x_, op_.id == OpId::add ? r_ : y_);
    Value* second = make(OpId::bit_xor, op_.id == OpId::add ? y_ : x_, r_);
    return make(OpId::ge, make(OpId::bit_and, first, second), b_.constant(r_->type, std::int64_t{0}, op_.place));
  }

  // The upper half of the double-width product is the sign of the lower one.
  Value* product_fits() {
    const std::int64_t last = dtype_info(r_->type.elem).bits - 1;
    return make(OpId::eq, make(OpId::mul_hi, x_, y_), make(OpId::shr, r_, b_.constant(r_->type, last, op_.place)));
  }

  Builder& b_;
  const Op& op_;
  Value *x_, *y_, *r_;
};

}  // namespace

void check_overflow(Function& f) {
  if (!f.options.overflow) return;
  f = Rewriter(f).run([](Rewriter& w, const Op& op) {
    if (!is_checked(op)) return false;
    w.copy(op);
    Checker(w.builder(), op, w.map(op.operands[0]), w.map(op.operands[1]), w.map(op.results[0])).report();
    return true;
  });
}

}  // namespace tileweave::passes
