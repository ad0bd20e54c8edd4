// Binds the declarations and assignments of a kernel's lambda to recorded values. See debug_names.h.
#include "tileweave/dsl/debug_names.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tileweave/dsl/debug_match.h"
#include "tileweave/dsl/debug_source.h"

namespace tileweave::record {
namespace {

using ir::Op;
using ir::OpId;
using ir::Region;
using ir::Value;

class Namer {
 public:
  // `prefix` goes before every name that a debugger shows.
  Namer(ir::Function& f, const std::vector<RecordedResult>& results, const KernelSource& source, std::string prefix)
      : f_(f), s_(source), prefix_(std::move(prefix)), matcher_(f, results, source) {
    for (const RecordedResult& r : results) masks_[r.value] = r.mask;
  }

  // A kernel's parameters are variables of their own; those of a function are values like others.
  void show_parameters() {
    for (std::size_t i = std::min(f_.params.size(), s_.parameters.size()); i-- > 0;) {
      Value* v = f_.params[i].value;
      if (!v->type.is_view()) insert(f_.body(), 0, v, s_.parameters[i], f_.place);
    }
  }

  void run() {
    name_parameters();
    for (const SourceStatement& st : s_.statements) {
      if (st.kind == SourceStatement::Kind::variable) bind_variable(st);
    }
    name_assignments();
    for (const SourceStatement& st : s_.statements) {
      if (st.kind == SourceStatement::Kind::loop_index) bind_index(st);
      if (st.kind == SourceStatement::Kind::value) bind_value(st);
      if (st.kind == SourceStatement::Kind::bindings) bind_results(st);
    }
  }

 private:
  void name_parameters() {
    for (std::size_t i = 0; i < f_.params.size() && i < s_.parameters.size(); ++i) {
      f_.params[i].value->name = s_.parameters[i];
      if (!f_.params[i].value->type.is_view()) matcher_.define(s_.parameters[i], {f_.params[i].value});
    }
  }

  Place place_of(const SourceStatement& st) const { return {f_.place.file, st.line, 0}; }

  void bind_value(const SourceStatement& st) {
    Candidates values = matcher_.match(st.begin, st.end);
    if (values.empty()) values = matcher_.anchored(st.begin, st.end);
    for (Value* v : values) show(v, st.name, place_of(st), true);
    matcher_.define(st.name, std::move(values));
  }

  // Structured bindings are the results of one operation, in order: a call, or a scan of several tiles.
  void bind_results(const SourceStatement& st) {
    for (Value* last : matcher_.anchored(st.begin, st.end)) {
      if (last->def == nullptr || last->def->results.size() < st.names.size() || st.names.size() < 2) continue;
      for (std::size_t i = 0; i < st.names.size(); ++i) {
        show(last->def->results[i], st.names[i], place_of(st), false);
        matcher_.define(st.names[i], {last->def->results[i]});
      }
    }
  }

  bool is_in(const Place& p, const SourceStatement& st) const {
    return p.line >= st.line && p.line <= st.last_line && std::string_view(p.file) == f_.place.file;
  }

  void bind_index(const SourceStatement& st) {
    Candidates values;
    each_op(f_.body(), [&](Op& op) {
      if (op.id == OpId::for_ && is_in(op.place, st)) values.push_back(op.regions[0]->args[0]);
    });
    for (Value* v : values) show(v, st.name, place_of(st), false);
    matcher_.define(st.name, std::move(values));
  }

  void bind_variable(const SourceStatement& st) {
    Candidates vars;
    each_op(f_.body(), [&](Op& op) {
      if (op.id == OpId::var && is_in(op.place, st)) vars.push_back(op.results[0]);
    });
    for (Value* v : vars) {
      variables_[v] = st.name;
      insert_after(*v->def, v->def->operands[0], st.name, place_of(st));
    }
    matcher_.define(st.name, std::move(vars));
  }

  // An assignment has no place of its own: it is the next one in the text, from the last place known before it.
  void name_assignments() {
    std::vector<Op*> sets;
    each_op(f_.body(), [&](Op& op) {
      if (op.id == OpId::var_set && variables_.contains(op.operands[0])) sets.push_back(&op);
    });
    const SourceStatement* previous = nullptr;
    for (Op* op : sets) {
      const std::string& name = variables_.at(op->operands[0]);
      const SourceStatement* chosen = nullptr;
      for (const SourceStatement& st : s_.statements) {
        if (st.kind != SourceStatement::Kind::assignment || st.name != name || st.last_line < op->place.line) continue;
        if (chosen == nullptr || (previous != nullptr && chosen <= previous && &st > previous)) chosen = &st;
      }
      if (chosen == nullptr) continue;
      previous = chosen;
      const Place stale = op->place;
      if (op->operands[1]->def != nullptr) place_expression(*op->operands[1]->def, stale, place_of(*chosen));
      op->place = place_of(*chosen);
      insert_after(*op, op->operands[1], name, op->place);
    }
  }

  // Operators have no place of their own: what is assigned was computed by the assignment.
  static void place_expression(Op& op, const Place& stale, const Place& p) {
    const bool is_operator = ir::is_elementwise(op.id) || op.id == OpId::var_get || op.id == OpId::broadcast ||
                             op.id == OpId::expand_dims || op.id == OpId::convert;
    if (!is_operator || op.place.line != stale.line || op.place.column != stale.column) return;
    op.place = p;
    for (const Value* v : op.operands) {
      if (v->def != nullptr) place_expression(*v->def, stale, p);
    }
  }

  // A debug_value for v, and one for its validity; `moves` puts a lazily recorded value where the user wrote it.
  void show(Value* v, const std::string& name, const Place& p, bool moves) {
    if (!shown_.insert({v, name}).second) return;
    Value* mask = masks_.contains(v) ? masks_.at(v) : nullptr;
    if (v->def == nullptr) {
      if (v->region != nullptr && v->region->parent != nullptr) insert(*v->region, 0, v, name, p);
      return;
    }
    if (moves) move_up(*v->def, p);
    insert_after(*v->def, v, name, p);
    // The validity of one lane says nothing that the value's use does not.
    if (mask != nullptr && mask->def != nullptr && mask->type.elements() > 1) {
      insert_after(later(*v->def, *mask->def), mask, name + "_valid", p);
    }
  }

  static std::size_t index_of(const Op& op) {
    const auto& ops = op.parent->ops;
    return static_cast<std::size_t>(std::ranges::find_if(ops, [&](const auto& o) { return o.get() == &op; }) -
                                    ops.begin());
  }
  static Op& later(Op& a, Op& b) {
    if (a.parent != b.parent) return a;
    return index_of(a) < index_of(b) ? b : a;
  }

  void insert_after(Op& op, Value* v, const std::string& name, const Place& p) {
    insert(*op.parent, index_of(op) + 1, v, name, p);
  }

  void insert(Region& r, std::size_t at, Value* v, const std::string& name, const Place& p) const {
    while (at < r.ops.size() && r.ops[at]->id == OpId::debug_value) ++at;
    auto op = std::make_unique<Op>();
    op->id = OpId::debug_value;
    op->operands = {v};
    op->attrs.set(ir::AttrKey::text, prefix_ + name);
    op->place = p;
    op->parent = &r;
    r.ops.insert(r.ops.begin() + static_cast<std::ptrdiff_t>(at), std::move(op));
  }

  static bool is_movable(const Op& op) { return ir::op_info(op.id).effects == ir::Effects::pure; }

  // An expression is recorded where it is used. Where it stands above other statements in the text, its ops go up
  // there, as far as what they need allows.
  void move_up(Op& op, const Place& p) {
    Region& r = *op.parent;
    const std::size_t own = index_of(op);
    std::size_t to = 0;
    while (to < own && !(r.ops[to]->place.line > p.line && std::string_view(r.ops[to]->place.file) == p.file)) ++to;
    std::set<const Op*> needed;
    for (bool done = false; !done && to <= own;) {
      done = true;
      needed = {&op};
      for (std::size_t i = own + 1; i-- > to;) {
        if (!needed.contains(r.ops[i].get())) continue;
        if (!is_movable(*r.ops[i])) {
          to = i + 1;
          done = false;
          break;
        }
        for (const Value* v : r.ops[i]->operands) {
          if (v->def != nullptr && v->def->parent == &r) needed.insert(v->def);
        }
      }
    }
    if (to > own) return;
    for (std::size_t i = to; i <= own; ++i) {
      Op& o = *r.ops[i];
      if (o.id == OpId::debug_value && o.place.line <= p.line) needed.insert(&o);
      if (needed.contains(&o) && o.id != OpId::debug_value) o.place = p;
    }
    std::vector<std::unique_ptr<Op>> first, rest;
    for (std::size_t i = to; i <= own; ++i) {
      (needed.contains(r.ops[i].get()) ? first : rest).push_back(std::move(r.ops[i]));
    }
    std::ranges::move(rest, std::back_inserter(first));
    std::ranges::move(first, r.ops.begin() + static_cast<std::ptrdiff_t>(to));
  }

  ir::Function& f_;
  const KernelSource& s_;
  const std::string prefix_;
  ExpressionMatcher matcher_;
  std::map<const Value*, Value*> masks_;
  std::map<const Value*, std::string> variables_;
  std::set<std::pair<const Value*, std::string>> shown_;
};

}  // namespace

void name_parameters(ir::Function& f) {
  const KernelSource source = read_kernel_source(f.place, f.name);
  for (std::size_t i = 0; i < f.params.size() && i < source.parameters.size(); ++i) {
    f.params[i].value->name = source.parameters[i];
  }
}

void name_values(ir::Function& f, const std::vector<RecordedResult>& results) {
  const KernelSource source = read_kernel_source(f.place, f.name);
  if (source.found) Namer(f, results, source, "").run();
}

void name_function_values(ir::Function& f, const std::vector<RecordedResult>& results) {
  const KernelSource source = read_kernel_source(f.place, f.name, "function");
  if (!source.found) return;
  Namer namer(f, results, source, f.name + "_");
  namer.run();
  namer.show_parameters();
}

}  // namespace tileweave::record
