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

void GpuLowering::set(const Value* v, const Layout& l, Regs regs) { scopes_.back().held[key(v, l)] = std::move(regs); }

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
    const auto at = scope->held.find(k);
    if (at != scope->held.end()) return &at->second;
  }
  return nullptr;
}

const Regs& GpuLowering::get(const Value* v, const Layout& l) {
  if (const Regs* held = find(v, l)) return *held;
  const Layout& source = layout_of(v);
  if (is_deferred(v) && l == source) {
    Regs regs(static_cast<std::size_t>(l.registers()), nullptr);
    const ir::TileShape shape = shape_of(v->type);
    for (int r = 0; r < l.registers(); ++r) {
      if (shape.is_live(l, r)) regs[static_cast<std::size_t>(r)] = element(v, l, r);
    }
    set(v, l, std::move(regs));
  } else if (auto again = make_again(v, l)) {
    set(v, l, std::move(*again));
  } else {
    const Regs* held = is_deferred(v) ? &get(v, source) : find(v, source);
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
    Regs regs(static_cast<std::size_t>(l.registers()), nullptr);
    const ir::TileShape shape = shape_of(v->type);
    for (int r = 0; r < l.registers(); ++r) {
      if (shape.is_live(l, r)) {
        regs[static_cast<std::size_t>(r)] = held[static_cast<std::size_t>(relabelled_register(op, l, r))];
      }
    }
    return regs;
  }
  return std::nullopt;
}

const ir::ViewFacts& GpuLowering::facts_of(const Value* view) const { return views_.at(view).facts; }

}  // namespace tileweave::codegen
