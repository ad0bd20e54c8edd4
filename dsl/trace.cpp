// Runs a decorated function's body into a graph: branches merge variables by `where`, loops unroll or become loop
// nodes, returns, breaks and continues turn into conditions.
#include "tileweave/dsl/trace.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::trace {
namespace {

using ir::OpId;

// A loop of constant count unrolls up to these; longer ones are loops of the graph.
constexpr int most_iterations = 64;
constexpr std::size_t most_nodes = 256;

// A function's run: what it returned so far, and under which conditions it stands.
//
// Outside of loops of the graph a return is a pair (guard, values): `guard` is the path of branch conditions to it. The
// first guard that holds gives the result, so a guard need not exclude earlier returns. Inside of such loops returns go
// to variables, which the loop carries.
struct Frame {
  struct Return {
    NodeId guard;
    std::vector<NodeId> values;
  };
  std::string_view name;
  std::vector<Dtype> result_types;
  const Frame* caller = nullptr;
  std::vector<NodeId> path;  // conditions of the branches around
  std::vector<Return> returns;
  bool ended = false;  // nothing runs any more, in any lane
  int graph_loops = 0;
  NodeId returned = no_node;  // variables, while in a loop of the graph
  std::vector<NodeId> returned_values;
  struct Escape {
    NodeId broken, continued;
    bool is_loop = true;       // else a block: continue passes through
    std::size_t declared = 0;  // how many variables were declared before
  };
  std::vector<std::unique_ptr<Escape>> escapes;  // of the loops and blocks around, innermost last; variables
};

class Tracer {
 public:
  explicit Tracer(Graph& g) : builder(g) {}
  GraphBuilder builder;
  std::vector<NodeId*> variables;
  std::set<NodeId*> counters;  // of for loops, dead after them
  Frame* frame = nullptr;

  // The lanes in which assignments have no effect any more: they left an iteration, a loop or the function.
  NodeId skipped() {
    NodeId s = no_node;
    for (const auto& e : frame->escapes) s = builder.either(builder.either(s, e->broken), e->continued);
    if (frame->graph_loops > 0) s = builder.either(s, frame->returned);
    return s;
  }
  // The lanes that run here; no_node: all that were called.
  NodeId live(const Frame& f) {
    NodeId all = f.caller != nullptr ? live(*f.caller) : no_node;
    for (const NodeId c : f.path) all = builder.both(all, c);
    NodeId gone = no_node;
    for (const auto& e : f.escapes) gone = builder.either(builder.either(gone, e->broken), e->continued);
    if (f.graph_loops > 0) gone = builder.either(gone, f.returned);
    for (const Frame::Return& r : f.returns)
      gone = builder.either(gone, r.guard == no_node ? builder.boolean(true) : r.guard);
    return gone == no_node ? all : builder.both(all, builder.negation(gone));
  }
  // Those in which this variable keeps its value. A lane that left a loop never reads what was declared inside of it,
  // nor the loop's counter; one that returned reads nothing but what it returned.
  NodeId skipped_for(NodeId* variable) {
    // What was returned is read after all loops, though it is declared by the outermost loop of the graph.
    if (is_result(variable)) return skipped();
    const auto at = static_cast<std::size_t>(std::ranges::find(variables, variable) - variables.begin());
    bool is_own_counter = counters.contains(variable);
    NodeId s = no_node;
    for (const auto& e : frame->escapes) {
      if (at >= e->declared && variable != &e->broken && variable != &e->continued) continue;
      if (!is_own_counter) s = builder.either(s, e->broken);
      s = builder.either(s, e->continued);
      is_own_counter = false;
    }
    return s;
  }
  bool is_result(const NodeId* variable) const {
    if (frame->graph_loops == 0) return false;
    return variable == &frame->returned ||
           std::ranges::any_of(frame->returned_values, [&](const NodeId& v) { return &v == variable; });
  }
  void set(NodeId* variable, NodeId value) {
    const NodeId s = skipped_for(variable);
    *variable = s == no_node ? value : builder.op(OpId::where, {s, *variable, value});
  }
  std::vector<NodeId> snapshot() const {
    std::vector<NodeId> values;
    for (const NodeId* v : variables) values.push_back(*v);
    return values;
  }
  void restore(const std::vector<NodeId>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) *variables[i] = values[i];
  }
  std::vector<NodeId> finish(const Place& p);
  void trace_loop(Test condition, void* c, Step body, void* b, Step increment, void* i);
  // Runs `body` with a place to break to.
  void escapable(bool is_loop, const std::function<void()>& body);

 private:
  struct LoopCode {
    Test condition;
    void* condition_object;
    Step body;
    void* body_object;
    Step increment;
    void* increment_object;
  };
  bool unroll(const LoopCode& code);
  void make_loop(const LoopCode& code);
  // One iteration on the states; gives the condition and leaves the next values in the variables.
  NodeId iteration(const LoopCode& code, NodeId live_before, NodeId* go);
  bool condition_assigns(const LoopCode& code);
};

thread_local Tracer* tracing = nullptr;

Tracer& tracer() {
  if (tracing == nullptr) {
    throw_internal_error(std::source_location::current(), "a decorated function's body runs outside of trace_graph");
  }
  return *tracing;
}

std::vector<NodeId> Tracer::finish(const Place& p) {
  Frame& f = *frame;
  if (f.returns.empty()) throw_record_error(p, "the decorated function '" + std::string(f.name) + "' returns nothing");
  std::vector<NodeId> values = f.returns.back().values;
  for (std::size_t i = f.returns.size() - 1; i-- > 0;) {
    const Frame::Return& r = f.returns[i];
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] = r.guard == no_node ? r.values[k] : builder.op(OpId::where, {r.guard, r.values[k], values[k]});
    }
  }
  return values;
}

// Runs the loop as straight code while its condition is constant. False where it is not, or the loop is long:
// everything is as before then, but for iterations that are done for good.
bool Tracer::unroll(const LoopCode& code) {
  GraphBuilder::Mark start = builder.mark();
  std::vector<NodeId> before = snapshot();
  const std::size_t returns = frame->returns.size();
  Frame::Escape& escape = *frame->escapes.back();
  for (int n = 0;; ++n) {
    const GraphBuilder::Mark here = builder.mark();
    const std::vector<NodeId> now = snapshot();
    const auto runs = builder.constant_bool(code.condition(code.condition_object));
    const auto broken = builder.constant_bool(escape.broken);
    if ((runs && !*runs) || (broken && *broken) || frame->ended) return true;
    if (!runs) {
      builder.rewind(here);
      restore(now);
      return false;
    }
    if (n == most_iterations || builder.mark().nodes - start.nodes > most_nodes) {
      builder.rewind(start);
      restore(before);
      frame->returns.resize(returns);
      return false;
    }
    code.body(code.body_object);
    escape.continued = builder.boolean(false);
    code.increment(code.increment_object);
  }
}

NodeId Tracer::iteration(const LoopCode& code, NodeId live_before, NodeId* go) {
  Frame::Escape& escape = *frame->escapes.back();
  const NodeId no = builder.boolean(false);
  const auto stands = [&](NodeId c) {
    const NodeId stopped = builder.either(escape.broken, frame->returned);
    return builder.both(builder.both(c, live_before), builder.negation(stopped));
  };
  NodeId condition = go == nullptr ? stands(code.condition(code.condition_object)) : stands(*go);
  // Lanes that run have not left: within the body these start as false. One that stays so need not be carried.
  NodeId* const flags[] = {&escape.broken, &escape.continued, &frame->returned};
  NodeId states[3];
  for (int k = 0; k < 3; ++k) states[k] = std::exchange(*flags[k], no);
  const auto step = [&] {
    frame->path.push_back(condition);  // for loops inside: other lanes do not run them
    code.body(code.body_object);
    escape.continued = no;
    code.increment(code.increment_object);
    frame->path.pop_back();
  };
  if (go == nullptr) {
    step();
  } else {  // a condition that assigns is part of the body: while (go) { go = condition(); if (go) body(); }
    const NodeId runs = code.condition(code.condition_object);
    set(go, runs);
    const Step call = [](void* f) { (*static_cast<decltype(step)*>(f))(); };
    branch(runs, call, const_cast<void*>(static_cast<const void*>(&step)), nullptr, nullptr);
  }
  for (int k = 0; k < 3; ++k) {
    if (*flags[k] == no) *flags[k] = states[k];
  }
  return condition;
}

bool Tracer::condition_assigns(const LoopCode& code) {
  const GraphBuilder::Mark mark = builder.mark();
  const std::vector<NodeId> before = snapshot();
  code.condition(code.condition_object);
  const bool changed = snapshot() != before;
  restore(before);
  builder.rewind(mark);
  return changed;
}

// The loop as a loop of the graph: traced once to find which variables it changes, then with those as its states.
void Tracer::make_loop(const LoopCode& code) {
  Frame& f = *frame;
  const bool outermost = f.graph_loops == 0;
  const NodeId live_before = live(f);
  NodeId go = builder.boolean(true);
  const bool assigns = condition_assigns(code);
  if (assigns) variables.push_back(&go);
  if (outermost) {
    f.returned = builder.boolean(false);
    f.returned_values.clear();
    for (const Dtype t : f.result_types) f.returned_values.push_back(builder.constant(t, 0));
    variables.push_back(&f.returned);
    for (NodeId& v : f.returned_values) variables.push_back(&v);
  }
  ++f.graph_loops;
  const std::vector<NodeId> path = std::move(f.path);
  f.path.clear();

  const std::vector<NodeId> before = snapshot();
  const GraphBuilder::Mark mark = builder.mark();
  std::vector<std::size_t> carried(before.size());
  for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = i;
  int number = 0;
  NodeId condition = no_node;
  for (const bool final : {false, true}) {
    std::vector<NodeId> initial;
    for (const std::size_t i : carried) initial.push_back(before[i]);
    number = builder.begin_loop(initial);
    const GraphBuilder::Mark states = builder.mark();
    for (std::size_t k = 0; k < carried.size(); ++k) {
      *variables[carried[k]] = static_cast<NodeId>(states.nodes - carried.size() + k);
    }
    const std::vector<NodeId> at_start = snapshot();
    condition = iteration(code, live_before, assigns ? &go : nullptr);
    if (final) break;
    std::erase_if(carried, [&](std::size_t i) { return *variables[i] == at_start[i]; });
    builder.rewind(mark);
    restore(before);
  }
  std::vector<NodeId> next;
  for (const std::size_t i : carried) next.push_back(*variables[i]);
  const std::vector<NodeId> results = builder.end_loop(number, condition, next);
  restore(before);
  for (std::size_t k = 0; k < carried.size(); ++k) *variables[carried[k]] = results[k];

  f.path = path;
  --f.graph_loops;
  if (outermost) {
    variables.resize(variables.size() - 1 - f.returned_values.size());
    if (builder.constant_bool(f.returned) != false) {
      NodeId guard = f.returned;
      for (const NodeId c : f.path) guard = builder.both(guard, c);
      f.returns.push_back({guard, f.returned_values});
    }
    f.returned = no_node;
  }
  if (assigns) variables.pop_back();
}

void Tracer::escapable(bool is_loop, const std::function<void()>& body) {
  const NodeId no = builder.boolean(false);
  frame->escapes.push_back(std::make_unique<Frame::Escape>(Frame::Escape{no, no, is_loop, variables.size()}));
  Frame::Escape& escape = *frame->escapes.back();
  variables.push_back(&escape.broken);
  variables.push_back(&escape.continued);
  body();
  variables.resize(variables.size() - 2);
  frame->escapes.pop_back();
}

void Tracer::trace_loop(Test condition, void* c, Step body, void* b, Step increment, void* i) {
  const LoopCode code{condition, c, body, b, increment, i};
  escapable(true, [&] {
    if (!unroll(code)) make_loop(code);
  });
}

// The frame of one run of a function, and the tracer's while it lives.
class FrameScope {
 public:
  FrameScope(Tracer& t, Frame& f) : tracer_(t), before_(t.frame) { t.frame = &f; }
  ~FrameScope() { tracer_.frame = before_; }
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;

 private:
  Tracer& tracer_;
  Frame* before_;
};
class TracerScope {
 public:
  explicit TracerScope(Tracer& t) : before_(tracing) { tracing = &t; }
  ~TracerScope() { tracing = before_; }
  TracerScope(const TracerScope&) = delete;
  TracerScope& operator=(const TracerScope&) = delete;

 private:
  Tracer* before_;
};

}  // namespace

NodeId constant_node(Dtype type, std::uint64_t bits) { return tracer().builder.constant(type, bits); }
NodeId op_node(OpId id, std::initializer_list<NodeId> operands) { return tracer().builder.op(id, operands); }
NodeId convert_node(NodeId x, Dtype to) { return tracer().builder.convert(x, to); }
NodeId bitcast_node(NodeId x, Dtype to) { return tracer().builder.bitcast(x, to); }
void place_statement(const Place& p) { tracer().builder.place(p); }
void declare(NodeId* variable, bool is_counter) {
  tracer().variables.push_back(variable);
  if (is_counter) tracer().counters.insert(variable);
}
void retire(NodeId* variable) noexcept {
  if (tracing == nullptr) return;
  std::erase(tracing->variables, variable);
  tracing->counters.erase(variable);
}
void assign(NodeId* variable, NodeId value) { tracer().set(variable, value); }

NodeId table_node(Dtype type, std::span<const std::uint64_t> bits, NodeId index) {
  GraphBuilder& b = tracer().builder;
  const Node i = b.node(index);
  const auto last = static_cast<std::int64_t>(bits.size()) - 1;
  if (i.kind == NodeKind::constant) {
    const std::int64_t at = std::clamp<std::int64_t>(ir::host::to_int64(i.bits, i.type), 0, last);
    return b.constant(type, bits[static_cast<std::size_t>(at)]);
  }
  NodeId value = b.constant(type, bits.back());
  for (std::int64_t k = last; k-- > 0;) {
    const NodeId here = b.op(OpId::le, {index, b.constant(i.type, ir::host::from_int(k, i.type))});
    value = b.op(OpId::where, {here, b.constant(type, bits[static_cast<std::size_t>(k)]), value});
  }
  return value;
}

void branch(NodeId condition, Step then, void* then_object, Step otherwise, void* otherwise_object) {
  Tracer& t = tracer();
  GraphBuilder& b = t.builder;
  Frame& f = *t.frame;
  if (const auto known = b.constant_bool(condition)) {
    if (*known) then(then_object);
    if (!*known && otherwise != nullptr) otherwise(otherwise_object);
    return;
  }
  const std::vector<NodeId> before = t.snapshot();
  const auto run = [&](NodeId guard, Step step, void* object) {
    f.ended = false;
    if (guard != no_node) f.path.push_back(guard);
    if (step != nullptr) step(object);
    if (guard != no_node) f.path.pop_back();
    return f.ended;
  };
  const bool was_ended = f.ended;
  const bool then_ended = run(condition, then, then_object);
  const std::vector<NodeId> after_then = t.snapshot();
  t.restore(before);
  // After a return in every lane of the first branch its guard comes first: the second need not exclude it.
  const bool otherwise_ended = run(then_ended ? no_node : b.negation(condition), otherwise, otherwise_object);
  f.ended = was_ended || (then_ended && otherwise_ended);
  if (then_ended) return;
  for (std::size_t i = 0; i < before.size(); ++i) {
    NodeId& v = *t.variables[i];
    v = otherwise_ended ? after_then[i] : b.op(OpId::where, {condition, after_then[i], v});
  }
}

NodeId choose(NodeId condition, Test a, void* a_object, Test b, void* b_object) {
  Tracer& t = tracer();
  struct Arm {
    Test test;
    void* object;
    NodeId value = no_node;
  };
  Arm arms[2] = {{a, a_object}, {b, b_object}};
  const Step run = [](void* o) {
    Arm& arm = *static_cast<Arm*>(o);
    arm.value = arm.test(arm.object);
  };
  branch(condition, run, &arms[0], run, &arms[1]);
  if (arms[0].value == no_node) return arms[1].value;
  if (arms[1].value == no_node) return arms[0].value;
  return t.builder.op(OpId::where, {condition, arms[0].value, arms[1].value});
}

void loop(Test condition, void* condition_object, Step body, void* body_object, Step increment,
          void* increment_object) {
  tracer().trace_loop(condition, condition_object, body, body_object, increment, increment_object);
}

void leave(std::span<const NodeId> values) {
  Tracer& t = tracer();
  Frame& f = *t.frame;
  if (f.ended) return;
  if (f.graph_loops > 0) {
    for (std::size_t k = 0; k < values.size(); ++k) t.set(&f.returned_values[k], values[k]);
    t.set(&f.returned, t.builder.boolean(true));
    return;
  }
  NodeId guard = no_node;
  for (const NodeId c : f.path) guard = t.builder.both(guard, c);
  const NodeId skipped = t.skipped();
  if (skipped != no_node && t.builder.constant_bool(skipped) == true) return;
  if (skipped != no_node && !t.builder.constant_bool(skipped)) {
    guard = t.builder.both(guard, t.builder.negation(skipped));
  } else {
    f.ended = true;
  }
  f.returns.push_back({guard, {values.begin(), values.end()}});
}

void leave_loop() {
  Tracer& t = tracer();
  t.set(&t.frame->escapes.back()->broken, t.builder.boolean(true));
}
void next_iteration() {
  Tracer& t = tracer();
  auto loop = t.frame->escapes.rbegin();
  while (!(*loop)->is_loop) ++loop;
  t.set(&(*loop)->continued, t.builder.boolean(true));
}
void block(Step body, void* body_object) {
  tracer().escapable(false, [&] { body(body_object); });
}

std::vector<NodeId> inlined(std::string_view name, std::span<const Dtype> results, Step body, void* object) {
  Tracer& t = tracer();
  Frame f;
  f.name = name;
  f.result_types.assign(results.begin(), results.end());
  f.caller = t.frame;
  const FrameScope scope(t, f);
  body(object);
  return t.finish({});
}

Graph trace_graph(std::string_view name, std::span<const Dtype> parameters, std::span<const Dtype> results,
                  void (*body)(const NodeId* arguments)) {
  Graph g;
  g.name = name;
  g.parameters.assign(parameters.begin(), parameters.end());
  Tracer t(g);
  const TracerScope tracer_scope(t);
  Frame f;
  f.name = name;
  f.result_types.assign(results.begin(), results.end());
  const FrameScope frame_scope(t, f);
  std::vector<NodeId> arguments;
  for (std::size_t i = 0; i < parameters.size(); ++i) arguments.push_back(t.builder.argument(static_cast<int>(i)));
  body(arguments.data());
  g.results = t.finish({});
  return g;
}

}  // namespace tileweave::trace
