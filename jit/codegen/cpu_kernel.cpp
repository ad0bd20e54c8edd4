// A CPU kernel: the entry function with its loop over programs, from tile IR to an object or text.
// The CPU's half of codegen.h; the launch ABI is that of jit/runtime/abi.h.
#include <memory>
#include <optional>

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/MC/MCSubtargetInfo.h>

#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/codegen/cpu_context.h"
#include "tileweave/jit/codegen/cpu_debug.h"
#include "tileweave/jit/codegen/llvm_setup.h"
#include "tileweave/jit/codegen/x86_masked_logic.h"

namespace tileweave::codegen {
namespace {

using llvm::Value;

// What no last-level cache holds beside the inputs.
constexpr std::int64_t streaming_bytes = std::int64_t{32} << 20;

cpu::Machine machine_of(const llvm::TargetMachine& tm) {
  const llvm::MCSubtargetInfo& info = *tm.getMCSubtargetInfo();
  cpu::Machine m;
  if (!tm.getTargetTriple().isX86()) return m;
  m.has_masks = info.checkFeatures("+avx512f,+avx512vl,+avx512bw,+avx512dq");
  m.vector_bits = m.has_masks ? 512 : info.checkFeatures("+avx2,+fma") ? 256 : 128;
  m.element.f16_convert = m.has_masks || info.checkFeatures("+f16c");
  m.element.range_min = m.has_masks;
  m.streaming_bytes = streaming_bytes;
  return m;
}

// A symbol that is no C function's name, whatever the user called the kernel.
std::string symbol_of(const std::string& name) {
  std::string symbol = "kernel_";
  for (const char ch : name) {
    const bool plain = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9');
    symbol += plain ? ch : '_';
  }
  return symbol;
}

// The arguments of the entry, in the ABI's order.
enum Argument : unsigned {
  slots_argument,
  grid_argument,
  begin_argument,
  end_argument,
  scratch_argument,
  services_argument
};

// Options::debug from which on variables are kept: code as it was written, one program after another.
constexpr int full_debug = 2;

class Kernel {
 public:
  Kernel(const ir::Function& f, const Target& t)
      : f_(f), target_machine_(make_target_machine(t)), module_(std::make_unique<llvm::Module>(f.name, context_)) {
    if (f.options.debug >= full_debug) target_machine_->setOptLevel(llvm::CodeGenOptLevel::None);
    set_target(*module_, *target_machine_);
    lower();
    verify_module(*module_);
    if (f.options.debug < full_debug) optimize(*module_, *target_machine_);
    if (machine_of(*target_machine_).has_masks) separate_logic_from_selects(*module_);
  }

  std::string text(Emit emit) {
    return emit == Emit::llvm ? emit_llvm(*module_) : emit_assembly(*module_, *target_machine_);
  }

  Binary binary(const Target& t) {
    Binary b;
    b.kind = Binary::Kind::elf_object;
    b.entry = symbol_of(f_.name);
    b.target = (t.triple.starts_with("x86_64") ? "x86-64:" : "aarch64:") + t.cpu;
    b.scratch_bytes = scratch_bytes_;
    if (f_.options.debug >= full_debug) b.meta = "serial=1";
    b.code = emit_object(*module_, *target_machine_);
    return b;
  }

 private:
  void lower() {
    const cpu::Machine machine = machine_of(*target_machine_);
    auto* pointer = llvm::PointerType::getUnqual(context_);
    auto* word = llvm::Type::getInt64Ty(context_);
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context_),
                                         {pointer, pointer, word, word, pointer, pointer}, false);
    auto* entry = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol_of(f_.name), *module_);
    entry->addFnAttr(llvm::Attribute::NoUnwind);
    entry->addFnAttr("prefer-vector-width", std::to_string(machine.vector_bits));
    entry->addFnAttr("min-legal-vector-width", std::to_string(machine.vector_bits));
    for (const unsigned a : {slots_argument, grid_argument, scratch_argument}) {
      entry->addParamAttr(a, llvm::Attribute::NoAlias);
    }
    entry->addParamAttr(scratch_argument, llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
    cpu::Context c(f_, entry, machine);
    c.b.SetInsertPoint(c.new_block("entry"));
    c.scratch = entry->getArg(scratch_argument);
    c.services = entry->getArg(services_argument);
    std::optional<cpu::DebugInfo> debug;
    if (f_.options.debug > 0) {
      debug.emplace(c, *module_, f_.options.debug >= full_debug);
      c.debug = &*debug;
      if (f_.options.debug >= full_debug) {
        entry->addFnAttr(llvm::Attribute::OptimizeNone);
        entry->addFnAttr(llvm::Attribute::NoInline);
        entry->addFnAttr("frame-pointer", "all");
      }
    }
    read_arguments(c);
    if (debug) debug->describe_parameters(entry->getArg(slots_argument));
    emit_programs(c);
    if (debug) debug->finish();
    scratch_bytes_ = c.scratch_bytes();
  }

  Value* slot(cpu::Context& c, llvm::Type* type, unsigned i) {
    Value* at = c.b.CreateConstGEP1_64(c.b.getInt64Ty(), c.entry->getArg(slots_argument), i);
    return c.b.CreateAlignedLoad(type, at, llvm::Align(8));
  }

  void read_arguments(cpu::Context& c) {
    unsigned next = 0;
    for (const ir::Param& p : f_.params) {
      const ir::Type& t = p.value->type;
      if (t.is_view()) {
        c.views[p.value] = read_view(c, p, next);
        continue;
      }
      const unsigned at = next++;
      if (p.constant) {
        c.units[p.value] = c.e.constant_bits(t.elem, *p.constant);
      } else {
        c.units[p.value] = c.from_memory(slot(c, c.memory_type(t), at), t);
      }
    }
    for (unsigned axis = 0; axis < 3; ++axis) {
      Value* at = c.b.CreateConstGEP1_64(c.b.getInt64Ty(), c.entry->getArg(grid_argument), axis);
      c.grid[axis] = c.b.CreateAlignedLoad(c.b.getInt64Ty(), at, llvm::Align(8));
    }
  }

  cpu::ViewArgument read_view(cpu::Context& c, const ir::Param& p, unsigned& next) {
    cpu::ViewArgument view;
    view.facts = p.facts;
    view.base = slot(c, llvm::PointerType::getUnqual(context_), next++);
    const int rank = p.value->type.rank;
    for (int k = 0; k < rank; ++k) view.extents.push_back(slot(c, c.b.getInt64Ty(), next++));
    for (int k = 0; k < rank; ++k) {
      const unsigned at = next++;
      if ((p.facts.unit_stride >> k & 1) != 0) {
        view.strides.push_back(c.i64(1));
      } else if ((p.facts.zero_stride >> k & 1) != 0) {
        view.strides.push_back(c.i64(0));
      } else {
        view.strides.push_back(slot(c, c.b.getInt64Ty(), at));
      }
    }
    return view;
  }

  // for (program = begin; program < end; ++program), with its place in the grid counted along.
  void emit_programs(cpu::Context& c) {
    auto& b = c.b;
    Value *begin = c.entry->getArg(begin_argument), *end = c.entry->getArg(end_argument);
    llvm::BasicBlock *start = c.new_block("start"), *done = c.new_block("done");
    b.CreateCondBr(b.CreateICmpSLT(begin, end), start, done);
    b.SetInsertPoint(start);
    llvm::AllocaInst* at[3];
    Value* rest = begin;
    for (unsigned axis = 0; axis < 3; ++axis) {
      at[axis] = c.slot(b.getInt64Ty());
      b.CreateStore(axis == 2 ? rest : b.CreateURem(rest, c.grid[axis]), at[axis]);
      if (axis != 2) rest = b.CreateUDiv(rest, c.grid[axis]);
    }
    cpu::emit_loop(c, begin, end, 1, [&](Value*) {
      for (unsigned axis = 0; axis < 3; ++axis) c.program[axis] = b.CreateLoad(b.getInt64Ty(), at[axis]);
      if (c.debug != nullptr) c.debug->show_program();
      cpu::RegionPlan body = c.planner.plan(f_.body());
      cpu::plan_fetches(body, c.planner.kept());
      cpu::lower_region(c, f_.body(), body, {});
      if (c.debug != nullptr) c.debug->set_line(f_.place);
      Value* carry = c.i64(1);
      for (unsigned axis = 0; axis < 3; ++axis) {
        Value* next = b.CreateAdd(c.program[axis], carry);
        Value* wraps = b.CreateICmpEQ(next, c.grid[axis]);
        b.CreateStore(axis == 2 ? next : b.CreateSelect(wraps, c.i64(0), next), at[axis]);
        carry = b.CreateZExt(wraps, b.getInt64Ty());
      }
    });
    if (c.has_streams) b.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
    b.CreateBr(done);
    b.SetInsertPoint(done);
    b.CreateRetVoid();
  }

  const ir::Function& f_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::TargetMachine> target_machine_;
  std::unique_ptr<llvm::Module> module_;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace

std::string cpu_text(const ir::Function& f, const Target& t, Emit emit) { return Kernel(f, t).text(emit); }
Binary cpu_binary(const ir::Function& f, const Target& t) { return Kernel(f, t).binary(t); }

}  // namespace tileweave::codegen
