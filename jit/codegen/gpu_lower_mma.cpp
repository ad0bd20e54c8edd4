// Lowering of dot as mma.sync: operands come as fragments, from registers where a conversion needs no memory, else from
// swizzled shared memory. Which instruction and who holds what is DotPlan's; reading fragments is FragmentReader's.
#include <llvm/IR/Constants.h>

#include <algorithm>
#include <bit>

#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/ir/rewrite.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::Op;
using ir::OpId;
using ir::Place4;
using ir::Value;

namespace {

// The axis along which a thread's registers hold neighbours; `otherwise` where they hold none.
int vector_axis(const Layout& l, int otherwise) {
  if (l.bits(Place4::reg) == 0) return otherwise;
  const std::uint64_t base = l.bases(Place4::reg)[0];
  for (int a = 0; a < l.rank(); ++a) {
    if (base == std::uint64_t{1} << l.axis_shift(a)) return a;
  }
  return otherwise;
}

// Register r as it lies in memory, 0 where the tile has no such element: it would be summed.
llvm::Value* element_or_zero(GpuContext& c, TileFrame& frame, const Regs& regs, int r, Dtype t) {
  llvm::Value* zero = llvm::Constant::getNullValue(c.elements.memory_type(t));
  llvm::Value* x = regs[static_cast<std::size_t>(r)];
  if (x == nullptr) return zero;
  llvm::Value* exists = frame.exists(r);
  x = c.elements.to_memory(x, t);
  return exists == nullptr ? x : c.b.CreateSelect(exists, x, zero);
}

// Whether each pass through `body` computes `v` anew, as far as passes of LLVM can see. The function's own body is
// passed once.
bool changes_with(const Value* v, const ir::Region& body) {
  if (body.parent == nullptr) return true;
  if (v->def == nullptr) return v->region == &body;
  const Op& op = *v->def;
  if (op.parent != &body) return false;
  if (!op.regions.empty() || op.id == OpId::dot) return true;
  return std::any_of(op.operands.begin(), op.operands.end(), [&](const Value* x) { return changes_with(x, body); });
}

}  // namespace

// --- operands

const Value* GpuLowering::root_of(const Value* v, Layout& l) const {
  while (!staged_.contains(v) && v->def != nullptr && is_relabelling(*v->def) && v->def->id != OpId::broadcast) {
    const auto from = operand_layout(*v->def, l);
    if (!from) break;
    v = v->def->operands[0];
    l = *from;
  }
  return v;
}

// Registers are the better source where getting them takes no shared memory.
bool GpuLowering::has_fragments(const Value* v, const Layout& fragments) const {
  if (find(v, fragments) != nullptr) return true;
  Layout l = fragments;
  const Value* root = root_of(v, l);
  if (staged_.contains(root)) return false;
  if (find(root, l) != nullptr) return true;
  if (root->def != nullptr && find(root, layout_of(root)) == nullptr && !is_deferred(root)) return true;  // made again
  return ir::plan_conversion(layout_of(root), l, dtype_bytes(v->type.elem)).kind != ir::Conversion::Kind::shared;
}

// A of a warp group may come in registers where this is the last product that reads them: see hold_invariant_operands.
bool GpuLowering::may_multiply_from_registers(const Op& dot, const DotPlan& plan) const {
  if (!plan.has_warp_groups) return true;
  Layout l = plan.a;
  const Value* root = root_of(dot.operands[0], l);
  int products = 0;
  ir::for_each_op(c.f.body(), [&](const Op& op) {
    const DotPlan* other = dots_.of(op);
    if (other == nullptr) return;
    Layout of_other = other->a;
    products += root_of(op.operands[0], of_other) == root ? 1 : 0;
  });
  return products == 1 && changes_with(root, *dot.parent);
}

SharedTile GpuLowering::staging_tile(const Value* root) const {
  const Layout& l = layout_of(root);
  return swizzled_tile(l.shape_bits(), vector_axis(l, l.rank() - 1), dtype_bytes(root->type.elem));
}

// The words of all fragments, from registers.
Words GpuLowering::pack_fragments(const Value* v, const Layout& fragments, int packed) {
  const Regs& regs = get(v, fragments);
  TileFrame frame(c, fragments, shape_of(v->type));
  const Dtype t = v->type.elem;
  std::vector<llvm::Value*> words;
  for (int first = 0; first < fragments.registers(); first += 1 << packed) {
    std::vector<llvm::Value*> values;
    for (int r = first; r < first + (1 << packed); ++r) values.push_back(element_or_zero(c, frame, regs, r, t));
    words.push_back(t == Dtype::f64 ? values[0] : pack_elements(c, values, dtype_bytes(t)));
  }
  return words;
}

// Writes the whole padded tile in vectors of up to 16 bytes, 0 where nothing exists.
void GpuLowering::write_staged(const Value* v, const StagedTile& staged) {
  const Layout& l = layout_of(v);
  const Regs& held = get(v, l);
  TileFrame frame(c, l, shape_of(v->type));
  const Dtype t = v->type.elem;
  const int bytes = dtype_bytes(t);
  const auto offset = [&](std::uint64_t flat) { return staged.tile.offset(flat); };
  std::vector<std::uint64_t> bases;
  for (Place4 p : {Place4::lane, Place4::warp}) {
    for (const std::uint64_t b : l.bases(p)) bases.push_back(offset(b));
  }
  SharedAddress address(c, staged.base, bases);
  std::vector<int> vector;  // registers of neighbours 1, 2, 4, ... elements on
  const auto& regs = l.bases(Place4::reg);
  for (int width = bytes; width < 16; width *= 2) {
    const auto at = std::find_if(regs.begin(), regs.end(),
                                 [&](std::uint64_t b) { return offset(b) == static_cast<std::uint64_t>(width); });
    if (at == regs.end()) break;
    vector.push_back(1 << (at - regs.begin()));
  }
  llvm::Value* first = c.is_first(l.free_mask(Place4::lane), l.free_mask(Place4::warp));
  for (int r = 0; r < l.registers(); ++r) {
    if (std::any_of(vector.begin(), vector.end(), [&](int bit) { return (r & bit) != 0; })) continue;
    std::vector<llvm::Value*> values;
    for (int i = 0; i < 1 << vector.size(); ++i) {
      int k = r;
      for (std::size_t bit = 0; bit < vector.size(); ++bit) k |= (i >> bit & 1) != 0 ? vector[bit] : 0;
      values.push_back(element_or_zero(c, frame, held, k, t));
    }
    c.call(PrimitiveId::shared_store, access_type(c, bytes << vector.size()).element,
           {address.at(offset(l.apply(static_cast<std::uint64_t>(r)))), pack_elements(c, values, bytes),
            first == nullptr ? c.b.getTrue() : first, c.site()});
  }
}

MemoryOperand GpuLowering::memory_of(const Value* v, const StagedTile& staged) const {
  Layout each(shape_of(v->type).axis_bits());
  for (int i = 0; i < each.flat_bits(); ++i) each.add_base(Place4::reg, std::uint64_t{1} << i);
  root_of(v, each);
  std::vector<std::uint64_t> offsets;
  for (const std::uint64_t flat : each.bases(Place4::reg)) offsets.push_back(staged.tile.offset(flat));
  return {staged.tile, staged.base, ir::BitMatrix(staged.tile.offset_of_flat.rows(), std::move(offsets))};
}

// The operands of a dot. What goes through memory first is written together, so that one barrier does.
std::vector<FetchedOperand> GpuLowering::fetch_operands(const Op& op, const DotPlan& plan) {
  struct Pending {
    const Value* root;
    Layout layout;
    SharedTile tile;
    std::int64_t at;
  };
  std::array<std::optional<Pending>, 2> pending;
  std::array<std::optional<FetchedOperand>, 2> fetched;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const Layout& fragments = i == 0 ? plan.a : plan.b;
    const WordOrder order = i == 0 ? order_of_a(plan) : order_of_b(plan);
    Layout l = fragments;
    const Value* root = root_of(op.operands[i], l);
    const auto staged = staged_.find(root);
    if (staged != staged_.end()) {
      fetched[i].emplace(FetchedOperand{{order, FragmentReader(c, l, staged->second, plan.how, order)},
                                        memory_of(op.operands[i], staged->second)});
    } else if (has_fragments(op.operands[i], fragments) && (i == 1 || may_multiply_from_registers(op, plan))) {
      fetched[i].emplace(
          FetchedOperand{{order, pack_fragments(op.operands[i], fragments, plan.how.packed_bits())}, {}});
    } else {
      get(root);
      pending[i] = Pending{root, l, staging_tile(root), bytes};
      bytes += (pending[i]->tile.bytes + tile_alignment - 1) / tile_alignment * tile_alignment;
    }
  }
  if (bytes > 0) {
    const std::int64_t base = scratch_.allocate(bytes, tile_alignment);
    for (std::size_t i = 0; i < 2; ++i) {
      if (!pending[i]) continue;
      const WordOrder order = i == 0 ? order_of_a(plan) : order_of_b(plan);
      const StagedTile staged{pending[i]->tile, c.i32(base + pending[i]->at)};
      write_staged(pending[i]->root, staged);
      fetched[i].emplace(FetchedOperand{{order, FragmentReader(c, pending[i]->layout, staged, plan.how, order)},
                                        memory_of(op.operands[i], staged)});
    }
    if (plan.has_warp_groups) c.call(PrimitiveId::fence_proxy_async, {c.site()});
    scratch_.barrier();
  }
  return {std::move(*fetched[0]), std::move(*fetched[1])};
}

// --- the product

void GpuLowering::lower_mma(const Op& op, const DotPlan& plan) {
  const int steps = plan.steps(op);
  std::vector<FetchedOperand> operands = fetch_operands(op, plan);
  if (plan.has_warp_groups && lower_wgmma(op, plan, operands)) return;
  Regs acc = get(op.operands[2], plan.accumulator);
  const auto read_step = [&](int k) {
    std::array<Words, 2> words{operands[0].fragments.step(k), operands[1].fragments.step(k)};
    if (plan.how.id != PrimitiveId::mma_tf32) return words;
    for (Words& w : words) {
      for (llvm::Value*& v : w) {
        v = round_to_tf32(c, c.b.CreateBitCast(v, c.b.getFloatTy()));
        v = c.b.CreateBitCast(v, c.b.getInt32Ty());
      }
    }
    return words;
  };
  std::array<Words, 2> now = read_step(0);
  for (int k = 0; k < steps; ++k) {
    // The next step's fragments are asked for before this step's products, which hide their way.
    std::array<Words, 2> next;
    if (k + 1 < steps) next = read_step(k + 1);
    multiply_step(op, plan, now[0], now[1], acc);
    now = std::move(next);
  }
  define(op.results[0], plan.accumulator, acc);
}

// acc += a * b for one step of k: every fragment of the accumulator that holds an element somewhere.
void GpuLowering::multiply_step(const Op& op, const DotPlan& plan, const Words& a, const Words& b, Regs& acc) {
  const MmaInstruction& how = plan.how;
  const ir::TileShape shape = shape_of(op.results[0]->type);
  llvm::Type* type = c.elements.register_type(op.results[0]->type.elem);
  const int size = 1 << how.accumulator_bits();
  for (int repeat = 0; repeat < 1 << (plan.batch_bits + plan.m_bits + plan.n_bits); ++repeat) {
    const int n = repeat & ((1 << plan.n_bits) - 1), rows = repeat >> plan.n_bits, batch = rows >> plan.m_bits;
    const auto first = static_cast<std::size_t>(repeat * size);
    Words sums;
    bool is_live = false;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(size); ++i) {
      is_live |= acc[i] != nullptr;
      sums.push_back(acc[i] == nullptr ? llvm::Constant::getNullValue(type) : acc[i]);
    }
    if (!is_live) continue;
    llvm::Value* x = vector_of(c, a, static_cast<std::size_t>(rows) << how.a_word_bits(), 1 << how.a_word_bits());
    llvm::Value* y = vector_of(c, b, static_cast<std::size_t>(n | batch << plan.n_bits) << how.b_word_bits(),
                               1 << how.b_word_bits());
    llvm::Value* d = c.call(how.id, how.element, {x, y, vector_of(c, sums, 0, size), c.site()});
    for (int i = 0; i < size; ++i) {
      const std::size_t r = first + static_cast<std::size_t>(i);
      if (shape.is_live(plan.accumulator, static_cast<int>(r)))
        acc[r] = c.b.CreateExtractElement(d, static_cast<std::uint64_t>(i));
    }
  }
}

}  // namespace tileweave::codegen
