// Where the GPU lowering keeps the values of a function: by layout, by scope, made again or converted at a use.
// Every op asks here for its operands in the layout it wants.
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/gpu_lowering.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::OpId;
using ir::Value;

const Layout& GpuLowering::layout_of(const Value* v) const {
  return v->type.rank == 0 ? scalar_layout_ : layouts_.of(v);
}

GpuLowering::Key GpuLowering::key(const Value* v, const Layout& l) {
  // Bases alone, with lengths: the shape is the value's.
  std::vector<std::uint64_t> words;
  for (ir::Place4 p : {ir::Place4::reg, ir::Place4::lane, ir::Place4::warp}) {
    words.push_back(l.bases(p).size());
    words.insert(words.end(), l.bases(p).begin(), l.bases(p).end());
  }
  return {v, std::move(words)};
}

void GpuLowering::set(const Value* v, const Layout& l, Regs regs) { scopes_.back()[key(v, l)] = std::move(regs); }

llvm::Type* GpuLowering::register_type(const Value* v) {
  return v->type.is_pointer() ? c.b.getInt64Ty() : c.elements.register_type(v->type.elem);
}

void GpuLowering::define(const Value* v, const Layout& l, const Regs& regs) {
  const Layout& own = layout_of(v);
  set(v, l == own ? regs : convert_layout(regs, l, own, shape_of(v->type), register_type(v)));
}

const Regs* GpuLowering::find(const Value* v, const Layout& l) const {
  const Key k = key(v, l);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto at = scope->find(k);
    if (at != scope->end()) return &at->second;
  }
  return nullptr;
}

const Regs& GpuLowering::get(const Value* v, const Layout& l) {
  if (const Regs* held = find(v, l)) return *held;
  if (auto again = make_again(v, l)) {
    set(v, l, std::move(*again));
  } else {
    const Layout& source = layout_of(v);
    const Regs* held = find(v, source);
    if (held == nullptr) throw_internal_error(std::source_location::current(), "a value is used before it is lowered");
    set(v, l, convert_layout(*held, source, l, shape_of(v->type), register_type(v)));
  }
  return *find(v, l);
}

std::optional<Regs> GpuLowering::make_again(const Value* v, const Layout& l) {
  if (v->def == nullptr) return std::nullopt;
  const ir::Op& op = *v->def;
  if (op.id == OpId::constant) return constant_regs(op, l);
  if (op.id == OpId::iota) return iota_regs(op, l);
  if (op.id == OpId::inside) return inside_regs(op, l);
  // One element, wherever it goes, is in every thread already.
  const bool moves_elements = op.id == OpId::broadcast || op.id == OpId::reshape || op.id == OpId::expand_dims;
  if (moves_elements && op.operands[0]->type.elements() == 1) {
    llvm::Value* x = get(op.operands[0])[0];
    Regs regs(static_cast<std::size_t>(l.registers()), nullptr);
    const ir::TileShape shape = shape_of(v->type);
    for (int r = 0; r < l.registers(); ++r) {
      if (shape.is_live(l, r)) regs[static_cast<std::size_t>(r)] = x;
    }
    return regs;
  }
  if (op.id == OpId::broadcast || is_relabelling(op)) {
    const auto from = operand_layout(op, l);
    if (!from) return std::nullopt;
    const Regs& held = get(op.operands[0], *from);
    // A register of the result is the operand's register with the same bits, those along broadcast axes left out.
    std::vector<int> bit_of(static_cast<std::size_t>(l.bits(ir::Place4::reg)), -1);
    int next = 0;
    for (int i = 0; i < l.bits(ir::Place4::reg); ++i) {
      std::uint64_t base = l.bases(ir::Place4::reg)[static_cast<std::size_t>(i)];
      if (op.id == OpId::broadcast) {
        for (int a = 0; a < l.rank(); ++a) {
          if (from->axis_bits(a) == 0) base &= ~l.axis_mask(a);
        }
      }
      if (base != 0) bit_of[static_cast<std::size_t>(i)] = next++;
    }
    Regs regs(static_cast<std::size_t>(l.registers()), nullptr);
    const ir::TileShape shape = shape_of(v->type);
    for (int r = 0; r < l.registers(); ++r) {
      if (!shape.is_live(l, r)) continue;
      std::size_t source = 0;
      for (std::size_t i = 0; i < bit_of.size(); ++i) {
        if ((r >> i & 1) != 0 && bit_of[i] >= 0) source |= std::size_t{1} << bit_of[i];
      }
      regs[static_cast<std::size_t>(r)] = held[source];
    }
    return regs;
  }
  return std::nullopt;
}

const ir::ViewFacts& GpuLowering::facts_of(const Value* view) const { return views_.at(view).facts; }

}  // namespace tileweave::codegen
