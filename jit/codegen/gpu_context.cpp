// The kernel function, its prologue, linear maps of the thread id, and splitting of long blocks.
// Used by every part of the GPU lowering.
#include "tileweave/jit/codegen/gpu_context.h"

#include <bit>

namespace tileweave::codegen {
namespace {

constexpr std::size_t long_block = 1000;

// Whether the kernel prints or checks: then it takes a channel's address too.
bool has_channel(const ir::Region& r) {
  for (const auto& op : r.ops) {
    if (op->id == ir::OpId::print || op->id == ir::OpId::assert_) return true;
    for (const auto& inner : op->regions) {
      if (has_channel(*inner)) return true;
    }
  }
  return false;
}

llvm::Function* make_kernel(llvm::Module& m, const ir::Function& f, const std::string& entry) {
  std::size_t slots = 3;
  for (const ir::Param& p : f.params) {
    slots += p.value->type.is_view() ? 1 + 2 * static_cast<std::size_t>(p.value->type.rank) : 1;
  }
  if (has_channel(f.body())) ++slots;
  llvm::LLVMContext& c = m.getContext();
  const std::vector<llvm::Type*> types(slots, llvm::Type::getInt64Ty(c));
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(c), types, false);
  auto* kernel = llvm::Function::Create(type, llvm::Function::ExternalLinkage, entry, m);
  kernel->addFnAttr(llvm::Attribute::NoUnwind);
  return kernel;
}

}  // namespace

GpuContext::GpuContext(const ir::Function& function, llvm::LLVMContext& c, ElementTarget target, int warp_count,
                       std::string entry)
    : f(function),
      llvm(c),
      module(std::make_unique<llvm::Module>(function.name, c)),
      b(c),
      elements(b, target),
      warps(warp_count),
      warp_bits(std::countr_zero(static_cast<unsigned>(warp_count))) {
  kernel = make_kernel(*module, f, entry);
  prologue_ = new_block("prologue");
  exit = new_block("exit");
  b.SetInsertPoint(exit);
  b.CreateRetVoid();
  b.SetInsertPoint(prologue_);
  if (f.options.debug > 0) begin_lines();
}

// Lines only: directives, no DWARF.
void GpuContext::begin_lines() {
  lines_ = std::make_unique<llvm::DIBuilder>(*module);
  llvm::DIFile* file = lines_->createFile(f.place.known() ? f.place.file : "tileweave", "");
  lines_->createCompileUnit(llvm::dwarf::DW_LANG_C_plus_plus, file, "tileweave", true, "", 0, "",
                            llvm::DICompileUnit::DebugDirectivesOnly);
  auto* type = lines_->createSubroutineType(lines_->getOrCreateTypeArray({}));
  subprogram_ = lines_->createFunction(file, f.name, kernel->getName(), file, f.place.line, type, f.place.line,
                                       llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
  kernel->setSubprogram(subprogram_);
  module->addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
}

void GpuContext::set_line(const Place& place) {
  if (lines_ == nullptr || !place.known()) return;
  llvm::DIScope* scope = subprogram_;
  if (subprogram_->getFilename() != place.file) {
    scope = lines_->createLexicalBlockFile(subprogram_, lines_->createFile(place.file, ""));
  }
  b.SetCurrentDebugLocation(llvm::DILocation::get(llvm, place.line, place.column, scope));
}

void GpuContext::end_lines() {
  if (lines_ != nullptr) lines_->finalize();
}

void GpuContext::end_prologue() {
  llvm::BasicBlock* start = new_block("start");
  b.CreateBr(start);
  b.SetInsertPoint(start);
}

llvm::IRBuilder<> GpuContext::prologue() {
  if (llvm::Instruction* end = prologue_->getTerminator()) return llvm::IRBuilder<>(end);
  return llvm::IRBuilder<>(prologue_);
}

llvm::Value* GpuContext::call(PrimitiveId id, Element element, std::initializer_list<llvm::Value*> arguments) {
  llvm::Function* callee = declare_primitive(*module, id, element);
  return b.CreateCall(callee, llvm::ArrayRef<llvm::Value*>(arguments.begin(), arguments.size()));
}

void GpuContext::enter_op(const ir::Op& op) {
  site_ = sites.add(op.place);
  set_line(op.place);
}

llvm::Value* GpuContext::cached(llvm::Value*& slot, PrimitiveId id) {
  if (slot == nullptr) slot = prologue().CreateCall(declare_primitive(*module, id));
  return slot;
}
llvm::Value* GpuContext::thread() { return cached(thread_, PrimitiveId::thread_id); }
llvm::Value* GpuContext::lane() { return cached(lane_, PrimitiveId::lane_id); }
llvm::Value* GpuContext::warp() { return cached(warp_, PrimitiveId::warp_id); }

void GpuContext::split_long_block() {
  // Counting a block's instructions walks over them, so it is done now and then.
  if (++asked_ % 16 != 0 || b.GetInsertBlock()->size() < long_block) return;
  llvm::BasicBlock* next = new_block("part");
  // A grid extent is never negative, which no pass knows; each split asks a different question, so that the answer to
  // one does not give the others.
  llvm::Value* extent = kernel->getArg(static_cast<unsigned>(kernel->arg_size()) - 1);
  b.CreateCondBr(b.CreateICmpEQ(extent, i64(-1 - ++splits_)), exit, next);
  b.SetInsertPoint(next);
}

llvm::Value* GpuContext::linear(llvm::IRBuilderBase& at, llvm::Value* x, const std::vector<std::uint64_t>& bases) {
  const auto bit = [](std::uint64_t i) { return std::uint64_t{1} << i; };
  llvm::Value* sum = at.getInt32(0);
  std::uint64_t covered = 0;
  const auto add = [&](llvm::Value* term, std::uint64_t image) {
    // Disjoint parts add up, which folds into addresses; others need the xor that the algebra means.
    sum = covered == 0             ? term
          : (covered & image) == 0 ? at.CreateAdd(sum, term, "", true, true)
                                   : at.CreateXor(sum, term);
    covered |= image;
  };
  for (std::size_t i = 0; i < bases.size();) {
    if (bases[i] == 0) {
      ++i;
      continue;
    }
    // A run of input bits that becomes a run of output bits is one mask and one shift.
    std::size_t end = i + 1;
    const bool single = std::has_single_bit(bases[i]);
    while (single && end < bases.size() && bases[end] == bases[i] << (end - i)) ++end;
    if (single) {
      const int shift = std::countr_zero(bases[i]) - static_cast<int>(i);
      const std::uint64_t mask = (bit(end - i) - 1) << i;
      llvm::Value* part = i == 0 && end == bases.size() ? x : at.CreateAnd(x, mask);
      if (shift > 0) part = at.CreateShl(part, static_cast<std::uint64_t>(shift), "", true, true);
      if (shift < 0) part = at.CreateLShr(part, static_cast<std::uint64_t>(-shift));
      add(part, bases[i] * (bit(end - i) - 1));
    } else {
      llvm::Value* flag = at.CreateAnd(at.CreateLShr(x, i), std::uint64_t{1});
      add(at.CreateAnd(at.CreateNeg(flag), bases[i]), bases[i]);
    }
    i = end;
  }
  return sum;
}

llvm::Value* GpuContext::thread_linear(const std::vector<std::uint64_t>& bases) {
  const auto known = thread_parts_.find(bases);
  if (known != thread_parts_.end()) return known->second;
  llvm::Value* x = thread();
  llvm::IRBuilder<> at = prologue();
  return thread_parts_[bases] = linear(at, x, bases);
}

llvm::Value* GpuContext::is_first(std::uint64_t free_lanes, std::uint64_t free_warps) {
  const std::uint64_t mask = free_lanes | free_warps << 5;
  if (mask == 0) return nullptr;
  std::vector<std::uint64_t> bases(static_cast<std::size_t>(5 + warp_bits), 0);
  for (std::size_t i = 0; i < bases.size(); ++i) {
    if ((mask >> i & 1) != 0) bases[i] = std::uint64_t{1} << i;
  }
  return b.CreateICmpEQ(thread_linear(bases), i32(0));
}

}  // namespace tileweave::codegen
