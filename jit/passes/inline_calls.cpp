// Writes the bodies of called functions in place of their calls, at the places of the functions' own lines.
// Runs after contract_fma, on the recorded form; what follows sees one function.
#include <algorithm>
#include <unordered_map>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/limits.h"
#include "tileweave/jit/ir/rewrite.h"
#include "tileweave/jit/passes/passes.h"

namespace tileweave::passes {
namespace {

using namespace ir;

class Inliner {
 public:
  explicit Inliner(const Function& f) : f_(f) {
    for (const Function& callee : f.callees) sizes_[&callee] = size_of(callee);  // callees stand before their callers
    size_of(f);
  }

  bool handle(Rewriter& w, const Op& op) const {
    if (op.id != OpId::call) return false;
    const Function& callee = callee_of(op);
    const std::vector<Value*> arguments = w.map(op.operands);
    for (std::size_t i = 0; i < arguments.size(); ++i) w.replace(callee.params[i].value, arguments[i]);
    const Op& end = w.rewrite_body(callee.body());
    const std::vector<Value*> results = w.map(end.operands);
    for (std::size_t i = 0; i < results.size(); ++i) w.replace(op.results[i], results[i]);
    return true;
  }

 private:
  const Function& callee_of(const Op& op) const { return *f_.find_callee(op.attrs.get_text(AttrKey::name)); }

  // The ops of a function with all calls written out.
  std::size_t size_of(const Function& f) const {
    std::size_t n = 0;
    for_each_op(f.body(), [&](const Op& op) {
      n += op.id == OpId::call ? sizes_.at(&callee_of(op)) : 1;
      if (n <= max_inlined_ops) return;
      throw_record_error(op.place,
                         "the functions that '" + f.name + "' calls take more than " + std::to_string(max_inlined_ops) +
                             " operations when every call is written out",
                         "call the function in a tw::range loop, or split the kernel");
    });
    return n;
  }

  const Function& f_;
  std::unordered_map<const Function*, std::size_t> sizes_;
};

}  // namespace

void inline_calls(Function& f) {
  if (f.callees.empty()) return;
  const Inliner inliner(f);
  f = Rewriter(f).run([&](Rewriter& w, const Op& op) { return inliner.handle(w, op); });
  f.callees.clear();
}

}  // namespace tileweave::passes
