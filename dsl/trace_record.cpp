// Writes a decorated function's graph down as tile IR, through record.h: straight code as it is, loops as `while` with
// the lanes that have finished masked off.
#include "tileweave/dsl/trace_graph.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::trace {
namespace {

using ir::OpId;
using record::Raw;

class Recording {
 public:
  Recording(const Graph& g, std::span<const Raw> arguments, const Place& p)
      : graph_(g),
        arguments_(arguments),
        place_(p),
        needed_(g.needed()),
        values_(g.nodes.size()),
        varies_(g.nodes.size()) {
    join_lanes();
    if (!g.loops.empty()) find_varying();
  }

  std::vector<Raw> run() {
    walk(0, static_cast<NodeId>(graph_.nodes.size()), needed_);
    std::vector<Raw> out;
    for (const NodeId r : graph_.results) {
      const bool partial = lanes_.value != nullptr && record::shape(at(r), place_) != record::shape(lanes_, place_);
      out.push_back(partial ? spread(at(r), place_) : at(r));
    }
    return out;
  }

 private:
  Raw& at(NodeId id) { return values_[static_cast<std::size_t>(id)]; }
  Place place_of(const Node& n) const { return n.place.known() ? n.place : place_; }
  static int rank(const Raw& r, const Place& p) { return static_cast<int>(record::shape(r, p).size()); }

  // lanes_: true in every lane of the arguments' common shape, valid where all of them are. Null where all are scalars.
  void join_lanes() {
    for (const Raw& a : arguments_) {
      if (rank(a, place_) == 0) continue;
      const Raw on = record::constant(record::literal(true), Dtype::boolean, place_);
      const Raw lanes = record::fill_like(a, on, place_);
      const Raw both[] = {lanes_, lanes};
      lanes_ = lanes_.value == nullptr ? lanes : record::elementwise(OpId::bit_and, both, place_);
    }
  }
  // Which nodes differ from lane to lane. Those that do not stay scalars: a loop over them needs no lane to agree.
  void find_varying() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
        if (!varies_[i] && varies(graph_.nodes[i])) varies_[i] = changed = true;
      }
    }
  }
  bool varies(NodeId id) const { return id != no_node && varies_[static_cast<std::size_t>(id)]; }
  bool varies(const Node& n) const {
    if (n.kind == NodeKind::argument) return rank(arguments_[static_cast<std::size_t>(n.index)], place_) > 0;
    if (n.kind == NodeKind::state || n.kind == NodeKind::result) {
      const Loop& l = graph_.loops[static_cast<std::size_t>(n.index)];
      const auto k = static_cast<std::size_t>(n.slot);
      return varies(l.condition) || varies(l.initial[k]) || varies(l.next[k]);
    }
    return varies(n.operands[0]) || varies(n.operands[1]) || varies(n.operands[2]);
  }

  // The nodes of [first, last) in `wanted`; a loop as a whole.
  void walk(NodeId first, NodeId last, const std::vector<bool>& wanted) {
    for (NodeId id = first; id < last; ++id) {
      if (const Loop* l = loop_at(id); l != nullptr && l != inside_) {
        if (is_wanted(*l, wanted)) record_loop(*l);
        id = l->last - 1;
      } else if (wanted[static_cast<std::size_t>(id)]) {
        at(id) = record_node(graph_[id], id);
      }
    }
  }
  const Loop* loop_at(NodeId id) const {
    for (const Loop& l : graph_.loops) {
      if (l.first == id) return &l;
    }
    return nullptr;
  }
  static bool is_wanted(const Loop& l, const std::vector<bool>& wanted) {
    return wanted[static_cast<std::size_t>(l.condition)];
  }

  Raw record_node(const Node& n, NodeId id) {
    const Place p = place_of(n);
    switch (n.kind) {
      case NodeKind::constant:
        return constant(n, p);
      case NodeKind::argument:
        return arguments_[static_cast<std::size_t>(n.index)];
      case NodeKind::convert:
        return record::convert(at(n.operands[0]), n.type, false, p);
      case NodeKind::bitcast:
        return record::bitcast(at(n.operands[0]), n.type, p);
      case NodeKind::state:
      case NodeKind::result:
        return at(id);  // written by record_loop
      case NodeKind::op:
        break;
    }
    Raw operands[3];
    std::size_t count = 0;
    for (const NodeId o : n.operands) {
      if (o != no_node) operands[count++] = at(o);
    }
    return record::elementwise(n.op, {operands, count}, p);
  }
  static Raw constant(const Node& n, const Place& p) {
    if (is_bool(n.type)) return record::constant(record::literal(n.bits != 0), n.type, p);
    if (is_float(n.type)) {
      const double v = ir::host::to_double(n.bits, n.type);
      if (v == v) return record::constant(record::literal(v), n.type, p);
      Node bits = n;  // a NaN keeps its bits
      bits.type = bits_type(n.type);
      return record::bitcast(constant(bits, p), n.type, p);
    }
    const std::int64_t v = ir::host::to_int64(n.bits, n.type);
    return record::constant(n.type == Dtype::u64 ? record::literal(static_cast<std::uint64_t>(v)) : record::literal(v),
                            n.type, p);
  }
  static Dtype bits_type(Dtype t) {
    switch (dtype_bytes(t)) {
      case 1:
        return Dtype::u8;
      case 2:
        return Dtype::u16;
      case 4:
        return Dtype::u32;
      default:
        return Dtype::u64;
    }
  }

  // A value in the shape and validity of all lanes.
  Raw spread(const Raw& v, const Place& p) {
    const std::vector<index_t> extents = record::shape(lanes_, p);
    return {record::broadcast(v, extents, p).value, lanes_.mask, lanes_.session};
  }
  Raw any_lane(Raw flag, const Place& p) {
    while (rank(flag, p) > 0) flag = record::reduce(flag, 0, record::Reduction::any, false, p);
    return flag;
  }

  void record_loop(const Loop& l) {
    const Place p = place_of(graph_[l.condition]);
    const std::vector<bool> test = needed_for(l);
    const Loop* outer = inside_;
    inside_ = &l;
    std::vector<Raw> variables;
    for (std::size_t k = 0; k < l.states.size(); ++k) {
      const bool lanes = varies(l.states[k]);
      Raw& state = at(l.states[k]);
      state = lanes ? spread(at(l.initial[k]), p) : at(l.initial[k]);
      variables.push_back(record::make_var(state, p));
    }
    const bool by_lane = varies(l.condition);
    walk(l.first, l.last, test);
    const Raw go = record::make_var(by_lane ? spread(at(l.condition), p) : at(l.condition), p);
    record::begin_while(p);
    const Raw flag = record::read_var(go, p);
    record::while_condition(by_lane ? any_lane(flag, p) : flag, p);
    record_body(l, variables, go, by_lane, test, p);
    record::end_while();
    inside_ = outer;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& n = graph_.nodes[i];
      if (n.kind == NodeKind::result && &graph_.loops[static_cast<std::size_t>(n.index)] == &l) {
        values_[i] = record::read_var(variables[static_cast<std::size_t>(n.slot)], p);
      }
    }
  }
  void record_body(const Loop& l, const std::vector<Raw>& variables, const Raw& go, bool by_lane,
                   const std::vector<bool>& test, const Place& p) {
    for (std::size_t k = 0; k < l.states.size(); ++k) at(l.states[k]) = record::read_var(variables[k], p);
    walk(l.first, l.last, needed_);
    const Raw runs = record::read_var(go, p);
    std::vector<Raw> next;
    for (std::size_t k = 0; k < l.states.size(); ++k) {
      const Raw choice[] = {runs, at(l.next[k]), at(l.states[k])};
      next.push_back(by_lane ? record::elementwise(OpId::where, choice, p) : at(l.next[k]));
    }
    for (std::size_t k = 0; k < l.states.size(); ++k) {
      record::write_var(variables[k], next[k], p);
      at(l.states[k]) = record::read_var(variables[k], p);
    }
    walk(l.first, l.last, test);
    const Raw still[] = {runs, at(l.condition)};
    record::write_var(go, by_lane ? record::elementwise(OpId::bit_and, still, p) : at(l.condition), p);
  }
  // The body's nodes that its condition needs.
  std::vector<bool> needed_for(const Loop& l) const {
    Graph view;
    view.nodes = graph_.nodes;
    view.loops = graph_.loops;
    view.results = {l.condition};
    std::vector<bool> wanted = view.needed();
    for (NodeId id = 0; id < l.first; ++id) wanted[static_cast<std::size_t>(id)] = false;
    for (const NodeId s : l.states) wanted[static_cast<std::size_t>(s)] = false;
    return wanted;
  }

  const Graph& graph_;
  std::span<const Raw> arguments_;
  Place place_;
  std::vector<bool> needed_;
  std::vector<Raw> values_;
  std::vector<bool> varies_;
  Raw lanes_;
  const Loop* inside_ = nullptr;
};

}  // namespace

std::vector<Raw> record_graph(const Graph& g, std::span<const Raw> arguments, const Place& p) {
  return Recording(g, arguments, p).run();
}

}  // namespace tileweave::trace
