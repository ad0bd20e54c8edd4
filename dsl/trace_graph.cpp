// Builds the graph of a decorated function: constant folding, reuse of equal nodes, loops.
// Below trace.cpp, which knows statements and control flow; everything here is pure expressions.
#include "tileweave/dsl/trace_graph.h"

#include <algorithm>

#include "tileweave/jit/base/dtype.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::trace {
namespace {

using ir::OpId;
using ir::OpTypes;

Dtype result_type(OpId id, Dtype operand) {
  const OpTypes t = ir::op_info(id).types;
  return t == OpTypes::Compare || t == OpTypes::Test ? Dtype::boolean : operand;
}

bool is_constant(const Node& n, std::uint64_t bits) { return n.kind == NodeKind::constant && n.bits == bits; }

}  // namespace

std::vector<bool> Graph::needed() const {
  std::vector<bool> seen(nodes.size(), false);
  std::vector<NodeId> todo(results.begin(), results.end());
  const auto want = [&](NodeId id) {
    if (id != no_node) todo.push_back(id);
  };
  while (!todo.empty()) {
    const auto at = static_cast<std::size_t>(todo.back());
    todo.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const Node& n = nodes[at];
    std::ranges::for_each(n.operands, want);
    if (n.kind != NodeKind::result) continue;
    const Loop& l = loops[static_cast<std::size_t>(n.index)];
    want(l.condition);
    for (const auto* list : {&l.initial, &l.states, &l.next}) std::ranges::for_each(*list, want);
  }
  return seen;
}

NodeId GraphBuilder::add(const Node& n) {
  const Key key{n.kind, n.op, n.type, n.operands, n.bits, n.index, n.slot};
  if (const auto at = visible_.find(key); at != visible_.end()) return at->second;
  graph_.nodes.push_back(n);
  const auto id = static_cast<NodeId>(graph_.nodes.size() - 1);
  visible_.emplace(key, id);
  return id;
}

void GraphBuilder::forget(NodeId from) {
  std::erase_if(visible_, [&](const auto& entry) { return entry.second >= from; });
}

NodeId GraphBuilder::constant(Dtype type, std::uint64_t bits) {
  Node n;
  n.type = type;
  n.bits = bits;
  return add(n);
}

NodeId GraphBuilder::number(Dtype type, double v) { return constant(type, ir::host::from_double(v, type)); }

NodeId GraphBuilder::argument(int index) {
  Node n;
  n.kind = NodeKind::argument;
  n.type = graph_.parameters[static_cast<std::size_t>(index)];
  n.index = index;
  return add(n);
}

std::optional<bool> GraphBuilder::constant_bool(NodeId id) const {
  const Node& n = graph_[id];
  if (n.kind != NodeKind::constant) return std::nullopt;
  return n.bits != 0;
}

NodeId GraphBuilder::negation(NodeId a) {
  if (const auto known = constant_bool(a)) return boolean(!*known);
  if (node(a).kind == NodeKind::op && node(a).op == OpId::bit_not) return node(a).operands[0];
  return op(OpId::bit_not, {a});
}

NodeId GraphBuilder::both(NodeId a, NodeId b) {
  if (a == no_node) return b;
  if (b == no_node) return a;
  return op(OpId::bit_and, {a, b});
}

NodeId GraphBuilder::either(NodeId a, NodeId b) {
  if (a == no_node) return b;
  if (b == no_node) return a;
  return op(OpId::bit_or, {a, b});
}

// What `id` of these operands is without an op, or no_node. Only rewrites that keep every bit.
NodeId GraphBuilder::simpler(OpId id, std::span<const NodeId> operands) {
  if (id == OpId::where) {
    if (operands[1] == operands[2]) return operands[1];
    if (const auto known = constant_bool(operands[0])) return *known ? operands[1] : operands[2];
    const Node &c = node(operands[0]), &a = node(operands[1]), &b = node(operands[2]);
    if (c.kind == NodeKind::op && c.op == OpId::bit_not)
      return op(OpId::where, {c.operands[0], operands[2], operands[1]});
    // Under the same condition again: the branch is known.
    if (a.kind == NodeKind::op && a.op == OpId::where && a.operands[0] == operands[0]) {
      return op(OpId::where, {operands[0], a.operands[1], operands[2]});
    }
    if (b.kind == NodeKind::op && b.op == OpId::where && b.operands[0] == operands[0]) {
      return op(OpId::where, {operands[0], operands[1], b.operands[2]});
    }
    if (a.type == Dtype::boolean) {
      if (is_constant(a, 1)) return either(operands[0], operands[2]);
      if (is_constant(a, 0)) return both(negation(operands[0]), operands[2]);
      if (is_constant(b, 0)) return both(operands[0], operands[1]);
      if (is_constant(b, 1)) return either(negation(operands[0]), operands[1]);
    }
    return no_node;
  }
  if (id == OpId::bit_and || id == OpId::bit_or) {
    if (operands[0] == operands[1]) return operands[0];
    if (node(operands[0]).type != Dtype::boolean) return no_node;
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      const NodeId other = operands[1 - side];
      if (const auto known = constant_bool(operands[side])) {
        return *known == (id == OpId::bit_or) ? operands[side] : other;
      }
      const Node& n = node(operands[side]);
      if (n.kind == NodeKind::op && n.op == OpId::bit_not && n.operands[0] == other) return boolean(id == OpId::bit_or);
    }
  }
  if (id == OpId::bit_not && node(operands[0]).kind == NodeKind::op && node(operands[0]).op == OpId::bit_not) {
    return node(operands[0]).operands[0];
  }
  return no_node;
}

NodeId GraphBuilder::op(OpId id, std::span<const NodeId> operands) {
  if (const NodeId s = simpler(id, operands); s != no_node) return s;
  const Dtype type = node(operands[id == OpId::where ? 1 : 0]).type;
  Node n;
  n.kind = NodeKind::op;
  n.op = id;
  n.type = result_type(id, type);
  bool all_constant = true;
  std::array<std::uint64_t, 3> bits{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    n.operands[i] = operands[i];
    all_constant = all_constant && node(operands[i]).kind == NodeKind::constant;
    bits[i] = node(operands[i]).bits;
  }
  if (all_constant) return constant(n.type, ir::host::eval_elementwise(id, type, {bits.data(), operands.size()}));
  return add(n);
}

NodeId GraphBuilder::convert(NodeId x, Dtype to) {
  const Node& from = node(x);
  if (from.type == to) return x;
  if (from.kind == NodeKind::constant) return constant(to, ir::host::convert_bits(from.bits, from.type, to));
  Node n;
  n.kind = NodeKind::convert;
  n.type = to;
  n.operands[0] = x;
  return add(n);
}

NodeId GraphBuilder::bitcast(NodeId x, Dtype to) {
  const Node& from = node(x);
  if (from.type == to) return x;
  if (from.kind == NodeKind::constant) return constant(to, from.bits);
  Node n;
  n.kind = NodeKind::bitcast;
  n.type = to;
  n.operands[0] = x;
  return add(n);
}

int GraphBuilder::begin_loop(std::span<const NodeId> initial) {
  const auto number = static_cast<std::int32_t>(graph_.loops.size());
  graph_.loops.emplace_back();
  Loop l;
  l.first = static_cast<NodeId>(graph_.nodes.size());
  l.initial.assign(initial.begin(), initial.end());
  for (std::size_t i = 0; i < initial.size(); ++i) {
    Node n;
    n.kind = NodeKind::state;
    n.type = node(initial[i]).type;
    n.index = number;
    n.slot = static_cast<std::int32_t>(i);
    l.states.push_back(add(n));
  }
  graph_.loops.back() = std::move(l);
  return number;
}

std::vector<NodeId> GraphBuilder::end_loop(int loop, NodeId condition, std::span<const NodeId> next) {
  Loop& l = graph_.loops[static_cast<std::size_t>(loop)];
  l.last = static_cast<NodeId>(graph_.nodes.size());
  l.condition = condition;
  l.next.assign(next.begin(), next.end());
  forget(l.first);
  std::vector<NodeId> results;
  for (std::size_t i = 0; i < l.next.size(); ++i) {
    Node n;
    n.kind = NodeKind::result;
    n.type = node(l.states[i]).type;
    n.index = loop;
    n.slot = static_cast<std::int32_t>(i);
    results.push_back(add(n));
  }
  return results;
}

void GraphBuilder::rewind(const Mark& m) {
  forget(static_cast<NodeId>(m.nodes));
  graph_.nodes.resize(m.nodes);
  graph_.loops.resize(m.loops);
  placed_ = std::min(placed_, m.nodes);
}

void GraphBuilder::place(const Place& p) {
  for (; placed_ < graph_.nodes.size(); ++placed_) {
    if (!graph_.nodes[placed_].place.known()) graph_.nodes[placed_].place = p;
  }
}

namespace {
std::string node_text(const Graph& g, NodeId id) {
  const Node& n = g[id];
  if (n.kind == NodeKind::constant) {
    if (is_float(n.type)) {
      std::array<char, 40> text{};
      std::snprintf(text.data(), text.size(), "%.9g", ir::host::to_double(n.bits, n.type));
      return text.data();
    }
    return std::to_string(ir::host::to_int64(n.bits, n.type));
  }
  return "%" + std::to_string(id);
}
}  // namespace

std::string to_text(const Graph& g) {
  const std::vector<bool> needed = g.needed();
  std::string out;
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    if (!needed[i] || n.kind == NodeKind::constant) continue;
    out += "%" + std::to_string(i) + " = ";
    switch (n.kind) {
      case NodeKind::constant:
        break;
      case NodeKind::argument:
        out += "argument " + std::to_string(n.index);
        break;
      case NodeKind::op:
        out += ir::op_info(n.op).name;
        break;
      case NodeKind::convert:
        out += "convert";
        break;
      case NodeKind::bitcast:
        out += "bitcast";
        break;
      case NodeKind::state:
      case NodeKind::result:
        out +=
            (n.kind == NodeKind::state ? "state " : "result ") + std::to_string(n.index) + "." + std::to_string(n.slot);
        break;
    }
    for (const NodeId o : n.operands) {
      if (o != no_node) out += " " + node_text(g, o);
    }
    out += " : " + std::string(dtype_name(n.type)) + "\n";
  }
  for (const NodeId r : g.results) out += "return " + node_text(g, r) + "\n";
  return out;
}

}  // namespace tileweave::trace
