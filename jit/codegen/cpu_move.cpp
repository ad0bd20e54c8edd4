// slice, cat, flip, gather and histogram on the CPU: copies of runs, as long as both sides are contiguous.
// Part of cpu_whole.h.
#include "tileweave/jit/codegen/cpu_lines.h"
#include "tileweave/jit/codegen/cpu_whole.h"

namespace tileweave::codegen::cpu {

using ir::AttrKey, ir::Op;
using llvm::Value;

namespace {

int axis_of(const Op& op) { return static_cast<int>(op.attrs.get_int(AttrKey::axis)); }

// A run of elements from one buffer to another.
void copy_run(Context& c, const Buffer& from, Value* source, const Buffer& to, Value* target, std::int64_t count) {
  const llvm::Align align(Context::element_bytes(from.type));
  Value* a = c.b.CreateGEP(c.memory_type(from.type), from.base, source);
  Value* z = c.b.CreateGEP(c.memory_type(to.type), to.base, target);
  if (count == 1) {
    c.b.CreateAlignedStore(c.b.CreateAlignedLoad(c.memory_type(from.type), a, align), z, align);
  } else {
    c.b.CreateMemCpy(z, align, a, align, static_cast<std::uint64_t>(count * Context::element_bytes(from.type)));
  }
}

// Copies a block of `extents` from `source_start` of one tile to `target_start` of another.
struct BlockCopy {
  Context& c;
  Buffer from, to;
  ir::Extents extents, source_start, target_start;

  void emit() { axis(0, c.i64(0), c.i64(0)); }

 private:
  // Whether everything from this axis on lies in one piece on both sides.
  bool is_run(std::size_t k) const {
    for (std::size_t j = k + 1; j < extents.size(); ++j) {
      if (extents[j] != from.type.extents[j] || extents[j] != to.type.extents[j]) return false;
    }
    return true;
  }

  void axis(std::size_t k, Value* source, Value* target) {
    if (k == extents.size()) return copy_run(c, from, source, to, target, 1);
    const auto moved = [&](Value* index, const Buffer& tile, Value* at) {
      return c.b.CreateAdd(c.b.CreateMul(index, c.i64(tile.type.extents[k])), at);
    };
    if (is_run(k)) {
      Value *a = moved(source, from, c.i64(source_start[k])), *z = moved(target, to, c.i64(target_start[k]));
      std::int64_t inner = 1;
      for (std::size_t j = k + 1; j < extents.size(); ++j) inner *= extents[j];
      return copy_run(c, from, c.b.CreateMul(a, c.i64(inner)), to, c.b.CreateMul(z, c.i64(inner)), extents[k] * inner);
    }
    emit_loop(c, c.i64(0), c.i64(extents[k]), 1, [&](Value* i) {
      axis(k + 1, moved(source, from, c.b.CreateAdd(i, c.i64(source_start[k]))),
           moved(target, to, c.b.CreateAdd(i, c.i64(target_start[k]))));
    });
  }
};

}  // namespace

void lower_slice(Context& c, const Op& op) {
  const Buffer from = operand_in_memory(c, op.operands[0]), to = c.new_buffer(op.results[0]->type);
  const ir::Extents& extents = op.attrs.get_list(AttrKey::extents);
  BlockCopy{c, from, to, extents, op.attrs.get_list(AttrKey::starts), ir::Extents(extents.size(), 0)}.emit();
  set_result(c, op.results[0], to);
}

void lower_cat(Context& c, const Op& op) {
  const Buffer to = c.new_buffer(op.results[0]->type);
  ir::Extents start(static_cast<std::size_t>(to.type.rank), 0);
  for (const ir::Value* v : op.operands) {
    BlockCopy{c, operand_in_memory(c, v), to, v->type.shape(), ir::Extents(start.size(), 0), start}.emit();
    start[static_cast<std::size_t>(axis_of(op))] += v->type.extents[static_cast<std::size_t>(axis_of(op))];
  }
  set_result(c, op.results[0], to);
}

void lower_flip(Context& c, const Op& op) {
  const Buffer from = operand_in_memory(c, op.operands[0]), to = c.new_buffer(op.results[0]->type);
  const Lines lines(from.type, axis_of(op));
  emit_loop(c, c.i64(0), c.i64(lines.outer), 1, [&](Value* o) {
    Value* k = c.i64(0);
    const auto mirrored = [&](Value* at, std::int64_t run) { return c.b.CreateSub(c.i64(lines.length - run), at); };
    if (lines.inner == 1) {
      const unsigned lanes = lanes_for(c, static_cast<int>(8 * Context::element_bytes(from.type)), lines.length);
      if (lanes != 0) {
        const auto step = static_cast<std::int64_t>(lanes);
        k = emit_loop(c, k, c.i64(lines.length - step + 1), step, [&](Value* at) {
          Value* x = load_elements(c, from, lines.index(c, o, mirrored(at, step), c.i64(0)), lanes);
          x = permute(c, x, [&](int l) { return static_cast<int>(lanes) - 1 - l; });
          store_elements(c, to, lines.index(c, o, at, c.i64(0)), x);
        });
      }
    }
    emit_loop(c, k, c.i64(lines.length), 1, [&](Value* at) {
      copy_run(c, from, lines.index(c, o, mirrored(at, 1), c.i64(0)), to, lines.index(c, o, at, c.i64(0)), lines.inner);
    });
  });
  set_result(c, op.results[0], to);
}

void lower_gather(Context& c, const Op& op) {
  const Buffer from = operand_in_memory(c, op.operands[0]), index = operand_in_memory(c, op.operands[1]);
  const Buffer to = c.new_buffer(op.results[0]->type);
  const Lines source(from.type, axis_of(op)), target(to.type, axis_of(op));
  Value* zero = c.e.constant_bits(from.type.elem, 0);
  emit_loop(c, c.i64(0), c.i64(target.outer), 1, [&](Value* o) {
    emit_loop(c, c.i64(0), c.i64(target.length), 1, [&](Value* k) {
      emit_loop(c, c.i64(0), c.i64(target.inner), 1, [&](Value* i) {
        Value* at = target.index(c, o, k, i);
        Value* pick = c.e.convert(load_elements(c, index, at, 0), index.type.elem, Dtype::i64);
        // A negative one is past the end as an unsigned number.
        Value* inside = c.b.CreateICmpULT(pick, c.i64(source.length));
        pick = c.b.CreateSelect(inside, pick, c.i64(0));
        Value* x = load_elements(c, from, source.index(c, o, pick, i), 0);
        Value* nothing = from.type.is_pointer() ? llvm::Constant::getNullValue(x->getType()) : zero;
        store_elements(c, to, at, c.b.CreateSelect(inside, x, nothing));
      });
    });
  });
  set_result(c, op.results[0], to);
}

void lower_histogram(Context& c, const Op& op) {
  const Buffer x = operand_in_memory(c, op.operands[0]), to = c.new_buffer(op.results[0]->type);
  const ir::Value* mask = mask_of(op);
  const Buffer flags = mask == nullptr ? Buffer{} : operand_in_memory(c, mask);
  const std::int64_t bins = to.type.extents[0];
  c.b.CreateMemSet(to.base, c.b.getInt8(0), static_cast<std::uint64_t>(4 * bins), llvm::Align(4));
  emit_loop(c, c.i64(0), c.i64(x.type.elements()), 1, [&](Value* i) {
    Value* bin = c.e.convert(load_elements(c, x, i, 0), x.type.elem, Dtype::i64);
    Value* counts = c.b.CreateICmpULT(bin, c.i64(bins));
    if (mask != nullptr) counts = c.b.CreateAnd(counts, load_elements(c, flags, i, 0));
    // What is not counted goes past the bins: every buffer has room for a vector there.
    bin = c.b.CreateSelect(counts, bin, c.i64(bins));
    Value* now = load_elements(c, to, bin, 0);
    store_elements(c, to, bin, c.b.CreateAdd(now, c.b.getInt32(1)));
  });
  set_result(c, op.results[0], to);
}

}  // namespace tileweave::codegen::cpu
