// The host twin of a decorated function: its graph evaluated on host scalars, by the functions that define each op.
// The same functions fold constants and run the interpreter, so all of them and the back ends agree bit for bit.
#include <array>

#include "tileweave/dsl/trace_graph.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::trace {
namespace {

constexpr std::int64_t most_rounds = std::int64_t{1} << 32;

class Evaluation {
 public:
  Evaluation(const Graph& g, std::span<const std::uint64_t> arguments)
      : graph_(g), needed_(g.needed()), arguments_(arguments), values_(g.nodes.size(), 0) {}

  std::vector<std::uint64_t> run() {
    evaluate(0, static_cast<NodeId>(graph_.nodes.size()));
    std::vector<std::uint64_t> out;
    for (const NodeId r : graph_.results) out.push_back(at(r));
    return out;
  }

 private:
  std::uint64_t& at(NodeId id) { return values_[static_cast<std::size_t>(id)]; }

  // The nodes of [first, last), but not those inside of loops that begin there: these run when their first result is
  // met.
  void evaluate(NodeId first, NodeId last) {
    for (NodeId id = first; id < last; ++id) {
      if (const Loop* l = loop_at(id); l != nullptr) {
        if (is_needed(*l)) run_loop(*l);
        id = l->last - 1;
        continue;
      }
      if (needed_[static_cast<std::size_t>(id)]) at(id) = value(graph_[id]);
    }
  }
  const Loop* loop_at(NodeId id) const {
    const Loop* outermost = nullptr;
    for (const Loop& l : graph_.loops) {
      if (l.first == id && &l != inside_ && (outermost == nullptr || l.last > outermost->last)) outermost = &l;
    }
    return outermost;
  }
  bool is_needed(const Loop& l) const { return needed_[static_cast<std::size_t>(l.condition)]; }

  void run_loop(const Loop& l) {
    std::vector<std::uint64_t> states;
    for (const NodeId i : l.initial) states.push_back(at(i));
    const Loop* outer = inside_;
    for (std::int64_t round = 0;; ++round) {
      for (std::size_t k = 0; k < states.size(); ++k) at(l.states[k]) = states[k];
      inside_ = &l;
      evaluate(l.first, l.last);
      inside_ = outer;
      if (at(l.condition) == 0) break;
      if (round == most_rounds) {
        throw_launch_error(graph_[l.condition].place,
                           "the decorated function '" + graph_.name + "': a loop does not end");
      }
      for (std::size_t k = 0; k < states.size(); ++k) states[k] = at(l.next[k]);
    }
    loop_results_[&l - graph_.loops.data()] = states;
  }

  std::uint64_t value(const Node& n) {
    switch (n.kind) {
      case NodeKind::constant:
        return n.bits;
      case NodeKind::argument:
        return arguments_[static_cast<std::size_t>(n.index)];
      case NodeKind::convert:
        return ir::host::convert_bits(at(n.operands[0]), graph_[n.operands[0]].type, n.type);
      case NodeKind::bitcast:
        return at(n.operands[0]);
      case NodeKind::state:
        return values_[static_cast<std::size_t>(
            graph_.loops[static_cast<std::size_t>(n.index)].states[static_cast<std::size_t>(n.slot)])];
      case NodeKind::result:
        return loop_results_[n.index][static_cast<std::size_t>(n.slot)];
      case NodeKind::op:
        break;
    }
    std::array<std::uint64_t, 3> bits{};
    std::size_t count = 0;
    for (const NodeId o : n.operands) {
      if (o != no_node) bits[count++] = at(o);
    }
    const Dtype type = graph_[n.operands[n.op == ir::OpId::where ? 1 : 0]].type;
    return ir::host::eval_elementwise(n.op, type, {bits.data(), count});
  }

  const Graph& graph_;
  std::vector<bool> needed_;
  std::span<const std::uint64_t> arguments_;
  std::vector<std::uint64_t> values_;
  std::map<std::ptrdiff_t, std::vector<std::uint64_t>> loop_results_;
  const Loop* inside_ = nullptr;
};

}  // namespace

std::vector<std::uint64_t> evaluate(const Graph& g, std::span<const std::uint64_t> arguments) {
  return Evaluation(g, arguments).run();
}

}  // namespace tileweave::trace
