// The graph of a decorated function: one lane's computation as typed nodes and loops. Made once by trace.h, then
// evaluated on the host (trace_eval.cpp), recorded as tile IR (trace_record.cpp) and differentiated
// (trace_gradient.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tileweave/dsl/record.h"
#include "tileweave/jit/ir/ops.h"

namespace tileweave::trace {

using NodeId = std::int32_t;
inline constexpr NodeId no_node = -1;

enum class NodeKind : std::uint8_t {
  constant,  // bits
  argument,  // index: which
  op,        // op over operands
  convert,   // operands[0] as `type`
  bitcast,   // the bits of operands[0] as `type`
  state,     // of loop `index`: its carried value `slot`, as an iteration begins
  result,    // of loop `index`: its carried value `slot`, after the last iteration
};

struct Node {
  NodeKind kind = NodeKind::constant;
  ir::OpId op = ir::OpId::add;
  Dtype type = Dtype::f32;
  std::array<NodeId, 3> operands{no_node, no_node, no_node};
  std::uint64_t bits = 0;
  std::int32_t index = 0, slot = 0;
  Place place;
};

// while (condition) states = next. The nodes of the body, conditions and next values included, are [first, last);
// results follow. Nodes of the body may use those before it, and nothing outside uses them.
struct Loop {
  NodeId first = 0, last = 0;
  NodeId condition = no_node;
  std::vector<NodeId> initial, states, next;
};

struct Graph {
  std::string name;
  std::vector<Dtype> parameters;
  std::vector<Node> nodes;  // operands before users
  std::vector<Loop> loops;
  std::vector<NodeId> results;

  const Node& operator[](NodeId id) const { return nodes[static_cast<std::size_t>(id)]; }
  // Marks the nodes that the results need.
  std::vector<bool> needed() const;
};

// The value of a graph on host scalars: storage bits in and out. Bit-identical to every back end, contraction aside.
// Throws LaunchError where a loop does not end.
std::vector<std::uint64_t> evaluate(const Graph& g, std::span<const std::uint64_t> arguments);
// Records the graph on tiles; arguments have the element types of its parameters, results the shape of all of them.
std::vector<record::Raw> record_graph(const Graph& g, std::span<const record::Raw> arguments, const Place& p);
// A graph of the same parameters: first the value, if wanted, then the derivative by each parameter named, for each
// result of `g` in turn. Without loops in reverse mode, else tangents travel with the loops. What a `where` does not
// take contributes nothing.
Graph differentiate(const Graph& g, bool with_value, std::span<const int> by);
// One node a line, for tests and messages.
std::string to_text(const Graph& g);

// Appends nodes: folds constants by the exact meaning of each op, and gives an equal visible node instead of a new one.
class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& g) : graph_(g) {}

  NodeId constant(Dtype type, std::uint64_t bits);
  NodeId boolean(bool v) { return constant(Dtype::boolean, v ? 1 : 0); }
  NodeId number(Dtype type, double v);
  NodeId argument(int index);
  NodeId op(ir::OpId id, std::initializer_list<NodeId> operands) { return op(id, {operands.begin(), operands.size()}); }
  NodeId op(ir::OpId id, std::span<const NodeId> operands);
  NodeId convert(NodeId x, Dtype to);
  NodeId bitcast(NodeId x, Dtype to);

  NodeId both(NodeId a, NodeId b);    // a & b of bools; no_node is true
  NodeId either(NodeId a, NodeId b);  // a | b of bools; no_node is false
  NodeId negation(NodeId a);
  std::optional<bool> constant_bool(NodeId id) const;
  const Node& node(NodeId id) const { return graph_[id]; }

  // A loop whose body is appended between the two. The states' types are those of `initial`.
  int begin_loop(std::span<const NodeId> initial);
  std::vector<NodeId> end_loop(int loop, NodeId condition, std::span<const NodeId> next);

  // Where the graph stands, and back to there.
  struct Mark {
    std::size_t nodes, loops;
  };
  Mark mark() const { return {graph_.nodes.size(), graph_.loops.size()}; }
  void rewind(const Mark& m);
  // Nodes made since the last call stand at this place.
  void place(const Place& p);

 private:
  using Key = std::tuple<NodeKind, ir::OpId, Dtype, std::array<NodeId, 3>, std::uint64_t, std::int32_t, std::int32_t>;
  NodeId add(const Node& n);
  NodeId simpler(ir::OpId id, std::span<const NodeId> operands);
  void forget(NodeId from);

  Graph& graph_;
  std::map<Key, NodeId> visible_;
  std::size_t placed_ = 0;
};

}  // namespace tileweave::trace
