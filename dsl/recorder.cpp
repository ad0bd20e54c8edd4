// Opens and closes recordings, guards against tiles of other recordings or closed regions, and against loops left
// early. Under every function of record.h.
#include "tileweave/dsl/recorder.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/limits.h"

namespace tileweave::record {
namespace {

thread_local Recorder* recording = nullptr;

std::uint32_t next_session() {
  static std::atomic<std::uint32_t> counter{0};
  return ++counter;
}

// Whether an op of `current` may use a value made in `home`: one of the regions around it.
bool is_open(const ir::Region* home, const ir::Region* current) {
  for (const ir::Region* r = current; r != nullptr;) {
    if (r == home) return true;
    r = r->parent != nullptr ? r->parent->parent : nullptr;
  }
  return false;
}

}  // namespace

void MaskFacts::implies(ir::Value* mask, ir::Value* weaker) {
  if (mask == nullptr || weaker == nullptr || mask == weaker || does_imply(mask, weaker)) return;
  std::vector<ir::Value*> known = {weaker};
  if (const auto it = weaker_.find(weaker); it != weaker_.end())
    known.insert(known.end(), it->second.begin(), it->second.end());
  auto& list = weaker_[mask];
  list.insert(list.end(), known.begin(), known.end());
}

bool MaskFacts::does_imply(ir::Value* mask, ir::Value* weaker) const {
  if (mask == weaker || weaker == nullptr) return true;
  const auto it = weaker_.find(mask);
  return it != weaker_.end() && std::find(it->second.begin(), it->second.end(), weaker) != it->second.end();
}

Recorder::Recorder(std::string name, const Place& place)
    : function(std::move(name)), builder(function), session(next_session()), last(place) {
  function.place = place;
}

void Recorder::close_if() {
  if (!if_open) return;
  if_open = false;
  builder.end_if();
}

Place Recorder::begin(const Place& p) {
  is_placed = p.known();
  if (is_placed) last = p;
  if (broken.known()) {
    throw_record_error(broken, "a tw::range loop is left early, by break, return or goto",
                       "a loop is recorded once and runs to its end: use tw::while_ with a condition");
  }
  // verify says how many there are; a C++ loop that unrolls without end is not recorded to its end for that.
  if (builder.region()->ops.size() > 4 * ir::max_block_ops) {
    throw_record_error(last, "a block of operations is over the limit of " + std::to_string(ir::max_block_ops),
                       "a C++ loop unrolls into the kernel; use tw::range for a loop that is compiled once");
  }
  close_if();
  return last;
}

ir::Value* Recorder::use(const Raw& raw, const Place& p) {
  if (raw.session != session || raw.value == nullptr) {
    throw_record_error(
        p,
        "a tile of another recording is used in " + std::string(is_function() ? "function '" : "kernel '") +
            function.name + "'",
        is_function() ? "give it to the tw::function as an argument"
                      : "a tile lives while its kernel's lambda runs: keep no tile in a global or static variable");
  }
  const ir::Region* home = raw.value->def != nullptr ? raw.value->def->parent : raw.value->region;
  if (home != nullptr && !is_open(home, builder.region())) {
    throw_record_error(p, "a tile made inside a loop or a branch is used after its end",
                       "declare a tw::Var before it and assign to it inside",
                       {{raw.value->def != nullptr ? raw.value->def->place : Place(), "the tile was made here"}});
  }
  return raw.value;
}

void Recorder::finish() { begin({}); }

void Recorder::adopt(const ir::Function& recorded) {
  const ir::Options options = function.options;
  function = recorded.clone();
  function.options = options;
  if (!options.checked) return;
  // In checked mode a launch gives each pointer with the memory it may reach (Frame::pointer).
  auto& ops = function.body().ops;
  for (std::size_t i = function.params.size(); i-- > 0;) {
    ir::Value* pointer = function.params[i].value;
    if (!pointer->type.is_pointer()) continue;
    ir::Value* view = function.new_value(ir::Type::view(pointer->type.elem, 1, pointer->type.is_const));
    view->index = pointer->index;
    view->name = pointer->name;
    function.params[i].value = view;
    auto op = std::make_unique<ir::Op>();
    op->id = ir::OpId::view_base;
    op->operands = {view};
    op->results = {pointer};
    op->place = function.place;
    op->parent = &function.body();
    pointer->def = op.get();
    pointer->index = 0;
    ops.insert(ops.begin(), std::move(op));
  }
}

Recorder& current(const Place& p) {
  if (recording == nullptr) {
    throw_record_error(p, "a tile operation is used outside of a kernel",
                       "call it from the lambda given to tw::kernel; whole tensors have operators of their own");
  }
  return *recording;
}

bool is_active() { return recording != nullptr; }

Scope::Scope(Recorder& r) {
  if (recording != nullptr) {
    throw_record_error(r.function.place,
                       "kernel '" + r.function.name + "' is recorded while kernel '" + recording->function.name +
                           "' is being recorded",
                       "launch kernels and use tensors outside of a kernel's lambda");
  }
  recording = &r;
}
Scope::~Scope() { recording = nullptr; }

CalleeScope::CalleeScope(Recorder& r) : caller_(recording) { recording = &r; }
CalleeScope::~CalleeScope() { recording = caller_; }

}  // namespace tileweave::record
