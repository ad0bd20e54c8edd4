// The algebra of canonicalize: identities that are exact for every input, -0, infinities, NaN and wrapping included.
// One op in, an equal but simpler value out.
#pragma once

#include <unordered_map>

#include "tileweave/jit/ir/builder.h"

namespace tileweave::passes {

class Identities {
 public:
  explicit Identities(ir::Builder& b) : b_(b) {}

  // A value equal to the pure op `op` on these operands (values of the function being built), or null where no rule
  // applies. May put commutative operands in their order first.
  ir::Value* simplify(const ir::Op& op, std::vector<ir::Value*>& operands);

 private:
  using Value = ir::Value;
  using Operands = std::vector<ir::Value*>;

  Value* elementwise(const ir::Op& op, Operands& v);
  Value* sink_broadcast(const ir::Op& op, const Operands& v);
  Value* integer(ir::OpId id, const Operands& v);
  Value* floating(ir::OpId id, const Operands& v);
  Value* boolean(ir::OpId id, const Operands& v);
  Value* compare(ir::OpId id, const Operands& v);
  Value* select(const Operands& v);
  Value* equal_operands(ir::OpId id, const Operands& v);
  Value* involution(ir::OpId id, const Operands& v);
  Value* convert(const ir::Op& op, Value* x);
  Value* shape(const ir::Op& op, Value* x);
  Value* reduce(const ir::Op& op, const Operands& v);
  void order(ir::OpId id, Operands& v);
  // Values are numbered as they are met, so that the order does not hang on addresses.
  std::size_t rank(const Value* v) { return ranks_.try_emplace(v, ranks_.size()).first->second; }

  ir::Builder& b_;
  Place place_;
  std::unordered_map<const Value*, std::size_t> ranks_;
};

// Whether every value of `from` is a value of `to`, so that a conversion through `to` loses nothing.
bool represents(Dtype to, Dtype from);

}  // namespace tileweave::passes
