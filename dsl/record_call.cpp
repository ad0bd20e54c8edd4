// Records calls of functions: a function once for each set of argument types, a call op at each place that calls it.
// Behind function.h. Validity crosses a call as what it is made of, so that a reduction in a function, or of what it
// gave, leaves the same lanes valid as it would without the call.
#include <algorithm>
#include <string>
#include <unordered_set>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::record {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;

// The ops that project_mask (validity.cpp) looks through.
bool is_structure(const Op& op) {
  return op.id == OpId::bit_and || op.id == OpId::trans || op.id == OpId::expand_dims || op.id == OpId::broadcast;
}

// Calls leaf(v) for what a mask is made of: a view and offsets, or masks that nothing is known of.
template <class Leaf>
void each_leaf(Value* mask, std::unordered_set<Value*>& seen, const Leaf& leaf) {
  if (!seen.insert(mask).second) return;
  const bool is_inside = mask->def != nullptr && mask->def->id == OpId::inside;
  if (mask->def == nullptr || !(is_inside || is_structure(*mask->def))) return leaf(mask);
  for (Value* v : mask->def->operands) is_inside ? leaf(v) : each_leaf(v, seen, leaf);
}

using ValueMap = std::unordered_map<const Value*, Value*>;

// The same mask in another function, on what stands there for its leaves.
Value* rebuild(ir::Builder& b, Value* mask, ValueMap& map, const Place& p) {
  if (const auto known = map.find(mask); known != map.end()) return known->second;
  std::vector<Value*> operands;
  for (Value* v : mask->def->operands) operands.push_back(rebuild(b, v, map, p));
  return map[mask] = b.remake(*mask->def, operands, p);
}

// What a call hands over: the arguments, then what their validities hang on, each once.
class Arguments {
 public:
  Arguments(Recorder& r, std::span<const Raw> given, const Place& p) {
    for (const Raw& a : given) {
      values_.push_back(r.use(a, p));
      masks_.push_back(a.mask);
    }
    std::unordered_set<Value*> seen;
    for (Value* m : masks_) {
      if (m != nullptr) each_leaf(m, seen, [&](Value* v) { add(v); });
    }
  }

  const std::vector<Value*>& values() const { return values_; }

  // Equal text: equal types, and validities of equal make.
  std::string key() const {
    std::string s;
    for (std::size_t i = 0; i < masks_.size(); ++i) {
      s += ir::to_string(values_[i]->type) + (masks_[i] == nullptr ? "" : " valid " + described(masks_[i])) + "; ";
    }
    for (std::size_t i = masks_.size(); i < values_.size(); ++i) s += ir::to_string(values_[i]->type) + "; ";
    return s;
  }

  // The parameters of the function being recorded, as its body sees them.
  std::vector<Raw> make_parameters(Recorder& callee, const Place& p) const {
    ValueMap map;
    std::vector<Value*> parameters;
    for (Value* v : values_) {
      parameters.push_back(callee.function.add_param(v->type, "p" + std::to_string(parameters.size())));
      map.try_emplace(v, parameters.back());
    }
    std::vector<Raw> raw;
    for (std::size_t i = 0; i < masks_.size(); ++i) {
      Value* mask = masks_[i] == nullptr ? nullptr : rebuild(callee.builder, masks_[i], map, p);
      raw.push_back({parameters[i], mask, callee.session});
    }
    return raw;
  }

 private:
  std::size_t number_of(const Value* v) const {
    std::size_t i = 0;
    while (i < values_.size() && values_[i] != v) ++i;
    return i;
  }
  void add(Value* v) {
    if (number_of(v) == values_.size()) values_.push_back(v);
  }

  std::string described(const Value* mask) const {
    const std::size_t own = number_of(mask);
    if (own < values_.size()) return "%" + std::to_string(own);
    std::string s = std::string(ir::op_info(mask->def->id).name) + "(";
    for (const Value* v : mask->def->operands) s += described(v) + " ";
    for (const index_t i : mask->def->attrs.get_list(ir::AttrKey::perm)) s += std::to_string(i) + ",";
    return s + std::to_string(mask->def->attrs.get_int(ir::AttrKey::axis)) + ")" + ir::to_string(mask->type);
  }

  std::vector<Value*> values_;
  std::vector<Value*> masks_;
};

void refuse_recursion(const CallTable& calls, const Callee& callee, const Place& p) {
  std::size_t first = 0;
  while (first < calls.active.size() && calls.active[first].identity != callee.identity) ++first;
  if (first == calls.active.size()) return;
  std::string cycle;
  std::vector<Note> notes;
  for (std::size_t i = first; i < calls.active.size(); ++i) {
    cycle += std::string(calls.active[i].name) + " -> ";
    notes.push_back({calls.active[i].place, "function '" + std::string(calls.active[i].name) + "' is made here"});
  }
  throw_record_error(p, "function '" + std::string(callee.name) + "' calls itself: " + cycle + std::string(callee.name),
                     "a function of a kernel is recorded once and cannot recur: use tw::while_ or tw::range", notes);
}

// The name in the IR: the user's, with a number from the second instance on.
std::string name_for(const CallTable& calls, std::string_view name) {
  std::string unique(name);
  const auto taken = [&] {
    return std::ranges::any_of(calls.instances, [&](const CalleeInstance& i) { return i.name == unique; });
  };
  for (int n = 2; taken(); ++n) unique = std::string(name) + "." + std::to_string(n);
  return unique;
}

// Ends the body with the results, then whatever their validities hang on that is no parameter.
CalleeInstance end_function(Recorder& callee, const std::vector<Raw>& results, const Place& p) {
  CalleeInstance made;
  std::vector<Value*> given;
  for (const Raw& r : results) {
    given.push_back(callee.use(r, p));
    made.masks.push_back(r.mask);
  }
  std::unordered_set<Value*> seen;
  for (Value* m : made.masks) {
    if (m == nullptr) continue;
    each_leaf(m, seen, [&](Value* v) {
      const bool is_parameter = v->def == nullptr && v->region == nullptr;
      if (!is_parameter && made.extra.emplace(v, given.size()).second) given.push_back(v);
    });
  }
  for (const Value* v : given) made.types.push_back(v->type);
  callee.builder.insert(OpId::yield, std::move(given), {}, {}, p);
  return made;
}

CalleeInstance record_function(Recorder& caller, const Callee& callee, const Arguments& arguments,
                               const CalleeBody& body) {
  CallTable& calls = *caller.calls;
  Recorder r{std::string(callee.name), callee.place};
  r.calls = &calls;
  r.keeps_results = caller.keeps_results;
  calls.active.push_back(callee);
  CalleeInstance made;
  {
    const CalleeScope scope(r);
    const std::vector<Raw> results = body(arguments.make_parameters(r, callee.place));
    r.finish();
    made = end_function(r, results, r.last);
    if (r.keeps_results) name_function_values(r.function, r.results);
  }
  calls.active.pop_back();
  made.identity = callee.identity;
  made.name = name_for(calls, callee.name);
  r.function.name = made.name;
  calls.functions->push_back(std::move(r.function));
  return made;
}

const CalleeInstance& instance_of(Recorder& r, const Callee& callee, const Arguments& arguments, std::string key,
                                  const CalleeBody& body, const Place& p) {
  CallTable& calls = *r.calls;
  refuse_recursion(calls, callee, p);
  for (const CalleeInstance& i : calls.instances) {
    if (i.identity == callee.identity && i.key == key) return i;
  }
  try {
    CalleeInstance made = record_function(r, callee, arguments, body);
    made.key = std::move(key);
    calls.instances.push_back(std::move(made));
  } catch (const RecordError& e) {
    Diagnostic d = e.diagnostic();
    d.notes.push_back({p, "function '" + std::string(callee.name) + "' is called here"});
    throw_record_error(d.place, d.message, d.help, d.notes);
  }
  return calls.instances.back();
}

}  // namespace

std::vector<Raw> call(const Callee& callee, std::span<const Raw> given, std::span<const std::uint64_t> constants,
                      const CalleeBody& body, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  if (!r.is_function()) r.calls->functions = &r.function.callees;
  const Arguments arguments(r, given, p);
  std::string key = arguments.key();
  for (const std::uint64_t word : constants) key += std::to_string(word) + "; ";
  const CalleeInstance& to = instance_of(r, callee, arguments, std::move(key), body, p);

  const ir::Attrs attrs{{ir::AttrKey::name, to.name}};
  const Op* op = r.builder.insert(OpId::call, arguments.values(), attrs, to.types, p);
  ValueMap map;
  for (const auto& [leaf, number] : to.extra) map[leaf] = op->results[number];
  const ir::Function& recorded = *std::ranges::find(*r.calls->functions, to.name, &ir::Function::name);
  for (const ir::Param& parameter : recorded.params) {
    map[parameter.value] = arguments.values()[static_cast<std::size_t>(parameter.value->index)];
  }
  std::vector<Raw> results;
  for (std::size_t i = 0; i < to.masks.size(); ++i) {
    Value* mask = to.masks[i] == nullptr ? nullptr : rebuild(r.builder, to.masks[i], map, p);
    results.push_back(r.wrap(op->results[i], mask));
  }
  return results;
}

}  // namespace tileweave::record
