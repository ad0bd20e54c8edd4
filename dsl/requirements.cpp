// Turns recorded conditions into steps and runs them: see requirements.h.
// Between record_once (variants.cpp) and the launch.
#include "tileweave/dsl/requirements.h"

#include <unordered_map>

#include "tileweave/jit/base/error.h"

namespace tileweave::launch {

using ir::Op;
using ir::OpId;
using ir::Value;

class Requirements::Maker {
 public:
  Maker(Requirements& to, const ir::Function& f) : to_(to) {
    std::uint32_t slot = 0;
    int views = 0;
    for (const ir::Param& p : f.params) {
      const ir::Type& t = p.value->type;
      params_[p.value] = {slot, t.is_view() ? views++ : -1};
      slot += t.is_view() ? 1 + 2 * static_cast<std::uint32_t>(t.rank) : 1;
    }
  }

  void add(const record::Recorder::Requirement& r) {
    place_ = r.place;
    clause_ = {0, r.text, r.place, {}};
    clause_.flag = r.condition == nullptr ? alignment(r) : step_of(r.condition);
    to_.clauses_.push_back(clause_);
  }

 private:
  struct Param {
    std::uint32_t slot;
    int view;
  };

  std::uint16_t push(const Step& s) {
    if (to_.steps_.size() >= max_steps) {
      throw_record_error(place_, "requires_: the conditions of one kernel take more than " + std::to_string(max_steps) +
                                     " operations");
    }
    to_.steps_.push_back(s);
    return static_cast<std::uint16_t>(to_.steps_.size() - 1);
  }

  std::uint16_t read(std::uint32_t slot, Dtype t, int view, char what, int axis) {
    clause_.readings.push_back({slot, view, what, axis});
    Step s;
    s.kind = Kind::slot;
    s.slot = slot;
    s.to = t;
    return push(s);
  }

  std::uint16_t alignment(const record::Recorder::Requirement& r) {
    const Param p = params_.at(r.view);
    clause_.text = "its first element at a multiple of " + std::to_string(r.bytes) + " bytes";
    const std::uint16_t base = read(p.slot, Dtype::u64, p.view, 'b', 0);
    const std::uint16_t low = call(OpId::bit_and, Dtype::u64, base, constant(static_cast<std::uint64_t>(r.bytes - 1)));
    return call(OpId::eq, Dtype::u64, low, constant(0));
  }

  std::uint16_t constant(std::uint64_t bits) {
    Step s;
    s.bits = bits;
    return push(s);
  }
  std::uint16_t call(OpId id, Dtype t, std::uint16_t a, std::uint16_t b = 0, std::uint16_t c = 0) {
    Step s;
    s.kind = Kind::call;
    s.function = ir::host::lane_function(id, t);
    s.a = a;
    s.b = b;
    s.c = c;
    return push(s);
  }

  std::uint16_t step_of(const Value* v) {
    const auto known = made_.find(v);
    if (known != made_.end()) {
      note_readings(v);
      return known->second;
    }
    const std::size_t first = clause_.readings.size();
    const std::uint16_t made = make(v);
    readings_[v].assign(clause_.readings.begin() + static_cast<std::ptrdiff_t>(first), clause_.readings.end());
    return made_[v] = made;
  }
  void note_readings(const Value* v) {
    const auto& more = readings_[v];
    clause_.readings.insert(clause_.readings.end(), more.begin(), more.end());
  }

  std::uint16_t make(const Value* v) {
    if (v->def == nullptr) {
      const auto at = params_.find(v);
      if (at == params_.end()) refuse("a loop's index or a carried value");
      return read(at->second.slot, v->type.elem, -1, 's', 0);
    }
    const Op& op = *v->def;
    if (v->type.rank != 0) refuse("a tile");
    switch (op.id) {
      case OpId::constant:
        return constant(static_cast<std::uint64_t>(op.attrs.get_int(ir::AttrKey::value)));
      case OpId::extent:
      case OpId::stride: {
        const Param p = params_.at(op.operands[0]);
        const int axis = static_cast<int>(op.attrs.get_int(ir::AttrKey::axis)), rank = op.operands[0]->type.rank;
        const bool is_extent = op.id == OpId::extent;
        const int at = 1 + axis + (is_extent ? 0 : rank);
        return read(p.slot + static_cast<std::uint32_t>(at), Dtype::i64, p.view, is_extent ? 'e' : 'd', axis);
      }
      case OpId::convert: {
        Step s;
        s.kind = Kind::convert;
        s.a = step_of(op.operands[0]);
        s.from = op.operands[0]->type.elem;
        s.to = v->type.elem;
        return push(s);
      }
      default:
        break;
    }
    if (!ir::is_elementwise(op.id)) refuse(std::string(ir::op_info(op.id).name));
    std::uint16_t in[3] = {};
    for (std::size_t i = 0; i < op.operands.size(); ++i) in[i] = step_of(op.operands[i]);
    return call(op.id, op.operands.back()->type.elem, in[0], in[1], in[2]);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw_record_error(place_, "requires_: the condition hangs on " + what + ", which is not known before the launch",
                       "use extents, strides and scalar arguments");
  }

  Requirements& to_;
  std::unordered_map<const Value*, Param> params_;
  std::unordered_map<const Value*, std::uint16_t> made_;
  std::unordered_map<const Value*, std::vector<Reading>> readings_;
  Clause clause_;
  Place place_;
};

Requirements::Requirements(const ir::Function& f, const std::vector<record::Recorder::Requirement>& recorded) {
  Maker maker(*this, f);
  for (const auto& r : recorded) maker.add(r);
}

void Requirements::check_all(const std::uint64_t* slots, const std::string& kernel, const int* numbers,
                             const Place& place) const {
  std::uint64_t registers[max_steps];
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    switch (s.kind) {
      case Kind::slot: {
        const int bits = dtype_info(s.to).bits;
        registers[i] = bits == 64 ? slots[s.slot] : slots[s.slot] & ((std::uint64_t{1} << bits) - 1);
        break;
      }
      case Kind::constant:
        registers[i] = s.bits;
        break;
      case Kind::call:
        registers[i] = s.function(registers[s.a], registers[s.b], registers[s.c]);
        break;
      case Kind::convert:
        registers[i] = ir::host::convert_bits(registers[s.a], s.from, s.to);
        break;
    }
  }
  for (const Clause& c : clauses_) {
    if (registers[c.flag] == 0) [[unlikely]] {
      fail(c, slots, kernel, numbers, place);
    }
  }
}

void Requirements::fail(const Clause& clause, const std::uint64_t* slots, const std::string& kernel, const int* numbers,
                        const Place& place) {
  std::string found;
  for (const Reading& r : clause.readings) {
    const std::string whose = r.view < 0 ? "" : "argument " + std::to_string(numbers[r.view]) + " has ";
    std::string what;
    switch (r.what) {
      case 'e':
        what = "extent " + std::to_string(static_cast<std::int64_t>(slots[r.slot])) + " along axis " +
               std::to_string(r.axis);
        break;
      case 'd':
        what = "stride " + std::to_string(static_cast<std::int64_t>(slots[r.slot])) + " along axis " +
               std::to_string(r.axis);
        break;
      case 'b': {
        const std::uint64_t low = slots[r.slot] & (~slots[r.slot] + 1);
        what = "an address that is a multiple of " + std::to_string(low) + " bytes";
        break;
      }
      default:
        what = "a scalar argument is " + std::to_string(static_cast<std::int64_t>(slots[r.slot]));
        break;
    }
    const std::string one = whose + what;
    if (found.find(one) == std::string::npos) found += (found.empty() ? "" : ", ") + one;
  }
  throw_launch_error(place,
                     "kernel '" + kernel + "' requires " +
                         (clause.text.empty() ? "what its source says" : clause.text) +
                         (found.empty() ? "" : ": " + found),
                     "see the requirement at " + to_string(clause.place));
}

}  // namespace tileweave::launch
