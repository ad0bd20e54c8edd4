// Functions, their attributes, values and deep copies.
// Made by the builder, walked by everything after it.
#include "tileweave/jit/ir/function.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <unordered_map>

#include "tileweave/jit/base/fork.h"

namespace tileweave::ir {
namespace {

constexpr std::string_view attr_names[] = {"axis",        "extents",    "perm",    "value",    "start",     "pad",
                                           "masked",      "inbounds",   "combine", "saturate", "precision", "starts",
                                           "reverse",     "descending", "hint",    "text",     "place",     "name",
                                           "constraints", "order",      "scope"};

// Copies regions, with a map from the values of the old function to those of the new.
class Cloner {
 public:
  explicit Cloner(Function& to) : to_(to) {}
  Value* copy_value(const Value& v) {
    Value* n = to_.new_value(v.type);
    n->index = v.index;
    n->name = v.name;
    map_[&v] = n;
    return n;
  }
  void copy_region(const Region& from, Region& to) {
    for (const Value* a : from.args) {
      Value* n = copy_value(*a);
      n->region = &to;
      to.args.push_back(n);
    }
    for (const auto& op : from.ops) to.ops.push_back(copy_op(*op, to));
  }

 private:
  std::unique_ptr<Op> copy_op(const Op& from, Region& parent) {
    auto op = std::make_unique<Op>();
    op->id = from.id;
    op->attrs = from.attrs;
    op->place = from.place;
    op->parent = &parent;
    for (const Value* v : from.operands) op->operands.push_back(map_.at(v));
    for (const auto& r : from.regions) {
      op->regions.push_back(std::make_unique<Region>());
      op->regions.back()->parent = op.get();
      copy_region(*r, *op->regions.back());
    }
    for (const Value* v : from.results) {
      Value* n = copy_value(*v);
      n->def = op.get();
      op->results.push_back(n);
    }
    return op;
  }
  Function& to_;
  std::unordered_map<const Value*, Value*> map_;
};

}  // namespace

std::string_view attr_name(AttrKey k) { return attr_names[static_cast<std::size_t>(k)]; }

std::optional<AttrKey> attr_from_name(std::string_view name) {
  const auto* at = std::find(std::begin(attr_names), std::end(attr_names), name);
  if (at == std::end(attr_names)) return std::nullopt;
  return static_cast<AttrKey>(at - std::begin(attr_names));
}

Attrs::Attrs(std::initializer_list<std::pair<AttrKey, AttrValue>> list) {
  for (const auto& [k, v] : list) set(k, v);
}

void Attrs::set(AttrKey k, AttrValue v) {
  const auto at =
      std::lower_bound(items_.begin(), items_.end(), k, [](const auto& i, AttrKey x) { return i.first < x; });
  if (at != items_.end() && at->first == k) {
    at->second = std::move(v);
  } else {
    items_.insert(at, {k, std::move(v)});
  }
}

void Attrs::erase(AttrKey k) {
  std::erase_if(items_, [k](const auto& i) { return i.first == k; });
}

const AttrValue* Attrs::find(AttrKey k) const {
  for (const auto& [key, value] : items_) {
    if (key == k) return &value;
  }
  return nullptr;
}

std::int64_t Attrs::get_int(AttrKey k, std::int64_t otherwise) const {
  const AttrValue* v = find(k);
  const auto* i = v != nullptr ? std::get_if<std::int64_t>(v) : nullptr;
  return i != nullptr ? *i : otherwise;
}

const std::string& Attrs::get_text(AttrKey k) const {
  static const std::string& none = *new std::string;  // never destroyed, like all below: threads may compile at exit
  const AttrValue* v = find(k);
  const auto* s = v != nullptr ? std::get_if<std::string>(v) : nullptr;
  return s != nullptr ? *s : none;
}

const std::vector<std::int64_t>& Attrs::get_list(AttrKey k) const {
  static const auto& none = *new std::vector<std::int64_t>;
  const AttrValue* v = find(k);
  const auto* l = v != nullptr ? std::get_if<std::vector<std::int64_t>>(v) : nullptr;
  return l != nullptr ? *l : none;
}

Function::Function(std::string n) : name(std::move(n)), body_(std::make_unique<Region>()) {}

Value* Function::new_value(Type t) {
  values_.push_back(std::make_unique<Value>());
  values_.back()->type = t;
  return values_.back().get();
}

Value* Function::add_param(Type t, std::string n) {
  Value* v = new_value(t);
  v->index = static_cast<int>(params.size());
  v->name = std::move(n);
  params.push_back({v, {}, {}});
  return v;
}

Function Function::clone() const {
  Function f(name);
  f.place = place;
  f.options = options;
  Cloner cloner(f);
  for (const Param& p : params) {
    f.params.push_back({cloner.copy_value(*p.value), p.facts, p.constant});
  }
  cloner.copy_region(*body_, *f.body_);
  for (const Function& callee : callees) f.callees.push_back(callee.clone());
  return f;
}

const Function* Function::find_callee(std::string_view callee) const {
  const auto at =
      std::find_if(callees.begin(), callees.end(), [callee](const Function& c) { return c.name == callee; });
  return at == callees.end() ? nullptr : &*at;
}

const char* intern_path(std::string_view path) {
  static constinit LeafMutex mutex;
  const std::lock_guard lock(mutex);
  static auto& paths = *new std::set<std::string, std::less<>>;
  const auto at = paths.find(path);
  return at != paths.end() ? at->c_str() : paths.emplace(path).first->c_str();
}

}  // namespace tileweave::ir
