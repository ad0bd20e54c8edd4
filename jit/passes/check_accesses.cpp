// Checked mode: pointers are followed only into the view they come from; where one points elsewhere, the access is left
// out and an assert op reports it with the view, the index and the extent.
// Works on the IR alone, so every backend checks the same.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tileweave/jit/ir/rewrite.h"
#include "tileweave/jit/passes/passes.h"

namespace tileweave::passes {
namespace {

using namespace ir;

bool follows_pointer(const Op& op) {
  return op.id == OpId::load_ptr || op.id == OpId::store_ptr || op.id == OpId::atomic_rmw || op.id == OpId::atomic_cas;
}

class Checker {
 public:
  static bool handle(Rewriter& w, const Op& op) {
    if (!follows_pointer(op)) return false;
    Builder& b = w.builder();
    Value* pointer = w.map(op.operands[0]);
    Value* index = nullptr;
    Value* view = origin(b, pointer, index, op.place);
    if (view == nullptr) return false;  // a pointer of the user's own: nothing is known of what it may reach
    const Extents shape = pointer->type.shape();
    if (index == nullptr) index = b.broadcast(b.index(0), shape, op.place);
    const auto [low, high] = reach(b, view, op.place);
    Value* inside = b.elementwise(OpId::bit_and,
                                  {b.elementwise(OpId::ge, {index, spread(b, low, shape, op.place)}, op.place),
                                   b.elementwise(OpId::lt, {index, spread(b, high, shape, op.place)}, op.place)},
                                  op.place);
    const bool masked = op.attrs.get_int(AttrKey::masked) != 0;
    Value* asked = masked ? w.map(op.operands.back()) : nullptr;
    report(b, op, view, index, asked, inside, high);
    std::vector<Value*> operands = w.map(op.operands);
    if (masked) operands.pop_back();
    operands.push_back(asked == nullptr ? inside : b.elementwise(OpId::bit_and, {asked, inside}, op.place));
    Attrs attrs = op.attrs;
    attrs.set(AttrKey::masked, std::int64_t{1});
    std::vector<Type> types;
    for (const Value* r : op.results) types.push_back(r->type);
    const Op* made = b.insert(op.id, std::move(operands), std::move(attrs), std::move(types), op.place);
    if (!op.results.empty()) w.replace(op.results[0], made->results[0]);
    return true;
  }

 private:
  static Value* spread(Builder& b, Value* scalar, const Extents& shape, const Place& p) {
    return shape.empty() ? scalar : b.broadcast(scalar, shape, p);
  }

  // The view whose base the pointer was made from, and in `index` how many elements away from it (null: none).
  static Value* origin(Builder& b, Value* pointer, Value*& index, const Place& p) {
    const Extents shape = pointer->type.shape();
    for (const Value* v = pointer; v->def != nullptr;) {
      const Op& op = *v->def;
      switch (op.id) {
        case OpId::view_base:
          return op.operands[0];
        case OpId::ptr_add: {
          Value* offset = op.operands[1];
          if (offset->type.elem != Dtype::i64) offset = b.convert(offset, Dtype::i64, p);
          if (offset->type.shape() != shape && offset->type.elements() != 1) return nullptr;
          if (offset->type.shape() != shape) offset = spread(b, as_scalar(b, offset, p), shape, p);
          index = index == nullptr ? offset : b.elementwise(OpId::add, {index, offset}, p);
          v = op.operands[0];
          break;
        }
        case OpId::broadcast:
        case OpId::expand_dims:
        case OpId::reshape:
          if (op.operands[0]->type.elements() != 1) return nullptr;
          v = op.operands[0];
          break;
        default:
          return nullptr;
      }
    }
    return nullptr;
  }
  static Value* as_scalar(Builder& b, Value* v, const Place& p) { return b.reshape(v, {}, p); }

  // The element offsets that the view's indices reach: [low, high), empty where an extent is 0.
  static std::pair<Value*, Value*> reach(Builder& b, Value* view, const Place& p) {
    Value *zero = b.index(0), *one = b.index(1);
    Value *low = zero, *high = one;
    for (int axis = 0; axis < view->type.rank; ++axis) {
      Value* last = b.elementwise(OpId::sub, {b.extent(view, axis, p), one}, p);
      Value* step = b.elementwise(OpId::mul, {last, b.stride(view, axis, p)}, p);
      low = b.elementwise(OpId::add, {low, b.elementwise(OpId::minimum, {step, zero}, p)}, p);
      high = b.elementwise(OpId::add, {high, b.elementwise(OpId::maximum, {step, zero}, p)}, p);
    }
    for (int axis = 0; axis < view->type.rank; ++axis) {
      Value* some = b.elementwise(OpId::gt, {b.extent(view, axis, p), zero}, p);
      high = b.elementwise(OpId::where, {some, high, low}, p);
    }
    return {low, high};
  }

  // Of the lanes that are asked for and lie outside, the lowest index is reported.
  static void report(Builder& b, const Op& op, const Value* view, Value* index, Value* asked, Value* inside,
                     Value* high) {
    const Place& p = op.place;
    Value* good = inside;
    if (asked != nullptr) good = b.elementwise(OpId::bit_or, {inside, b.elementwise(OpId::bit_not, {asked}, p)}, p);
    Value* largest = b.constant(index->type, INT64_MAX, p);
    Value* worst = b.elementwise(OpId::where, {good, largest, index}, p);
    for (; good->type.rank > 0;) {
      const int axis = good->type.rank - 1;
      good = b.reduce(good, axis, Combine::bit_and, nullptr, p);
      worst = b.reduce(worst, axis, Combine::min, nullptr, p);
    }
    Attrs attrs;
    attrs.set(AttrKey::text, std::string(op_info(op.id).name) + ": a pointer outside " + name_of(view));
    attrs.set(AttrKey::place, to_string(p));
    b.insert(OpId::assert_, {good, worst, high}, std::move(attrs), {}, p);
  }

  static std::string name_of(const Value* view) { return "view '" + view->name + "'"; }
};

}  // namespace

void check_accesses(Function& f) {
  if (!f.options.checked) return;
  f = Rewriter(f).run([](Rewriter& w, const Op& op) { return Checker::handle(w, op); });
}

}  // namespace tileweave::passes
