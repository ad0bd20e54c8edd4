// The driver of the GPU lowering: parameters, the program's place, the dispatch over ops, element-wise ops.
// Expanded tile IR in, a module of GPU primitives out.
#include "tileweave/jit/codegen/gpu_lower.h"

#include <llvm/IR/Constants.h>

#include <algorithm>
#include <cctype>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/gpu_lowering.h"
#include "tileweave/jit/codegen/gpu_short_forms.h"
#include "tileweave/jit/ir/rewrite.h"

namespace tileweave::codegen {

using ir::Op;
using ir::OpId;
using ir::Value;

namespace {

// A kernel's name as a symbol: letters, digits and _ of it.
std::string symbol_for(const std::string& name) {
  std::string s = "tw_";
  for (char ch : name) s += std::isalnum(static_cast<unsigned char>(ch)) != 0 ? ch : '_';
  return s;
}

ElementTarget element_target(const Target& t) {
  // The host that runs the emulation has these conversions or not; the values are the same.
  if (t.kind == Target::Kind::simt) return {};
  return {
      .f16_convert = true, .bf16_convert = t.sm >= 80, .any_nan = true, .ordered_min = t.sm >= 80, .range_min = false};
}

ir::Layout layout_of_scalars(int warp_bits) {
  using Bases = ir::Layout::Bases;
  return ir::Layout({}, {Bases{}, Bases(5, 0), Bases(static_cast<std::size_t>(warp_bits), 0), Bases{}});
}

}  // namespace

GpuLowering::GpuLowering(const ir::Function& f, const Target& target, llvm::LLVMContext& context, std::string entry,
                         bool persistent)
    : c(f, context, element_target(target), choose_warps(f), std::move(entry)),
      target_(target),
      may_persist_(persistent),
      rounded_(f),
      dots_(f, target, c.warps),
      layouts_(f, c.warps, &dots_),
      rare_(f),
      scalar_layout_(layout_of_scalars(c.warp_bits)),
      scratch_(c) {}

LoweredKernel GpuLowering::run() {
  open_scope();
  lower_params();
  if ((ring_ = plan_ring())) {
    begin_ring();
  } else {
    lower_program_ids();
  }
  lower_versions();
  if (ring_) end_ring();
  close_scope();
  take_tensor_maps();
  c.sites.attach(*c.module);
  c.end_lines();
  const std::int64_t smem = scratch_.bytes_used();
  if (smem > shared_limit(target_) && ring_ && ring_->is_persistent) return {};
  if (smem > shared_limit(target_)) {
    throw_compile_error(c.f.place,
                        "kernel '" + c.f.name + "' needs " + std::to_string(smem) + " bytes of shared memory, " +
                            target_.cpu + " has " + std::to_string(shared_limit(target_)),
                        has_streams_ ? "lower the block's k or Options::stages" : "use smaller blocks");
  }
  const int threads = 32 * (c.warps + c.producer_warps);
  std::string meta = channel_words(texts_) + (has_byte_atomics_ ? " byte_atomics=1" : "");
  if (ring_ && ring_->is_persistent) meta += meta.empty() ? "persistent=1" : " persistent=1";
  if (!maps_.empty()) meta += (meta.empty() ? "" : " ") + tensor_map_words(maps_);
  return {std::move(c.module), c.kernel->getName().str(),      threads,        smem,
          min_blocks(),        static_cast<int>(maps_.size()), std::move(meta)};
}

// Rows in registers wait for memory, then for each other: 32 warps a multiprocessor hide that, which leaves a thread 64
// registers. Where it holds many more than 32 elements of a row, or walks the row in a loop, they would spill.
// Products take what registers they need: told of one block, ptxas spills none to make room for more.
int GpuLowering::min_blocks() const {
  if (!dots_.empty()) return 1;
  constexpr int most_elements = 36, warps_wanted = 32;
  int most = 0;
  bool reduces = false, unlike = false;
  ir::for_each_op(c.f.body(), [&](const Op& op) {
    reduces |= op.id == OpId::reduce && op.operands[0]->type.elements() > 32;
    unlike |= op.id == OpId::dot || op.id == OpId::for_ || op.id == OpId::while_;
    for (const Value* v : op.results) {
      if (v->type.is_view() || v->type.rank == 0) continue;
      const ir::Layout& l = layout_of(v);
      const ir::TileShape shape = shape_of(v->type);
      int live = 0;
      for (int r = 0; r < l.registers(); ++r) live += shape.is_live(l, r) ? 1 : 0;
      most = std::max(most, live);
    }
  });
  return reduces && !unlike && most <= most_elements ? std::max(1, warps_wanted / c.warps) : 0;
}

void GpuLowering::lower_params() {
  llvm::IRBuilder<>& b = c.b;
  unsigned slot = 0;
  std::vector<ViewParam> params;
  for (const ir::Param& p : c.f.params) {
    const ir::Type& t = p.value->type;
    if (!t.is_view()) {
      llvm::Value* bits = c.kernel->getArg(slot++);
      llvm::Value* v = bits;
      if (p.constant) {
        v = c.elements.constant_bits(t.elem, *p.constant);
      } else if (!t.is_pointer()) {
        llvm::Type* memory = c.elements.memory_type(t.elem);
        const unsigned width = static_cast<unsigned>(memory->getPrimitiveSizeInBits());
        v = c.elements.from_memory(b.CreateBitCast(b.CreateTrunc(bits, b.getIntNTy(width)), memory), t.elem);
      }
      set(p.value, {v});
      if (t.is_pointer()) params.push_back({static_cast<int>(slot) - 1, 0, 0});
      continue;
    }
    params.push_back({static_cast<int>(slot), t.rank, dtype_bytes(t.elem)});
    ViewSlots view;
    view.facts = p.facts;
    view.elem = t.elem;
    view.is_const = t.is_const;
    view.slot = static_cast<int>(slot);
    view.base = c.kernel->getArg(slot++);
    for (int a = 0; a < t.rank; ++a) view.extents.push_back(c.kernel->getArg(slot++));
    for (int a = 0; a < t.rank; ++a) {
      llvm::Value* stride = c.kernel->getArg(slot++);
      if ((p.facts.unit_stride >> a & 1) != 0) stride = c.i64(1);
      if ((p.facts.zero_stride >> a & 1) != 0) stride = c.i64(0);
      view.strides.push_back(stride);
    }
    views_[p.value] = std::move(view);
  }
  for (std::size_t a = 0; a < 3; ++a) grid_[a] = c.kernel->getArg(slot++);
  attach_views(*c.module, params);
}

// The launch is linear; what its extents fold away is not divided for.
void GpuLowering::lower_program_ids() {
  llvm::IRBuilder<>& b = c.b;
  llvm::Value* linear = c.call(PrimitiveId::block_id, {});
  llvm::Value* total = number_of_programs();
  llvm::BasicBlock* inside = c.new_block("program");
  c.end_prologue();
  b.CreateCondBr(b.CreateICmpULT(linear, total), inside, c.exit);
  b.SetInsertPoint(inside);
  place_program(linear);
}

llvm::Value* GpuLowering::number_of_programs() { return c.b.CreateMul(grid_[0], c.b.CreateMul(grid_[1], grid_[2])); }

// The program's place, from its number.
void GpuLowering::place_program(llvm::Value* linear) {
  llvm::IRBuilder<>& b = c.b;
  llvm::Value* rows = b.CreateMul(grid_[1], grid_[2]);
  llvm::BasicBlock *one_axis = c.new_block("one_axis"), *three_axes = c.new_block("three_axes");
  llvm::BasicBlock* join = c.new_block("placed");
  b.CreateCondBr(b.CreateICmpEQ(rows, c.i64(1)), one_axis, three_axes);
  b.SetInsertPoint(one_axis);
  b.CreateBr(join);
  b.SetInsertPoint(three_axes);
  llvm::Value* row = b.CreateUDiv(linear, grid_[0]);
  llvm::Value* plane = b.CreateUDiv(row, grid_[1]);
  const std::array<llvm::Value*, 3> divided{b.CreateSub(linear, b.CreateMul(row, grid_[0])),
                                            b.CreateSub(row, b.CreateMul(plane, grid_[1])), plane};
  llvm::BasicBlock* end = b.GetInsertBlock();
  b.CreateBr(join);
  b.SetInsertPoint(join);
  for (std::size_t a = 0; a < 3; ++a) {
    llvm::PHINode* phi = b.CreatePHI(b.getInt64Ty(), 2);
    phi->addIncoming(a == 0 ? linear : c.i64(0), one_axis);
    phi->addIncoming(divided[a], end);
    program_ids_[a] = phi;
  }
}

void GpuLowering::lower_elementwise(const Op& op) {
  const Value* result = op.results[0];
  const ir::Layout& l = layout_of(result);
  std::vector<const Regs*> operands;
  for (const Value* x : op.operands) operands.push_back(&get(x, l));
  Regs regs(operands[0]->size(), nullptr);
  for (std::size_t r = 0; r < regs.size(); ++r) {
    std::vector<llvm::Value*> lane;
    for (const Regs* x : operands) lane.push_back((*x)[r]);
    if (lane[0] == nullptr) continue;
    regs[r] = elementwise_lane(op, lane);
    c.split_long_block();
  }
  set(result, std::move(regs));
}

llvm::Value* GpuLowering::elementwise_lane(const Op& op, const std::vector<llvm::Value*>& lane) {
  const Dtype from = op.operands[op.id == OpId::where ? 1 : 0]->type.elem;
  if (op.id == OpId::convert) {
    return c.elements.convert(lane[0], from, op.results[0]->type.elem, op.attrs.get_int(ir::AttrKey::saturate) != 0);
  }
  if (op.id == OpId::bitcast) return c.elements.bitcast(lane[0], from, op.results[0]->type.elem);
  if (const ir::ShortForm* form = rounded_.form_of(op)) return lower_short_form(c, *form, lane);
  if (op.id == OpId::div && op.attrs.get_text(ir::AttrKey::precision) == "in_range") {
    return lower_quotient_in_range(c, lane[0], lane[1]);
  }
  return c.elements.op(op.id, from, lane);
}

void GpuLowering::lower_op(const Op& op) {
  // Scalars that the check before the body needed are there already.
  if (op.results.size() == 1 && op.results[0]->type.rank == 0 && !op.results[0]->type.is_view() &&
      find(op.results[0], scalar_layout_) != nullptr && ir::op_info(op.id).effects == ir::Effects::pure) {
    return;
  }
  c.enter_op(op);
  if (op.id == OpId::for_ || op.id == OpId::if_ || op.id == OpId::while_) emit_deferred();
  if (defer(op)) return;
  if (ir::is_elementwise(op.id)) return lower_elementwise(op);
  const auto axis = static_cast<std::size_t>(op.attrs.get_int(ir::AttrKey::axis));
  switch (op.id) {
    case OpId::convert:
    case OpId::bitcast:
      return lower_elementwise(op);
    case OpId::constant:
    case OpId::iota:
    case OpId::inside:
    case OpId::broadcast:
    case OpId::expand_dims:
    case OpId::trans:
      return;  // made where they are used: see make_again
    case OpId::reshape:
      if (!is_relabelling(op) && op.operands[0]->type.elements() != 1) lower_reshape_in_memory(op);
      return;
    case OpId::program_id:
      return set(op.results[0], {program_ids_[axis]});
    case OpId::num_programs:
      return set(op.results[0], {grid_[axis]});
    case OpId::extent:
      return set(op.results[0], {views_.at(op.operands[0]).extents[axis]});
    case OpId::stride:
      return set(op.results[0], {views_.at(op.operands[0]).strides[axis]});
    case OpId::view_base:
      return set(op.results[0], {views_.at(op.operands[0]).base});
    case OpId::load:
      return lower_load(op);
    case OpId::store:
      return lower_store(op);
    case OpId::ptr_add:
      return lower_ptr_add(op);
    case OpId::load_ptr:
      return lower_load_ptr(op);
    case OpId::store_ptr:
      return lower_store_ptr(op);
    case OpId::atomic_rmw:
    case OpId::atomic_cas:
      return lower_atomic(op);
    case OpId::external:
      return lower_external(op);
    case OpId::print:
      return lower_print(op);
    case OpId::assert_:
      return lower_assert(op);
    case OpId::debug_value:
      return;  // debuggers of GPUs see lines alone
    case OpId::reduce:
      return lower_reduce(op);
    case OpId::arg_reduce:
      return lower_arg_reduce(op);
    case OpId::dot:
      return lower_dot(op);
    case OpId::slice:
      return lower_slice(op);
    case OpId::cat:
      return lower_cat(op);
    case OpId::flip:
      return lower_flip(op);
    case OpId::gather:
      return lower_gather(op);
    case OpId::histogram:
      return lower_histogram(op);
    case OpId::sort:
    case OpId::argsort:
      return lower_sort(op);
    case OpId::scan:
    case OpId::fold:
      return lower_scan(op);
    case OpId::for_:
      return lower_for(op);
    case OpId::if_:
      return lower_if(op);
    case OpId::while_:
      return lower_while(op);
    default:
      throw_internal_error(std::source_location::current(),
                           "no GPU lowering of " + std::string(ir::op_info(op.id).name) + " at this stage");
  }
}

LoweredKernel lower_for_gpu(const ir::Function& f, const Target& target, llvm::LLVMContext& context) {
  LoweredKernel kernel = GpuLowering(f, target, context, symbol_for(f.name), true).run();
  if (kernel.module != nullptr) return kernel;
  // A ring that stays while results are exchanged does not fit: each block does one program and gives it back.
  return GpuLowering(f, target, context, symbol_for(f.name), false).run();
}

}  // namespace tileweave::codegen
