// The rules every function keeps: types, dominance, regions and terminators, what each stage allows, sizes.
// Run after recording, after parsing and after every pass.
#include <algorithm>
#include <source_location>
#include <unordered_set>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/ir/infer.h"
#include "tileweave/jit/ir/limits.h"

namespace tileweave::ir {
namespace {

class Verifier {
 public:
  // `callees`: the functions that this one may call.
  Verifier(const Function& f, Stage stage, std::span<const Function> callees)
      : f_(f), stage_(stage), callees_(callees) {}

  void run() {
    for (const Param& p : f_.params) check_param(p);
    check_region(f_.body(), nullptr, 0);
  }

  // A function that is called by others of its module.
  void run_callee() {
    is_callee_ = true;
    if (!f_.callees.empty()) fail(nullptr, "a function that is called has functions of its own");
    if (std::ranges::any_of(callees_, [&](const Function& c) { return c.name == f_.name; })) {
      fail(nullptr, "two functions have this name");
    }
    run();
    const auto& ops = f_.body().ops;
    if (ops.empty() || ops.back()->id != OpId::yield) fail(nullptr, "its body does not end in yield");
  }

 private:
  [[noreturn]] void fail(const Op* op, const std::string& rule) const {
    std::string where = "in '" + f_.name + "'";
    if (op != nullptr) where += ", op " + std::string(op_info(op->id).name);
    if (op != nullptr && op->place.known()) where += " recorded at " + to_string(op->place);
    throw_internal_error(std::source_location::current(), "malformed tile IR " + where + ": " + rule);
  }

  void check_param(const Param& p) {
    if (p.value == nullptr || p.value->def != nullptr || p.value->region != nullptr) {
      fail(nullptr, "a parameter's value is made elsewhere");
    }
    if (is_callee_ && (p.constant || p.facts != ViewFacts{})) fail(nullptr, "what a launch knows is the kernel's");
    if (!is_callee_ && !p.value->type.is_view() && p.value->type.rank != 0) {
      fail(nullptr, "a parameter is a view or a scalar");
    }
    if (p.constant && p.value->type.is_view()) fail(nullptr, "a view has no constant");
    visible_.insert(p.value);
  }

  void check_region(const Region& r, const Op* owner, int depth) {
    if (r.parent != owner) fail(owner, "a region does not know its op");
    if (depth > max_region_depth) {
      throw_record_error(owner->place,
                         "control flow is nested more than " + std::to_string(max_region_depth) + " deep");
    }
    check_size(r);
    const auto before = order_.size();
    for (std::size_t i = 0; i < r.args.size(); ++i) {
      const Value* v = r.args[i];
      if (v->region != &r || v->def != nullptr || v->index != static_cast<int>(i))
        fail(owner, "a region argument is not its own");
      show(v);
    }
    for (const auto& op : r.ops) {
      const bool terminator = op->id == OpId::yield || op->id == OpId::condition;
      const bool may_end = owner != nullptr || (is_callee_ && op->id == OpId::yield);
      if (terminator && (!may_end || op != r.ops.back())) fail(op.get(), "a terminator ends a region");
      check_op(*op, r, depth);
    }
    // What a region makes is not seen outside it.
    while (order_.size() > before) {
      visible_.erase(order_.back());
      order_.pop_back();
    }
  }

  void show(const Value* v) {
    if (visible_.insert(v).second) order_.push_back(v);
  }

  void check_size(const Region& r) {
    const std::size_t limit = stage_ == Stage::recorded || stage_ == Stage::promoted ? max_block_ops : max_expanded_ops;
    if (r.ops.size() <= limit) return;
    throw_record_error(
        r.ops[limit]->place,
        "a block of " + std::to_string(r.ops.size()) + " operations is over the limit of " + std::to_string(limit),
        "a C++ loop and the calls of a tw::function are written out in the kernel; use tw::range for a loop that is "
        "compiled once");
  }

  void check_op(const Op& op, const Region& parent, int depth) {
    if (op.parent != &parent) fail(&op, "it does not know its region");
    for (const Value* v : op.operands) {
      if (!visible_.contains(v)) fail(&op, "an operand is not visible here");
    }
    check_stage(op);
    check_vars(op);
    check_types(op);
    check_regions(op);
    if (op.id == OpId::call) check_call(op);
    for (const auto& r : op.regions) check_region(*r, &op, depth + 1);
    for (const Value* v : op.results) show(v);
  }

  void check_stage(const Op& op) {
    const OpInfo& info = op_info(op.id);
    if (stage_ != Stage::recorded && info.legal == Legal::until_promoted) fail(&op, "it is gone after promote_vars");
    if (stage_ != Stage::expanded && stage_ != Stage::lowered) return;
    if (info.composed) fail(&op, "composed ops are gone after expand_composed");
    const bool computes =
        (is_elementwise(op.id) && op.id != OpId::where) || op.id == OpId::reduce || op.id == OpId::arg_reduce;
    if (computes && is_narrow_float(op.operands[0]->type.elem)) fail(&op, "narrow floats compute in f32 once expanded");
  }

  // A var is no value: only var_get and var_set may name it.
  void check_vars(const Op& op) {
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const Op* def = op.operands[i]->def;
      const bool place_of_var = i == 0 && (op.id == OpId::var_get || op.id == OpId::var_set);
      if ((def != nullptr && def->id == OpId::var) != place_of_var)
        fail(&op, "a var is used other than by var_get and var_set");
    }
  }

  void check_types(const Op& op) {
    std::vector<Type> given;
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      const Value* v = op.results[i];
      if (v->def != &op || v->index != static_cast<int>(i)) fail(&op, "a result is not its own");
      given.push_back(v->type);
    }
    try {
      if (infer({op.id, op.operands, op.attrs, given, op.place}) != given) fail(&op, "its result types are wrong");
    } catch (const RecordError& e) {
      fail(&op, e.diagnostic().message);
    }
  }

  void check_regions(const Op& op) {
    switch (op.id) {
      case OpId::for_:
        require_regions(op, 1);
        if (op.regions[0]->args.empty() || op.regions[0]->args[0]->type != Type::scalar(Dtype::i64)) {
          fail(&op, "the first argument of its region is the i64 index");
        }
        require_args(op, 0, 1, std::span(op.operands).subspan(3));
        return require_end(op, 0, OpId::yield, 0, op.results);
      case OpId::if_:
        require_regions(op, 2);
        for (std::size_t i = 0; i < 2; ++i) {
          require_args(op, i, 0, {});
          require_end(op, i, OpId::yield, 0, op.results);
        }
        return;
      case OpId::while_:
        require_regions(op, 2);
        for (std::size_t i = 0; i < 2; ++i) {
          require_args(op, i, 0, op.operands);
          require_end(op, i, i == 0 ? OpId::condition : OpId::yield, i == 0 ? 1 : 0, op.results);
        }
        return;
      case OpId::scan:
      case OpId::fold:
        return check_combine(op);
      default:
        if (!op.regions.empty()) fail(&op, "it has no regions");
    }
  }

  // Functions stand before their callers, so a call of one that does not is recursion, or of no function at all.
  void check_call(const Op& op) {
    const std::string& name = op.attrs.get_text(AttrKey::name);
    const auto callee = std::ranges::find(callees_, name, &Function::name);
    if (callee == callees_.end()) fail(&op, "no function '" + name + "' stands before this one: none may call itself");
    const auto typed = [](const Param& p, const Value* v) { return p.value->type == v->type; };
    if (!std::ranges::equal(callee->params, op.operands, typed)) {
      fail(&op, "its arguments are not of the types of the parameters of '" + name + "'");
    }
    if (!same_types(callee->body().ops.back()->operands, op.results)) {
      fail(&op, "its results are not of the types that '" + name + "' gives");
    }
  }

  // Two scalars of each value's type in, one out, and only scalar arithmetic between.
  void check_combine(const Op& op) {
    require_regions(op, 1);
    const std::size_t n = op.results.size();
    const Region& r = *op.regions[0];
    bool typed = r.args.size() == 2 * n && !r.ops.empty() && r.ops.back()->id == OpId::yield &&
                 r.ops.back()->operands.size() == n;
    for (std::size_t i = 0; typed && i < 2 * n; ++i) {
      const Type want = Type::scalar(op.operands[i % n]->type.elem);
      typed = r.args[i]->type == want && (i >= n || r.ops.back()->operands[i]->type == want);
    }
    if (!typed) fail(&op, "its region does not take two scalars of each type and give one");
    for (const auto& inner : r.ops) {
      if (inner != r.ops.back() && !is_combine_op(*inner)) fail(&op, "its region holds more than scalar arithmetic");
    }
  }

  void require_regions(const Op& op, std::size_t n) {
    if (op.regions.size() != n) fail(&op, "it has " + std::to_string(n) + " regions");
  }

  static bool same_types(std::span<Value* const> a, std::span<Value* const> b) {
    return std::ranges::equal(a, b, [](const Value* x, const Value* y) { return x->type == y->type; });
  }

  void require_args(const Op& op, std::size_t region, std::size_t skip, std::span<Value* const> like) {
    const auto& args = op.regions[region]->args;
    if (args.size() < skip || !same_types(std::span(args).subspan(skip), like)) {
      fail(&op, "its region's arguments are not of the carried types");
    }
  }

  void require_end(const Op& op, std::size_t region, OpId end, std::size_t skip, std::span<Value* const> like) {
    const auto& ops = op.regions[region]->ops;
    if (ops.empty() || ops.back()->id != end) fail(&op, "its region does not end in " + std::string(op_info(end).name));
    const auto& values = ops.back()->operands;
    if (values.size() < skip || !same_types(std::span(values).subspan(skip), like)) {
      fail(&op, "its region does not give the carried types");
    }
  }

  const Function& f_;
  Stage stage_;
  std::span<const Function> callees_;
  bool is_callee_ = false;
  std::unordered_set<const Value*> visible_;
  std::vector<const Value*> order_;  // what to hide again when a region ends
};

}  // namespace

void verify(const Function& f, Stage stage) {
  const std::span<const Function> callees = f.callees;
  for (std::size_t i = 0; i < callees.size(); ++i) Verifier(callees[i], stage, callees.first(i)).run_callee();
  Verifier(f, stage, callees).run();
}

}  // namespace tileweave::ir
