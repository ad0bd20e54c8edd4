// Derivatives of a decorated function's graph, as a graph: reverse mode; with loops, tangents that travel with them.
// The rule of each op is the gradient column of ir/ops.def, read here over graph nodes.
#include <algorithm>

#include "tileweave/dsl/trace_graph.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::trace {
namespace {

using ir::OpId;

// A term of a gradient rule: a node, a literal that takes the type of what it meets, or zero. Where a guard stands, the
// term counts only in the lanes in which the guard holds: whatever it is elsewhere, a NaN or an infinity, is dropped.
struct Term {
  GraphBuilder* builder = nullptr;
  NodeId id = no_node;
  NodeId guard = no_node;
  double literal = 0;
  bool is_zero = false;

  Term(double v) : literal(v) {}
  Term(GraphBuilder& b, NodeId n, NodeId g = no_node) : builder(&b), id(n), guard(g) {}
  static Term zero() {
    Term t(0.0);
    t.is_zero = true;
    return t;
  }
  NodeId as(GraphBuilder& b, Dtype type) const { return id != no_node ? id : b.number(type, literal); }
  bool is(double v) const {
    if (id == no_node) return literal == v;
    const Node& n = builder->node(id);
    return n.kind == NodeKind::constant && is_float(n.type) && ir::host::to_double(n.bits, n.type) == v;
  }
};

Term apply(OpId op, const Term& a, const Term& b) {
  GraphBuilder& g = a.builder != nullptr ? *a.builder : *b.builder;
  const Dtype type = g.node(a.id != no_node ? a.id : b.id).type;
  const NodeId x = a.as(g, type), y = b.as(g, type);
  return {g, g.op(op, {x, y}), g.both(a.guard, b.guard)};
}
Term apply(OpId op, const Term& a) { return {*a.builder, a.builder->op(op, {a.id}), a.guard}; }

Term operator+(const Term& a, const Term& b) { return apply(OpId::add, a, b); }
Term operator-(const Term& a, const Term& b) { return apply(OpId::sub, a, b); }
Term operator*(const Term& a, const Term& b) {
  if (a.builder == nullptr && b.builder == nullptr) return Term(a.literal * b.literal);
  const NodeId guard = (a.builder != nullptr ? a.builder : b.builder)->both(a.guard, b.guard);
  if (a.is(1) && b.id != no_node) return {*b.builder, b.id, guard};
  if (b.is(1) && a.id != no_node) return {*a.builder, a.id, guard};
  return apply(OpId::mul, a, b);
}
Term operator/(const Term& a, const Term& b) { return apply(OpId::div, a, b); }
Term operator-(const Term& a) { return a.id == no_node ? Term(-a.literal) : apply(OpId::neg, a); }
Term operator<(const Term& a, const Term& b) { return apply(OpId::lt, a, b); }
Term operator>(const Term& a, const Term& b) { return apply(OpId::gt, a, b); }
Term operator<=(const Term& a, const Term& b) { return apply(OpId::le, a, b); }
Term operator>=(const Term& a, const Term& b) { return apply(OpId::ge, a, b); }
Term operator==(const Term& a, const Term& b) { return apply(OpId::eq, a, b); }
Term operator|(const Term& a, const Term& b) { return apply(OpId::bit_or, a, b); }

Term where(const Term& c, const Term& a, const Term& b) {
  GraphBuilder& g = *c.builder;
  if (b.is_zero) return {g, a.as(g, Dtype::f32), g.both(a.guard, c.id)};
  if (a.is_zero) return {g, b.as(g, Dtype::f32), g.both(b.guard, g.negation(c.id))};
  const Dtype type = g.node(a.id != no_node ? a.id : b.id).type;
  NodeId guard = no_node;
  if (a.guard != no_node || b.guard != no_node) {
    guard = g.op(OpId::where, {c.id, a.guard == no_node ? g.boolean(true) : a.guard,
                               b.guard == no_node ? g.boolean(true) : b.guard});
  }
  return {g, g.op(OpId::where, {c.id, a.as(g, type), b.as(g, type)}), guard};
}

// The functions that rules name: those of the table.
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) \
  template <class... Rest>                                                          \
    requires(sizeof...(Rest) + 1 == arity && arity <= 2)                            \
  Term id(const Term& a, const Rest&... rest) {                                     \
    return apply(OpId::id, a, rest...);                                             \
  }
#include "tileweave/jit/ir/ops.def"

using Flows = std::vector<Term>;
template <class... T>
Flows d(const T&... terms) {
  return {terms...};
}

// What flows to each operand of an op when g flows into it.
Flows flows_of(OpId op, const Term& g, [[maybe_unused]] const Term& y, const Term& a, const Term& b, const Term& c) {
  const Term zero = Term::zero();
  switch (op) {
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) \
  case OpId::id:                                                                    \
    return gradient;
#include "tileweave/jit/ir/ops.def"
    default:
      return {};
  }
  (void)c;
}

// Copies `from` into a new graph, node by node; the derivatives are appended beside.
class Differentiation {
 public:
  Differentiation(const Graph& from, std::span<const int> by)
      : from_(from),
        by_(by.begin(), by.end()),
        to_(builder_for(from)),
        builder_(to_),
        map_(from.nodes.size(), no_node),
        active_(from.nodes.size()) {}

  Graph run(bool with_value) {
    find_active();
    std::vector<NodeId> out;
    const bool loops = std::ranges::any_of(from_.loops, [&](const Loop& l) { return is_needed(l); });
    if (loops) tangents_.assign(from_.nodes.size(), std::vector<NodeId>(by_.size(), no_node));
    copy(0, static_cast<NodeId>(from_.nodes.size()));
    for (const NodeId r : from_.results) {
      if (with_value) out.push_back(map(r));
      const Dtype type = from_[r].type;
      const std::vector<NodeId> by = loops ? tangents_[static_cast<std::size_t>(r)] : reverse(r);
      for (const NodeId t : by) out.push_back(t == no_node ? builder_.number(type, 0) : builder_.convert(t, type));
    }
    to_.results = out;
    return std::move(to_);
  }

 private:
  static Graph builder_for(const Graph& from) {
    Graph g;
    g.name = from.name;
    g.parameters = from.parameters;
    return g;
  }
  NodeId& map(NodeId id) { return map_[static_cast<std::size_t>(id)]; }
  bool is_active(NodeId id) const { return id != no_node && active_[static_cast<std::size_t>(id)]; }
  bool is_needed(const Loop& l) const { return needed_[static_cast<std::size_t>(l.condition)]; }

  // Float nodes that a parameter of `by` reaches.
  void find_active() {
    needed_ = from_.needed();
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < from_.nodes.size(); ++i) {
        if (active_[i] || !needed_[i] || !is_float(from_.nodes[i].type) || !depends(from_.nodes[i])) continue;
        active_[i] = changed = true;
      }
    }
  }
  bool depends(const Node& n) const {
    switch (n.kind) {
      case NodeKind::argument:
        return std::ranges::find(by_, n.index) != by_.end();
      case NodeKind::state:
      case NodeKind::result: {
        const Loop& l = from_.loops[static_cast<std::size_t>(n.index)];
        const auto k = static_cast<std::size_t>(n.slot);
        return is_active(l.initial[k]) || is_active(l.next[k]);
      }
      case NodeKind::constant:
      case NodeKind::bitcast:
        return false;
      default:
        return std::ranges::any_of(n.operands, [&](NodeId o) { return is_active(o); });
    }
  }

  void copy(NodeId first, NodeId last) {
    for (NodeId id = first; id < last; ++id) {
      const auto l = std::ranges::find_if(from_.loops, [&](const Loop& x) { return x.first == id && &x != inside_; });
      if (l != from_.loops.end()) {
        if (is_needed(*l)) copy_loop(*l);
        id = l->last - 1;
        continue;
      }
      if (!needed_[static_cast<std::size_t>(id)]) continue;
      copy_node(id);
      builder_.place(from_[id].place);
    }
  }
  void copy_node(NodeId id) {
    const Node& n = from_[id];
    switch (n.kind) {
      case NodeKind::constant:
        map(id) = builder_.constant(n.type, n.bits);
        return;
      case NodeKind::argument:
        map(id) = builder_.argument(n.index);
        break;
      case NodeKind::convert:
        map(id) = builder_.convert(map(n.operands[0]), n.type);
        break;
      case NodeKind::bitcast:
        map(id) = builder_.bitcast(map(n.operands[0]), n.type);
        break;
      case NodeKind::state:
      case NodeKind::result:
        return;  // written by copy_loop
      case NodeKind::op: {
        std::vector<NodeId> operands;
        for (const NodeId o : n.operands) {
          if (o != no_node) operands.push_back(map(o));
        }
        map(id) = builder_.op(n.op, operands);
        break;
      }
    }
    if (!tangents_.empty() && is_active(id)) tangents_[static_cast<std::size_t>(id)] = forward(id);
  }

  // --- forward: the tangents of a node by each parameter
  std::vector<NodeId> forward(NodeId id) {
    const Node& n = from_[id];
    std::vector<NodeId> out(by_.size(), no_node);
    if (n.kind == NodeKind::argument) {
      for (std::size_t k = 0; k < by_.size(); ++k) {
        if (by_[k] == n.index) out[k] = builder_.number(n.type, 1);
      }
      return out;
    }
    if (n.kind == NodeKind::convert) {
      for (std::size_t k = 0; k < by_.size(); ++k) {
        const NodeId t = tangent(n.operands[0], k);
        if (t != no_node) out[k] = builder_.convert(t, n.type);
      }
      return out;
    }
    const Flows partial = flows(id, Term(builder_, builder_.number(n.type, 1)));
    for (std::size_t k = 0; k < by_.size(); ++k) {
      for (std::size_t j = 0; j < partial.size(); ++j) {
        const NodeId t = tangent(n.operands[j], k);
        if (t == no_node || partial[j].is_zero) continue;
        const Term here(builder_, partial[j].as(builder_, n.type), partial[j].guard);
        const Term term = here * Term(builder_, t);
        const NodeId v = settled(term, no_node);
        out[k] = out[k] == no_node ? v : builder_.op(OpId::add, {out[k], v});
      }
    }
    return out;
  }
  NodeId tangent(NodeId id, std::size_t k) const {
    return is_active(id) ? tangents_[static_cast<std::size_t>(id)][k] : no_node;
  }
  void copy_loop(const Loop& l) {
    std::vector<NodeId> initial, next;
    std::vector<std::pair<NodeId, std::size_t>> carried;  // state and parameter
    for (const NodeId i : l.initial) initial.push_back(map(i));
    for (std::size_t s = 0; s < l.states.size(); ++s) {
      if (!is_active(l.states[s])) continue;
      for (std::size_t k = 0; k < by_.size(); ++k) {
        const NodeId t = tangent(l.initial[s], k);
        initial.push_back(t != no_node ? t : builder_.number(from_[l.states[s]].type, 0));
        carried.emplace_back(static_cast<NodeId>(s), k);
      }
    }
    const int number = builder_.begin_loop(initial);
    const auto new_states = to_.loops[static_cast<std::size_t>(number)].states;
    for (std::size_t s = 0; s < l.states.size(); ++s) map(l.states[s]) = new_states[s];
    for (std::size_t c = 0; c < carried.size(); ++c) {
      const NodeId state = l.states[static_cast<std::size_t>(carried[c].first)];
      tangents_[static_cast<std::size_t>(state)][carried[c].second] = new_states[l.states.size() + c];
    }
    const Loop* outer = inside_;
    inside_ = &l;
    copy(l.first, l.last);
    inside_ = outer;
    for (const NodeId n : l.next) next.push_back(map(n));
    for (const auto& [s, k] : carried) {
      const NodeId t = tangent(l.next[static_cast<std::size_t>(s)], k);
      next.push_back(t != no_node ? t : builder_.number(from_[l.states[static_cast<std::size_t>(s)]].type, 0));
    }
    const std::vector<NodeId> results = builder_.end_loop(number, map(l.condition), next);
    for (std::size_t i = 0; i < from_.nodes.size(); ++i) {
      const Node& n = from_.nodes[i];
      if (n.kind != NodeKind::result || &from_.loops[static_cast<std::size_t>(n.index)] != &l) continue;
      map_[i] = results[static_cast<std::size_t>(n.slot)];
      for (std::size_t c = 0; c < carried.size(); ++c) {
        if (carried[c].first == n.slot) tangents_[i][carried[c].second] = results[l.states.size() + c];
      }
    }
  }

  // --- reverse: what flows from one result to each parameter
  std::vector<NodeId> reverse(NodeId result) {
    std::vector<Term> adjoint(from_.nodes.size(), Term::zero());
    if (is_active(result)) {
      adjoint[static_cast<std::size_t>(result)] = Term(builder_, builder_.number(from_[result].type, 1));
    }
    std::vector<NodeId> out(by_.size(), no_node);
    for (NodeId id = result; id >= 0; --id) {
      const Term g = adjoint[static_cast<std::size_t>(id)];
      if (g.is_zero) continue;
      const Node& n = from_[id];
      if (n.kind == NodeKind::argument) {
        for (std::size_t k = 0; k < by_.size(); ++k) {
          if (by_[k] == n.index) out[k] = g.id;
        }
      } else if (n.kind == NodeKind::convert) {
        accumulate(adjoint, n.operands[0], Term(builder_, builder_.convert(g.id, from_[n.operands[0]].type), g.guard),
                   g.guard);
      } else if (n.kind == NodeKind::op) {
        const Flows f = flows(id, g);
        for (std::size_t j = 0; j < f.size(); ++j) {
          const Term here = f[j].id == no_node && !f[j].is_zero
                                ? Term(builder_, builder_.number(n.type, f[j].literal), f[j].guard)
                                : f[j];
          accumulate(adjoint, n.operands[j], here, passes(here, g) ? g.guard : no_node);
        }
      }
      builder_.place(n.place);
    }
    return out;
  }
  // Whether the term is g itself or its negation, which is 0 already where g's guard does not hold.
  bool passes(const Term& t, const Term& g) const {
    if (t.is_zero || t.id == no_node) return false;
    const Node& n = builder_.node(t.id);
    return t.id == g.id || (n.kind == NodeKind::op && n.op == OpId::neg && n.operands[0] == g.id);
  }
  void accumulate(std::vector<Term>& adjoint, NodeId operand, const Term& t, NodeId settled_under) {
    if (t.is_zero || !is_active(operand)) return;
    Term& sum = adjoint[static_cast<std::size_t>(operand)];
    const NodeId v = settled(t, settled_under);
    if (sum.is_zero) {
      sum = Term(builder_, v, t.guard);
      return;
    }
    const bool everywhere = sum.guard == no_node || t.guard == no_node;
    sum =
        Term(builder_, builder_.op(OpId::add, {sum.id, v}), everywhere ? no_node : builder_.either(sum.guard, t.guard));
  }

  // The term's value, 0 where its guard does not hold; `under`: the guard under which it is so already.
  NodeId settled(const Term& t, NodeId under) {
    if (t.guard == no_node || t.guard == under) return t.id;
    return builder_.op(OpId::where, {t.guard, t.id, builder_.number(builder_.node(t.id).type, 0)});
  }
  Flows flows(NodeId id, const Term& g) {
    const Node& n = from_[id];
    const auto term = [&](std::size_t k) {
      return n.operands[k] == no_node ? Term::zero() : Term(builder_, map(n.operands[k]));
    };
    return flows_of(n.op, g, Term(builder_, map(id)), term(0), term(1), term(2));
  }

  const Graph& from_;
  std::vector<int> by_;
  Graph to_;
  GraphBuilder builder_;
  std::vector<NodeId> map_;
  std::vector<bool> active_, needed_;
  std::vector<std::vector<NodeId>> tangents_;  // empty in reverse mode
  const Loop* inside_ = nullptr;
};

}  // namespace

Graph differentiate(const Graph& g, bool with_value, std::span<const int> by) {
  return Differentiation(g, by).run(with_value);
}

}  // namespace tileweave::trace
