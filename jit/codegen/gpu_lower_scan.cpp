// Lowering of scan and fold: the bits of the axis one after another, lowest first. After bit j every block of 2^(j+1)
// lanes is combined: a register bit costs combinations, a lane bit a shuffle, a warp bit a pass through shared memory.
// What comes before a block is kept apart and put in front of its lanes at the end, so that shuffles move one partial
// result a block, not every lane. The order is fixed by the layout: the same bits from run to run.
#include <llvm/IR/Constants.h>

#include <bit>

#include "tileweave/jit/codegen/gpu_axis.h"
#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/codegen/lower_combine.h"

namespace tileweave::codegen {

using ir::AttrKey;
using ir::Layout;
using ir::Op;
using ir::OpId;
using ir::Place4;
using ir::Value;

namespace {

// What some lanes combine to. No values: there is none in any thread. `present` null: there is one in every thread.
struct Partial {
  Combined values;
  llvm::Value* present = nullptr;
  bool empty() const { return values.empty(); }
};

// Registers that stand for one block of the axis in each thread.
struct LineBlock {
  Partial total;
  // Registers with what comes before them in the block, which their own values do not hold yet.
  struct Segment {
    std::vector<std::size_t> registers;
    Partial before;
  };
  std::vector<Segment> segments;
};

std::uint64_t compress(std::uint64_t x, std::uint64_t mask) {
  std::uint64_t out = 0;
  for (int i = 0, k = 0; i < 64; ++i) {
    if ((mask >> i & 1) != 0) out |= (x >> i & 1) << k++;
  }
  return out;
}

}  // namespace

// Walks the bits of one axis. `Other` gives a value of the thread whose number differs in some bits.
class AxisScanner {
 public:
  AxisScanner(GpuContext& c, const Layout& l, int axis, bool reverse, bool keeps, const CombineLowering& combine)
      : c_(c), l_(l), axis_(axis), reverse_(reverse), keeps_(keeps), combine_(combine) {}

  // `lanes` by register; afterwards, where the lanes are kept, each with all before it. Gives the totals by block.
  template <class Other>
  std::map<std::uint64_t, LineBlock> run(std::vector<Partial>& lanes, Other other) {
    std::map<std::uint64_t, LineBlock> blocks;
    for (std::size_t r = 0; r < lanes.size(); ++r) blocks[r] = {lanes[r], {{{r}, {}}}};
    bool across = false;
    for (int bit = 0; bit < l_.axis_bits(axis_); ++bit) {
      const PlaceMove move = axis_move(l_, axis_, bit);
      const bool last = bit + 1 == l_.axis_bits(axis_);
      if (move.reg != 0) {
        merge_registers(blocks, move.reg, lanes, across);
      } else {
        across = true;
        exchange(blocks, move, last, other);
      }
    }
    for (auto& [id, block] : blocks) {
      for (const auto& segment : block.segments) {
        for (const std::size_t r : segment.registers) {
          if (!lanes[r].empty() && keeps_) lanes[r] = then(segment.before, lanes[r]);
          c_.split_long_block();
        }
      }
    }
    return blocks;
  }

  Partial then(const Partial& a, const Partial& b) {
    if (a.empty() || b.empty()) return a.empty() ? b : a;
    Partial r;
    if (a.present == nullptr && b.present == nullptr) {
      r.values = combine_(a.values, b.values);
    } else {
      r.values = combine_.masked(a.values, a.present, b.values, b.present, r.present);
    }
    return r;
  }

 private:
  void merge_registers(std::map<std::uint64_t, LineBlock>& blocks, std::uint64_t bit, std::vector<Partial>& lanes,
                       bool across) {
    std::map<std::uint64_t, LineBlock> merged;
    for (auto& [id, block] : blocks) {
      if ((id & bit) != 0) continue;
      LineBlock &low = block, &high = blocks.at(id | bit);
      LineBlock &first = reverse_ ? high : low, &second = reverse_ ? low : high;
      for (auto& segment : second.segments) {
        if (!keeps_) break;
        if (across) {
          segment.before = then(first.total, segment.before);
        } else {
          for (const std::size_t r : segment.registers) {
            if (!lanes[r].empty()) lanes[r] = then(first.total, lanes[r]);
          }
        }
        c_.split_long_block();
      }
      LineBlock whole;
      whole.total = then(first.total, second.total);
      whole.segments = first.segments;
      if (!across) {
        // One segment, and nothing is before it.
        auto& registers = whole.segments[0].registers;
        registers.insert(registers.end(), second.segments[0].registers.begin(), second.segments[0].registers.end());
      } else {
        whole.segments.insert(whole.segments.end(), second.segments.begin(), second.segments.end());
      }
      merged[id] = std::move(whole);
    }
    blocks = std::move(merged);
  }

  template <class Other>
  void exchange(std::map<std::uint64_t, LineBlock>& blocks, const PlaceMove& move, bool last, Other other) {
    // True in threads whose block is the later one of the two.
    llvm::Value* number = move.lane != 0 ? c_.lane() : c_.warp();
    const std::uint64_t mask = move.lane != 0 ? move.lane : move.warp;
    llvm::Value* own = c_.b.CreateAnd(number, c_.i32(static_cast<std::int64_t>(mask)));
    llvm::Value* later = reverse_ ? c_.b.CreateICmpEQ(own, c_.i32(0)) : c_.b.CreateICmpNE(own, c_.i32(0));
    std::vector<Partial> totals;
    for (auto& [id, block] : blocks) totals.push_back(block.total);
    const std::vector<Partial> others = other(totals, move);
    std::size_t n = 0;
    for (auto& [id, block] : blocks) {
      const Partial theirs = others[n++];
      if (theirs.empty()) continue;
      Partial before = theirs;
      before.present = c_.both(later, theirs.present);
      for (auto& segment : block.segments) {
        if (keeps_) segment.before = then(before, segment.before);
      }
      if (last && keeps_) continue;
      block.total = then(select(later, theirs, block.total), select(later, block.total, theirs));
      c_.split_long_block();
    }
  }

  Partial select(llvm::Value* flag, const Partial& a, const Partial& b) {
    Partial r;
    for (std::size_t i = 0; i < a.values.size(); ++i) {
      r.values.push_back(c_.b.CreateSelect(flag, a.values[i], b.values[i]));
    }
    if (a.present != nullptr || b.present != nullptr) {
      const auto given = [&](llvm::Value* p) { return p == nullptr ? c_.b.getTrue() : p; };
      r.present = c_.b.CreateSelect(flag, given(a.present), given(b.present));
    }
    return r;
  }

  GpuContext& c_;
  const Layout& l_;
  const int axis_;
  const bool reverse_, keeps_;
  const CombineLowering& combine_;
};

// The operand's layout where each bit along the axis is in one place, else a blocked one.
Layout GpuLowering::scannable_layout(const Value* x, int axis) const {
  const Layout& l = layout_of(x);
  if (has_simple_axis(l, axis)) return l;
  std::vector<int> order{axis};
  for (int a = x->type.rank - 1; a >= 0; --a) {
    if (a != axis) order.push_back(a);
  }
  return ir::blocked_layout(shape_of(x->type).axis_bits(), order, 0, c.warp_bits);
}

llvm::Value* GpuLowering::from_other_thread(llvm::Value* v, const PlaceMove& move) {
  return shuffle(v, PrimitiveId::shuffle_bfly, c.i32(static_cast<std::int64_t>(move.lane)));
}

// Every value goes to a slot of its thread; after a barrier each thread reads the slots of the other one.
std::vector<llvm::Value*> GpuLowering::from_other_warp(const std::vector<llvm::Value*>& values, const PlaceMove& move) {
  const std::int64_t threads = 32 * c.warps;
  std::vector<std::int64_t> start;
  std::int64_t total = 0;
  const auto bytes_of = [](llvm::Type* t) {
    return t->isIntegerTy(1) ? std::int64_t{1} : static_cast<std::int64_t>(t->getPrimitiveSizeInBits() / 8);
  };
  for (const llvm::Value* v : values) {
    start.push_back(total);
    total += (threads * bytes_of(v->getType()) + 15) / 16 * 16;
  }
  const std::int64_t base = scratch_.allocate(total);
  const auto offset = [&](llvm::Value* thread, std::size_t i) {
    return c.b.CreateAdd(c.b.CreateMul(thread, c.i32(bytes_of(values[i]->getType()))), c.i32(base + start[i]));
  };
  for (std::size_t i = 0; i < values.size(); ++i) shared_store(offset(c.thread(), i), values[i], nullptr);
  scratch_.barrier();
  llvm::Value* other = c.b.CreateXor(c.thread(), c.i32(static_cast<std::int64_t>(move.lane | move.warp << 5)));
  std::vector<llvm::Value*> given;
  for (std::size_t i = 0; i < values.size(); ++i) given.push_back(shared_load(offset(other, i), values[i]->getType()));
  return given;
}

std::vector<llvm::Value*> GpuLowering::from_others(const std::vector<llvm::Value*>& values, const PlaceMove& move) {
  if (move.warp != 0) return from_other_warp(values, move);
  std::vector<llvm::Value*> given;
  for (llvm::Value* v : values) given.push_back(move.lane == 0 ? v : from_other_thread(v, move));
  return given;
}

void GpuLowering::lower_scan(const Op& op) {
  const std::size_t count = op.results.size();
  const int axis = static_cast<int>(op.attrs.get_int(AttrKey::axis));
  const bool reverse = op.attrs.get_int(AttrKey::reverse) != 0, keeps = op.id == OpId::scan;
  const Value* x = op.operands[0];
  const Layout l = scannable_layout(x, axis);
  std::vector<const Regs*> held;
  for (std::size_t i = 0; i < count; ++i) held.push_back(&get(op.operands[i], l));
  const Regs* mask = op.attrs.get_int(AttrKey::masked) != 0 ? &get(op.operands.back(), l) : nullptr;
  c.enter_op(op);
  const CombineLowering combine(c.elements, op, [&](const Value* v) { return scalar(v); });

  TileFrame frame(c, l, shape_of(x->type));
  std::vector<Partial> lanes(held[0]->size());
  for (std::size_t r = 0; r < lanes.size(); ++r) {
    if ((*held[0])[r] == nullptr) continue;
    for (const Regs* regs : held) lanes[r].values.push_back((*regs)[r]);
    // Lanes past the end come after all others and change none of them, unless the scan begins there.
    const bool padding_matters = reverse || !keeps;
    if (mask != nullptr || padding_matters) lanes[r].present = counts(frame, static_cast<int>(r), mask);
  }
  AxisScanner scanner(c, l, axis, reverse, keeps, combine);
  const auto blocks = scanner.run(lanes, [&](const std::vector<Partial>& totals, const PlaceMove& move) {
    std::vector<llvm::Value*> sent;
    for (const Partial& p : totals) {
      sent.insert(sent.end(), p.values.begin(), p.values.end());
      if (!p.empty() && p.present != nullptr) sent.push_back(p.present);
    }
    const std::vector<llvm::Value*> got = from_others(sent, move);
    std::vector<Partial> others;
    std::size_t n = 0;
    for (const Partial& p : totals) {
      Partial q;
      for (std::size_t i = 0; i < p.values.size(); ++i) q.values.push_back(got[n++]);
      if (!p.empty() && p.present != nullptr) q.present = got[n++];
      others.push_back(std::move(q));
    }
    return others;
  });

  const auto or_zero = [&](const Partial& p, llvm::Value* flag, std::size_t i) {
    llvm::Value* v = p.values[i];
    return flag == nullptr ? v : c.b.CreateSelect(flag, v, llvm::Constant::getNullValue(v->getType()));
  };
  if (keeps) {
    for (std::size_t i = 0; i < count; ++i) {
      Regs regs(lanes.size(), nullptr);
      for (std::size_t r = 0; r < lanes.size(); ++r) {
        if (!lanes[r].empty()) regs[r] = or_zero(lanes[r], mask == nullptr ? nullptr : (*mask)[r], i);
      }
      define(op.results[i], l, regs);
    }
    return;
  }
  const Layout result = l.slice(axis);
  std::uint64_t kept = 0;
  for (int i = 0; i < l.bits(Place4::reg); ++i) {
    if ((l.bases(Place4::reg)[static_cast<std::size_t>(i)] & l.axis_mask(axis)) == 0) kept |= std::uint64_t{1} << i;
  }
  for (std::size_t i = 0; i < count; ++i) {
    Regs regs(static_cast<std::size_t>(result.registers()), nullptr);
    for (const auto& [id, block] : blocks) {
      if (!block.total.empty()) regs[compress(id, kept)] = or_zero(block.total, block.total.present, i);
    }
    define(op.results[i], op.results[i]->type.rank == 0 ? scalar_layout_ : result, regs);
  }
}

}  // namespace tileweave::codegen
