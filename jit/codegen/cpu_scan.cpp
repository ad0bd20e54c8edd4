// scan and fold on the CPU. Where the axis is not the last, vectors lie across it and every line runs on by itself;
// along the last axis a vector of lanes is combined within itself in log2 steps, and a carry goes from one to the next.
// Part of cpu_whole.h; the order is fixed, so results are the same from run to run.
#include "tileweave/jit/codegen/cpu_lines.h"
#include "tileweave/jit/codegen/cpu_whole.h"
#include "tileweave/jit/codegen/lower_combine.h"

namespace tileweave::codegen::cpu {

using ir::AttrKey, ir::Op, ir::OpId;
using llvm::Value;

namespace {

// Values with a flag that says whether there are any yet; null: there are.
struct Partial {
  Combined values;
  Value* present = nullptr;
};

class Scan {
 public:
  Scan(Context& c, const Op& op)
      : c_(c),
        op_(op),
        lines_(op.operands[0]->type, static_cast<int>(op.attrs.get_int(AttrKey::axis))),
        reverse_(op.attrs.get_int(AttrKey::reverse) != 0),
        keeps_(op.id == OpId::scan),
        combine_(c.e, op, [&c](const ir::Value* v) { return c.unit(v); }) {}

  void emit() {
    for (std::size_t i = 0; i < op_.results.size(); ++i) {
      in_.push_back(operand_in_memory(c_, op_.operands[i]));
      out_.push_back(c_.new_buffer(op_.results[i]->type));
    }
    masked_ = op_.attrs.get_int(AttrKey::masked) != 0;
    if (masked_) mask_ = operand_in_memory(c_, op_.operands.back());
    emit_loop(c_, c_.i64(0), c_.i64(lines_.outer), 1, [&](Value* o) {
      if (lines_.inner == 1) return emit_along(o);
      Value* i = c_.i64(0);
      if (const unsigned lanes = lanes_for(c_, widest_bits(), lines_.inner)) {
        const auto step = static_cast<std::int64_t>(lanes);
        i = emit_loop(c_, i, c_.i64(lines_.inner - step + 1), step, [&](Value* at) { emit_across(o, at, lanes); });
      }
      emit_loop(c_, i, c_.i64(lines_.inner), 1, [&](Value* at) { emit_across(o, at, 0); });
    });
    for (std::size_t i = 0; i < op_.results.size(); ++i) set_result(c_, op_.results[i], out_[i]);
  }

 private:
  int widest_bits() const {
    int bits = 8;
    for (const ir::Value* v : op_.results) {
      const Dtype t = v->type.elem;
      bits = std::max(bits, is_narrow_float(t) || is_bool(t) ? 32 : dtype_info(t).bits);
    }
    return bits;
  }

  // --- what runs along a line: slots that become registers
  struct Slots {
    std::vector<llvm::AllocaInst*> values;
    llvm::AllocaInst* present = nullptr;
  };
  // Slots of a partial result like `like`.
  Slots slots_like(const Partial& like) {
    Slots s;
    for (Value* v : like.values) s.values.push_back(c_.slot(v->getType()));
    if (like.present != nullptr) s.present = c_.slot(like.present->getType());
    return s;
  }
  void put(const Slots& s, const Partial& p) {
    for (std::size_t i = 0; i < s.values.size(); ++i) c_.b.CreateStore(p.values[i], s.values[i]);
    if (s.present != nullptr) c_.b.CreateStore(p.present, s.present);
  }
  Partial take(const Slots& s) {
    Partial p;
    for (llvm::AllocaInst* a : s.values) p.values.push_back(c_.b.CreateLoad(a->getAllocatedType(), a));
    if (s.present != nullptr) p.present = c_.b.CreateLoad(s.present->getAllocatedType(), s.present);
    return p;
  }

  Partial then(const Partial& a, const Partial& b) {
    Partial r;
    if (a.present == nullptr && b.present == nullptr) {
      r.values = combine_(a.values, b.values);
    } else {
      r.values = combine_.masked(a.values, a.present, b.values, b.present, r.present);
    }
    return r;
  }

  Partial load(Value* index, unsigned lanes) {
    Partial p;
    for (const Buffer& b : in_) p.values.push_back(load_elements(c_, b, index, lanes));
    if (masked_) p.present = load_elements(c_, mask_, index, lanes);
    return p;
  }
  // Lanes masked off are 0.
  void store(Value* index, const Partial& p, Value* mask) {
    for (std::size_t i = 0; i < out_.size(); ++i) {
      Value* v = p.values[i];
      if (mask != nullptr) v = c_.b.CreateSelect(mask, v, llvm::Constant::getNullValue(v->getType()));
      store_elements(c_, out_[i], index, v);
    }
  }

  // The place of step `k` of `run` elements.
  Value* place(Value* o, Value* k, Value* i, std::int64_t run = 1) {
    return lines_.index(c_, o, reverse_ ? c_.b.CreateSub(c_.i64(lines_.length - run), k) : k, i);
  }

  // One line, or a vector of neighbouring lines.
  void emit_across(Value* o, Value* i, unsigned lanes) {
    Value* first_index = place(o, c_.i64(0), i);
    Partial first = load(first_index, lanes);
    const Slots running = slots_like(first);
    put(running, first);
    if (keeps_) store(first_index, first, first.present);
    emit_loop(c_, c_.i64(1), c_.i64(lines_.length), 1, [&](Value* k) {
      Value* index = place(o, k, i);
      const Partial x = load(index, lanes);
      const Partial now = then(take(running), x);
      put(running, now);
      if (keeps_) store(index, now, x.present);
    });
    if (keeps_) return;
    const Partial all = take(running);
    store(c_.b.CreateAdd(c_.b.CreateMul(o, c_.i64(lines_.inner)), i), all, all.present);
  }

  // --- a line whose elements are neighbours
  void emit_along(Value* o) {
    const unsigned lanes = lanes_for(c_, widest_bits(), lines_.length);
    if (lanes == 0) return emit_across(o, c_.i64(0), 0);
    const auto step = static_cast<std::int64_t>(lanes);
    const Partial first = chunk(o, c_.i64(0), lanes, nullptr);
    const Slots carry = slots_like(first);
    put(carry, first);
    Value* k = emit_loop(c_, c_.i64(step), c_.i64(lines_.length - step + 1), step,
                         [&](Value* at) { put(carry, chunk(o, at, lanes, &carry)); });
    emit_loop(c_, k, c_.i64(lines_.length), 1, [&](Value* at) {
      Value* index = place(o, at, c_.i64(0));
      const Partial x = load(index, 0);
      const Partial now = then(take(carry), x);
      put(carry, now);
      if (keeps_) store(index, now, x.present);
    });
    const Partial all = take(carry);
    if (!keeps_) store(o, all, all.present);
  }

  template <class From>
  Partial permuted(const Partial& p, From from) {
    Partial r;
    for (Value* v : p.values) r.values.push_back(permute(c_, v, from));
    if (p.present != nullptr) r.present = permute(c_, p.present, from);
    return r;
  }
  Partial lane(const Partial& p, unsigned l) {
    Partial r;
    for (Value* v : p.values) r.values.push_back(c_.b.CreateExtractElement(v, l));
    if (p.present != nullptr) r.present = c_.b.CreateExtractElement(p.present, l);
    return r;
  }
  Partial splat(const Partial& p, unsigned lanes) {
    Partial r;
    for (Value* v : p.values) r.values.push_back(c_.b.CreateVectorSplat(lanes, v));
    if (p.present != nullptr) r.present = c_.b.CreateVectorSplat(lanes, p.present);
    return r;
  }
  Partial select(Value* flag, const Partial& a, const Partial& b) {
    Partial r;
    for (std::size_t i = 0; i < a.values.size(); ++i) {
      r.values.push_back(c_.b.CreateSelect(flag, a.values[i], b.values[i]));
    }
    if (a.present != nullptr) r.present = c_.b.CreateSelect(flag, a.present, b.present);
    return r;
  }

  // A vector of the line from step `k` on; gives the combination up to its end.
  Partial chunk(Value* o, Value* k, unsigned lanes, const Slots* carry) {
    Value* index = place(o, k, c_.i64(0), static_cast<std::int64_t>(lanes));
    const auto mirror = [&](int l) { return static_cast<int>(lanes) - 1 - l; };
    Partial x = load(index, lanes);
    Value* mask = x.present;
    if (!keeps_) {
      const Partial own = halves(x, lanes);
      return carry == nullptr ? own : then(take(*carry), own);
    }
    if (reverse_) x = permuted(x, mirror);
    for (unsigned d = 1; d < lanes; d *= 2) {
      const auto before = [&](int l) { return l >= static_cast<int>(d) ? l - static_cast<int>(d) : l; };
      x = select(lane_flags(c_, lanes, [&](unsigned l) { return l >= d; }), then(permuted(x, before), x), x);
    }
    if (carry != nullptr) x = then(splat(take(*carry), lanes), x);
    store(index, reverse_ ? permuted(x, mirror) : x, mask);
    return lane(x, lanes - 1);
  }

  // All lanes of a vector, in order: even ones with the odd ones after them, until one is left.
  Partial halves(Partial x, unsigned lanes) {
    for (; lanes > 1; lanes /= 2) {
      const auto side = [&](int odd) {
        Partial r;
        std::vector<int> from;
        for (unsigned l = 0; l < lanes / 2; ++l) from.push_back(static_cast<int>(2 * l) + odd);
        for (Value* v : x.values) r.values.push_back(c_.b.CreateShuffleVector(v, from));
        if (x.present != nullptr) r.present = c_.b.CreateShuffleVector(x.present, from);
        return r;
      };
      x = then(side(0), side(1));
    }
    return lane(x, 0);
  }

  Context& c_;
  const Op& op_;
  const Lines lines_;
  const bool reverse_, keeps_;
  const CombineLowering combine_;
  std::vector<Buffer> in_, out_;
  bool masked_ = false;
  Buffer mask_;
};

}  // namespace

void lower_scan(Context& c, const Op& op) { Scan(c, op).emit(); }

}  // namespace tileweave::codegen::cpu
