// Makes a lowered GPU module compile for the host: its kernel becomes a plain function of one thread, its primitives
// stay calls out of the object. Beside nvptx.cpp, for the machine in jit/runtime/simt_*.
#include "tileweave/jit/codegen/simt.h"

#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <source_location>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/llvm_setup.h"
#include "tileweave/jit/codegen/primitives.h"

namespace tileweave::codegen {
namespace {

[[noreturn]] void refuse(const std::string& why, const std::source_location& where = std::source_location::current()) {
  throw_internal_error(where, "SIMT emulation: " + why);
}

// --- The kernel: a function that takes its slots from memory.

llvm::Function& kernel_of(llvm::Module& m, const std::string& entry) {
  llvm::Function* f = m.getFunction(entry);
  if (f == nullptr || f->isDeclaration()) refuse("the module has no kernel '" + entry + "'");
  for (const llvm::Argument& a : f->args()) {
    if (!a.getType()->isIntegerTy(64)) refuse("a parameter of kernel '" + entry + "' is not an i64");
  }
  return *f;
}

// Nothing of NVPTX may reach the host's code generator.
void forget_gpu(llvm::Module& m) {
  llvm::StripDebugInfo(m);
  for (const char* name : {"nvvm.annotations", "nvvmir.version"}) {
    if (llvm::NamedMDNode* node = m.getNamedMetadata(name)) m.eraseNamedMetadata(node);
  }
  for (llvm::Function& f : m) {
    f.setCallingConv(llvm::CallingConv::C);
    for (const char* name : {"target-cpu", "target-features", "tune-cpu"}) f.removeFnAttr(name);
    for (llvm::Instruction& i : llvm::instructions(f)) {
      if (auto* call = llvm::dyn_cast<llvm::CallBase>(&i)) call->setCallingConv(llvm::CallingConv::C);
    }
  }
}

void add_thread_entry(llvm::Module& m, llvm::Function& kernel) {
  llvm::LLVMContext& c = m.getContext();
  llvm::Type* pointer = llvm::PointerType::getUnqual(c);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(c), {pointer}, false);
  auto* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, kernel.getName() + ".simt", m);
  f->addFnAttr(llvm::Attribute::NoUnwind);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(c, "", f));
  std::vector<llvm::Value*> slots;
  for (unsigned i = 0; i < kernel.arg_size(); ++i) {
    slots.push_back(b.CreateLoad(b.getInt64Ty(), b.CreateConstInBoundsGEP1_32(b.getInt64Ty(), f->getArg(0), i)));
  }
  b.CreateCall(&kernel, slots);
  b.CreateRetVoid();
  kernel.setLinkage(llvm::GlobalValue::InternalLinkage);
}

// --- What the module says about itself, as jit/runtime/simt_about.h reads it.

std::string number_text(const llvm::MDNode& node, unsigned i) {
  const auto* n = llvm::mdconst::dyn_extract<llvm::ConstantInt>(node.getOperand(i));
  return std::to_string(n != nullptr ? n->getZExtValue() : 0);
}
std::string string_of(const llvm::MDNode& node, unsigned i) {
  const auto* s = llvm::dyn_cast<llvm::MDString>(node.getOperand(i));
  return s != nullptr ? s->getString().str() : "";
}
std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += "\\\\";
    if (c == '\n') out += "\\n";
    if (c != '\\' && c != '\n') out += c;
  }
  return out;
}

template <class F>
void for_each_node(const llvm::Module& m, const char* name, F&& f) {
  if (const llvm::NamedMDNode* list = m.getNamedMetadata(name)) {
    for (const llvm::MDNode* node : list->operands()) f(*node);
  }
}

std::string about_text(const llvm::Module& m) {
  std::string out;
  for_each_node(m, "tw.sites", [&](const llvm::MDNode& n) {
    out += "site " + number_text(n, 1) + " " + number_text(n, 2) + " " + string_of(n, 0) + "\n";
  });
  for_each_node(m, "tw.texts", [&](const llvm::MDNode& n) { out += "text " + escape(string_of(n, 0)) + "\n"; });
  for_each_node(m, "tw.views", [&](const llvm::MDNode& n) {
    out += "view " + number_text(n, 0) + " " + number_text(n, 1) + " " + number_text(n, 2) + "\n";
  });
  return out;
}

void add_about(llvm::Module& m, const std::string& entry) {
  llvm::LLVMContext& c = m.getContext();
  auto* type = llvm::FunctionType::get(llvm::PointerType::getUnqual(c), false);
  auto* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, entry + ".about", m);
  f->addFnAttr(llvm::Attribute::NoUnwind);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(c, "", f));
  b.CreateRet(b.CreateGlobalString(about_text(m), "tw.about"));
}

// --- Calls of primitives.

struct PrimitiveCall {
  llvm::CallInst* call;
  PrimitiveUse use;
};

std::vector<PrimitiveCall> calls_of_primitives(llvm::Module& m) {
  std::vector<PrimitiveCall> out;
  for (llvm::Function& f : m) {
    for (llvm::Instruction& i : llvm::instructions(f)) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
      if (call == nullptr || call->getCalledFunction() == nullptr) continue;
      const llvm::StringRef name = call->getCalledFunction()->getName();
      if (!name.starts_with("tw.")) continue;
      const auto use = primitive_from_name({name.data(), name.size()});
      if (!use) refuse("there is no primitive '" + name.str() + "'");
      if (call->getFunctionType() != primitive_type(m.getContext(), *use)) {
        refuse("'" + name.str() + "' is called with another type");
      }
      out.push_back({call, *use});
    }
  }
  return out;
}

bool has_site(PrimitiveId id) {
  return primitive_info(id).effect != PrimitiveEffect::pure && id != PrimitiveId::nanosleep && id != PrimitiveId::clock;
}

// Numbers the calls above the site: the host's code generator may merge or copy them, and the machine must still tell
// whether lanes are at the same one.
void number_calls(const std::vector<PrimitiveCall>& calls) {
  std::uint64_t number = 0;
  for (const PrimitiveCall& p : calls) {
    if (!has_site(p.use.id)) continue;
    const unsigned last = p.call->arg_size() - 1;
    auto* site = llvm::dyn_cast<llvm::ConstantInt>(p.call->getArgOperand(last));
    if (site == nullptr) refuse("the site of a primitive is not a constant");
    const std::uint64_t place = site->getZExtValue() < 0x10000 ? site->getZExtValue() : 0;
    number = number % 0xffff + 1;
    p.call->setArgOperand(last, llvm::ConstantInt::get(site->getType(), number << 16 | place));
  }
}

llvm::Value* alloca_at_entry(llvm::Function& f, llvm::Type* type) {
  llvm::IRBuilder<> b(&*f.getEntryBlock().getFirstInsertionPt());
  return b.CreateAlloca(type);
}

// The machine takes accumulators as (pointer, count) and changes them in place: C++ cannot take an array by value.
void pass_accumulators_in_memory(llvm::Module& m, const PrimitiveCall& p) {
  llvm::CallInst& call = *p.call;
  llvm::IRBuilder<> b(&call);
  PrimitiveUse plain = p.use;
  plain.accumulators = 0;
  std::vector<llvm::Value*> arguments;
  std::vector<llvm::Type*> types;
  llvm::Value* memory = alloca_at_entry(*call.getFunction(), call.getType());
  for (llvm::Value* a : call.args()) {
    if (a->getType()->isArrayTy()) {
      b.CreateStore(a, memory);
      arguments.push_back(memory);
      arguments.push_back(b.getInt32(static_cast<std::uint32_t>(p.use.accumulators)));
      types.push_back(memory->getType());
      types.push_back(b.getInt32Ty());
    } else {
      arguments.push_back(a);
      types.push_back(a->getType());
    }
  }
  const auto callee =
      m.getOrInsertFunction(primitive_name(plain), llvm::FunctionType::get(b.getVoidTy(), types, false));
  b.CreateCall(callee, arguments);
  call.replaceAllUsesWith(b.CreateLoad(call.getType(), memory));
  call.eraseFromParent();
}

// --- The object.

std::unique_ptr<llvm::TargetMachine> baseline_host() {
  Target t;
  t.kind = Target::Kind::cpu;
  t.triple = "x86_64-unknown-linux-gnu";
  t.cpu = "x86-64";
  return make_target_machine(t);
}

void prepare(llvm::Module& m, const std::string& entry, const llvm::TargetMachine& host) {
  llvm::Function& kernel = kernel_of(m, entry);
  forget_gpu(m);
  set_target(m, host);
  const std::vector<PrimitiveCall> calls = calls_of_primitives(m);
  number_calls(calls);
  for (const PrimitiveCall& p : calls) {
    if (p.use.accumulators > 0) pass_accumulators_in_memory(m, p);
  }
  add_thread_entry(m, kernel);
  add_about(m, entry);
  verify_module(m);
}

}  // namespace

std::vector<std::byte> simt_object(llvm::Module& module, const std::string& entry) {
  const std::unique_ptr<llvm::TargetMachine> host = baseline_host();
  prepare(module, entry, *host);
  return emit_object(module, *host);
}

std::string simt_assembly(llvm::Module& module, const std::string& entry) {
  const std::unique_ptr<llvm::TargetMachine> host = baseline_host();
  prepare(module, entry, *host);
  return emit_assembly(module, *host);
}

}  // namespace tileweave::codegen
