// The interpreter's driver: programs of a grid, regions, control flow, mutable tiles and element-wise ops.
// The other kinds of op stand in interpret_shape.cpp, interpret_memory.cpp and interpret_reduce.cpp.
#include "tileweave/jit/ir/interpret.h"

#include <algorithm>
#include <source_location>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/print_text.h"
#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/ir/interpret_frame.h"

namespace tileweave::ir {
namespace {

std::uint64_t scalar_of_slot(std::uint64_t slot, const Type& t) {
  if (t.is_pointer()) return slot;
  if (is_bool(t.elem)) return (slot & 0xff) != 0 ? 1 : 0;
  const int bits = dtype_info(t.elem).bits;
  return bits == 64 ? slot : slot & ((std::uint64_t{1} << bits) - 1);
}

ViewValue view_of_slots(std::span<const std::uint64_t> slots, int rank) {
  ViewValue v;
  const auto r = static_cast<std::size_t>(rank);
  v.base = slots[0];
  for (std::size_t i = 0; i < r; ++i) {
    v.extents.push_back(static_cast<std::int64_t>(slots[1 + i]));
    v.strides.push_back(static_cast<std::int64_t>(slots[1 + r + i]));
  }
  return v;
}

std::size_t slots_of(const Type& t) { return t.is_view() ? 1 + 2 * static_cast<std::size_t>(t.rank) : 1; }

// Trips of a loop from lo to hi, without overflow.
std::uint64_t trip_count(std::int64_t lo, std::int64_t hi, std::int64_t step) {
  const auto l = static_cast<std::uint64_t>(lo), h = static_cast<std::uint64_t>(hi),
             s = static_cast<std::uint64_t>(step);
  if (step > 0 && lo < hi) return (h - l - 1) / s + 1;
  if (step < 0 && lo > hi) return (l - h - 1) / (0 - s) + 1;
  return 0;
}

}  // namespace

std::size_t slot_count(const Function& f) {
  std::size_t n = 0;
  for (const Param& p : f.params) n += slots_of(p.value->type);
  return n;
}

void Interpreter::run(std::span<const std::uint64_t> slots, const Grid& grid) {
  for (std::int64_t z = 0; z < grid[2]; ++z) {
    for (std::int64_t y = 0; y < grid[1]; ++y) {
      for (std::int64_t x = 0; x < grid[0]; ++x) run_program(slots, grid, {x, y, z});
    }
  }
  if (failure_) throw_launch_error(failure_->place, failure_->message, failure_->help, LaunchError::Kind::fault);
}

void Interpreter::note_failure(const std::string& message, std::string_view place, const std::string& help) {
  if (!failure_) failure_ = {message, help, place_from_text(place)};
}

void Interpreter::run_program(std::span<const std::uint64_t> slots, const Grid& grid, const Grid& program) {
  if (slots.size() != slot_count(function_)) {
    throw_internal_error(std::source_location::current(), "'" + function_.name + "' takes " +
                                                              std::to_string(slot_count(function_)) + " slots, got " +
                                                              std::to_string(slots.size()));
  }
  Frame frame(*this, slots, grid, program);
  if (races_) races_->begin_program(frame.linear_program());
  frame.run_ops(function_.body());
}

double Interpreter::bound_at(const void* address) const {
  const auto at = memory_error_.find(reinterpret_cast<std::uint64_t>(address));
  return at == memory_error_.end() ? 0.0 : at->second;
}

Frame::Frame(Interpreter& o, std::span<const std::uint64_t> slots, const Grid& g, const Grid& p)
    : owner(o), grid(g), program(p) {
  for (const Param& param : owner.function_.params) {
    const Type& t = param.value->type;
    if (t.is_view()) {
      views[param.value] = view_of_slots(slots, t.rank);
    } else {
      tiles[param.value] = {{scalar_of_slot(slots[0], t)}, {}};
    }
    slots = slots.subspan(slots_of(t));
  }
}

Frame::Frame(const Frame& from, const Function& callee, std::span<Value* const> arguments)
    : owner(from.owner), grid(from.grid), program(from.program), caller(&from) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Value* parameter = callee.params[i].value;
    if (parameter->type.is_view()) {
      views[parameter] = from.views.at(arguments[i]);
    } else {
      tiles[parameter] = from.get(arguments[i]);
    }
  }
}

std::uint64_t Frame::decide(const Value* v) {
  const TileValue& t = get(v);
  if (t.error_at(0) != 0) undetermined();
  return t.bits[0];
}

void Frame::count_clipped(const Op& op, std::int64_t lanes) {
  if (lanes == 0 || !checked()) return;
  auto& list = owner.clipped_;
  const auto at = std::find_if(list.begin(), list.end(), [&](const ClippedAccess& c) { return c.op == &op; });
  if (at == list.end()) {
    list.push_back({&op, lanes});
  } else {
    at->lanes += lanes;
  }
}

double Frame::memory_error(std::uint64_t address) const {
  const auto at = owner.memory_error_.find(address);
  return at == owner.memory_error_.end() ? 0.0 : at->second;
}

void Frame::set_memory_error(std::uint64_t address, double e) {
  if (!bounds()) return;
  if (e == 0) {
    owner.memory_error_.erase(address);
  } else {
    owner.memory_error_[address] = e;
  }
}

void Frame::run_ops(const Region& r) {
  for (const auto& op : r.ops) run_op(*op);
}

void Frame::run_op(const Op& op) {
  if (is_elementwise(op.id)) return interpret_elementwise(*this, op);
  switch (op.id) {
#define TILEWEAVE_STRUCTURAL_OP(id, mnemonic, effects, legal, text) \
  case OpId::id:                                                    \
    return interpret_##id(*this, op);
#include "tileweave/jit/ir/structural_ops.def"
    default:
      break;
  }
}

std::vector<TileValue> Frame::run_region(const Region& r, std::vector<TileValue> args, std::size_t skip) {
  for (std::size_t i = 0; i < args.size(); ++i) set(r.args[i], std::move(args[i]));
  run_ops(r);
  std::vector<TileValue> given;
  const auto& named = r.ops.back()->operands;
  for (std::size_t i = skip; i < named.size(); ++i) given.push_back(get(named[i]));
  return given;
}

void interpret_elementwise(Frame& f, const Op& op) {
  const Dtype t = op.operands.back()->type.elem;
  const host::LaneFunction lane = host::lane_function(op.id, t);
  const auto n = static_cast<std::size_t>(op.results[0]->type.elements());
  std::array<const TileValue*, 3> in{};
  bool exact = true;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    in[k] = &f.get(op.operands[k]);
    exact = exact && in[k]->error.empty();
  }
  const ShortForm* form = f.short_form_of(op);
  exact = exact && form == nullptr;
  TileValue out;
  out.bits.resize(n);
  if (!exact) out.error.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::array<std::uint64_t, 3> bits{};
    std::array<double, 3> errors{};
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      bits[k] = in[k]->bits[i];
      errors[k] = in[k]->error_at(i);
    }
    out.bits[i] = lane(bits[0], bits[1], bits[2]);
    if (!exact) out.error[i] = elementwise_error(op.id, t, std::span(bits).first(op.operands.size()), errors);
    if (form != nullptr) out.error[i] += short_form_error(*form, host::to_double(out.bits[i], t));
  }
  f.set(op.results[0], std::move(out));
}

// --- mutable tiles

void interpret_var(Frame& f, const Op& op) { f.set(op.results[0], f.get(op.operands[0])); }
void interpret_var_get(Frame& f, const Op& op) { f.set(op.results[0], f.get(op.operands[0])); }
void interpret_var_set(Frame& f, const Op& op) { f.set(op.operands[0], f.get(op.operands[1])); }

// --- control flow

namespace {

std::vector<TileValue> values_of(const Frame& f, std::span<Value* const> values) {
  std::vector<TileValue> list;
  for (const Value* v : values) list.push_back(f.get(v));
  return list;
}

void set_results(Frame& f, const Op& op, std::vector<TileValue> values) {
  for (std::size_t i = 0; i < op.results.size(); ++i) f.set(op.results[i], std::move(values[i]));
}

}  // namespace

void interpret_for_(Frame& f, const Op& op) {
  const auto lo = f.decide(op.operands[0]), hi = f.decide(op.operands[1]), step = f.decide(op.operands[2]);
  const std::uint64_t trips =
      trip_count(static_cast<std::int64_t>(lo), static_cast<std::int64_t>(hi), static_cast<std::int64_t>(step));
  std::vector<TileValue> carried = values_of(f, std::span(op.operands).subspan(3));
  for (std::uint64_t k = 0; k < trips; ++k) {
    std::vector<TileValue> args{{{lo + k * step}, {}}};
    for (TileValue& v : carried) args.push_back(std::move(v));
    carried = f.run_region(*op.regions[0], std::move(args));
  }
  set_results(f, op, std::move(carried));
}

void interpret_if_(Frame& f, const Op& op) {
  const bool taken = f.decide(op.operands[0]) != 0;
  set_results(f, op, f.run_region(*op.regions[taken ? 0 : 1], {}));
}

void interpret_while_(Frame& f, const Op& op) {
  std::vector<TileValue> carried = values_of(f, op.operands);
  for (;;) {
    const Region& first = *op.regions[0];
    carried = f.run_region(first, std::move(carried), 1);
    if (f.decide(first.ops.back()->operands[0]) == 0) break;
    carried = f.run_region(*op.regions[1], std::move(carried));
  }
  set_results(f, op, std::move(carried));
}

void interpret_call(Frame& f, const Op& op) {
  const Function& callee = *f.owner_function().find_callee(op.attrs.get_text(AttrKey::name));
  Frame inner(f, callee, op.operands);
  set_results(f, op, inner.run_region(callee.body(), {}));
}

// run_region reads what a terminator names; there is nothing to do when it is met.
void interpret_yield(Frame&, const Op&) {}
void interpret_condition(Frame&, const Op&) {}

}  // namespace tileweave::ir
