// Rebuilds a function through a Builder: the walk all passes share.
// A pass gives a handler for the ops it changes; every other op is copied, with its place and its values' names.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "tileweave/jit/ir/builder.h"

namespace tileweave::ir {

class Rewriter {
 public:
  // Gives true where it has dealt with the op (mapped its results, or dropped it); false asks for a copy.
  using Handler = std::function<bool(Rewriter&, const Op&)>;

  explicit Rewriter(const Function& from);
  // Rebuilds the whole body and gives the new function; the Rewriter is spent.
  Function run(const Handler& handler);

  Builder& builder() { return builder_; }
  // The new value that stands for an old one.
  Value* map(const Value* old) const;
  std::vector<Value*> map(std::span<Value* const> old) const;
  // Lets `now` stand for `old`, and take its name where it has none.
  void replace(const Value* old, Value* now);

  // What run does with an op that the handler leaves alone.
  void copy(const Op& op);
  // The ops of an old region, into the region the builder is in. Its arguments must be mapped.
  void rewrite_ops(const Region& r);
  // The same without the region's terminator, which is given back.
  const Op& rewrite_body(const Region& r);

 private:
  void rewrite(const Op& op);

  Function to_;
  Builder builder_;
  const Function& from_;
  const Handler* handler_ = nullptr;
  std::unordered_map<const Value*, Value*> map_;
};

// Calls visit(op) for every op of the function, outer before inner.
void for_each_op(const Region& r, const std::function<void(const Op&)>& visit);
void for_each_op(Region& r, const std::function<void(Op&)>& visit);

// How often each value is an operand.
std::unordered_map<const Value*, int> count_uses(const Function& f);

}  // namespace tileweave::ir
