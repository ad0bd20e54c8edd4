// What a launch knows becomes constants: unit and zero strides of views, and Specialized scalars.
// Runs first of the passes that simplify, so that they see the constants.
#include "tileweave/jit/ir/rewrite.h"
#include "tileweave/jit/passes/passes.h"

namespace tileweave::passes {
namespace {

using namespace ir;

const ViewFacts* facts_of(const Function& f, const Value* view) {
  for (const Param& p : f.params) {
    if (p.value == view) return &p.facts;
  }
  return nullptr;
}

// The stride a launch promises, or nothing.
std::optional<std::int64_t> known_stride(const Function& f, const Op& op) {
  const ViewFacts* facts = facts_of(f, op.operands[0]);
  const auto axis = static_cast<unsigned>(op.attrs.get_int(AttrKey::axis));
  if (facts == nullptr) return std::nullopt;
  if ((facts->unit_stride >> axis & 1) != 0) return 1;
  if ((facts->zero_stride >> axis & 1) != 0) return 0;
  return std::nullopt;
}

}  // namespace

void specialize_facts(Function& f) {
  Rewriter rewriter(f);
  for (const Param& p : f.params) {
    if (p.constant) rewriter.replace(p.value, rewriter.builder().constant_bits(p.value->type, *p.constant, f.place));
  }
  f = rewriter.run([&](Rewriter& w, const Op& op) {
    if (op.id != OpId::stride) return false;
    const auto stride = known_stride(f, op);
    if (stride) w.replace(op.results[0], w.builder().index(*stride));
    return stride.has_value();
  });
}

}  // namespace tileweave::passes
