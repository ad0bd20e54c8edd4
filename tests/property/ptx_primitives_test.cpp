// Every GPU primitive, element by element, as PTX that ptxas takes: those that the lowering does not emit yet too.
// What they do is tested under SIMT emulation; here that the texts of nvptx.def are right for their targets.
#include <doctest/doctest.h>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tileweave/jit/base/assembler.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/assemble.h"
#include "tileweave/jit/codegen/codegen.h"
#include "tileweave/jit/codegen/nvptx.h"
#include "tileweave/jit/codegen/primitives.h"

using namespace tileweave;
using namespace tileweave::codegen;

namespace {

// Arguments that must be constants, with a value that is right for them.
std::optional<std::uint64_t> constant_for(PrimitiveId id, std::size_t i) {
  const PrimitiveInfo& info = primitive_info(id);
  if (i + 1 == info.arguments.size() && info.effect != PrimitiveEffect::pure && id != PrimitiveId::nanosleep) return 0;
  switch (id) {
    case PrimitiveId::async_wait:
    case PrimitiveId::bulk_wait:
    case PrimitiveId::bulk_wait_read:
    case PrimitiveId::wgmma_wait:
      return 1;
    case PrimitiveId::set_registers_up:
      return 160;
    case PrimitiveId::set_registers_down:
      return 40;
    case PrimitiveId::global_load:
      return i == 2 ? std::optional<std::uint64_t>(1) : std::nullopt;
    case PrimitiveId::global_store:
    case PrimitiveId::async_copy:
      return i == 3 ? std::optional<std::uint64_t>(1) : std::nullopt;
    case PrimitiveId::tma_load:
    case PrimitiveId::tma_store:
      return i == 2 ? std::optional<std::uint64_t>(3) : std::nullopt;
    case PrimitiveId::wgmma_ss:
    case PrimitiveId::wgmma_rs:
      return i >= 4 ? std::optional<std::uint64_t>(0) : std::nullopt;
    case PrimitiveId::wgmma_wait_tied:
      return i == 1 ? std::optional<std::uint64_t>(0) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// A kernel that calls one primitive with arguments made from its parameters, and stores what it gives.
class OneCall {
 public:
  OneCall(llvm::LLVMContext& context, const PrimitiveUse& use, bool predicate_known)
      : module_(std::make_unique<llvm::Module>("one", context)), b_(context), use_(use), known_(predicate_known) {
    const std::vector<llvm::Type*> types(24, b_.getInt64Ty());
    kernel_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), types, false),
                                     llvm::Function::ExternalLinkage, "one", *module_);
    b_.SetInsertPoint(llvm::BasicBlock::Create(context, "", kernel_));
  }

  LoweredKernel take() {
    const bool multiplies = use_.id == PrimitiveId::wgmma_ss || use_.id == PrimitiveId::wgmma_rs;
    llvm::Function* callee = declare_primitive(*module_, use_);
    std::vector<llvm::Value*> arguments;
    for (std::size_t i = 0; i < callee->arg_size(); ++i) {
      llvm::Type* t = callee->getFunctionType()->getParamType(static_cast<unsigned>(i));
      const auto constant = constant_for(use_.id, i);
      arguments.push_back(constant ? llvm::ConstantInt::get(t, *constant) : value(t));
    }
    if (multiplies) {
      // Accumulators as a loop carries them: in their registers before the fence.
      arguments[0] = wait_for(arguments[0]);
      plain(PrimitiveId::wgmma_fence);
    }
    llvm::Value* v = b_.CreateCall(callee, arguments);
    if (multiplies) {
      plain(PrimitiveId::wgmma_commit);
      v = wait_for(v);
    }
    if (v->getType()->isIntegerTy(1)) v = b_.CreateZExt(v, b_.getInt32Ty());
    if (!v->getType()->isVoidTy()) {
      b_.CreateStore(v, b_.CreateIntToPtr(next(), llvm::PointerType::get(module_->getContext(), 1)));
    }
    b_.CreateRetVoid();
    return {std::move(module_), "one", 128, 0, 0, 0, {}};
  }

 private:
  void plain(PrimitiveId id) { b_.CreateCall(declare_primitive(*module_, id), {b_.getInt32(0)}); }
  llvm::Value* wait_for(llvm::Value* accumulators) {
    const Element kind = use_.element == Element::s8 ? Element::s8 : Element::f32;
    llvm::Function* wait = declare_primitive(*module_, PrimitiveId::wgmma_wait_tied, kind, use_.accumulators);
    return b_.CreateCall(wait, {accumulators, b_.getInt32(0), b_.getInt32(0)});
  }
  llvm::Value* next() { return kernel_->getArg(used_++ % 24); }

  llvm::Value* value(llvm::Type* t) {
    if (t->isIntegerTy(1)) return known_ ? b_.getTrue() : b_.CreateICmpNE(next(), b_.getInt64(0));
    if (t->isIntegerTy()) return b_.CreateTrunc(next(), t);
    if (t->isFloatTy()) return b_.CreateBitCast(b_.CreateTrunc(next(), b_.getInt32Ty()), t);
    if (t->isDoubleTy()) return b_.CreateBitCast(next(), t);
    llvm::Value* all = llvm::PoisonValue::get(t);
    if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(t)) {
      for (unsigned i = 0; i < vector->getNumElements(); ++i) {
        all = b_.CreateInsertElement(all, value(vector->getElementType()), i);
      }
      return all;
    }
    for (unsigned i = 0; i < t->getArrayNumElements(); ++i) {
      all = b_.CreateInsertValue(all, value(t->getArrayElementType()), i);
    }
    return all;
  }

  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<> b_;
  PrimitiveUse use_;
  bool known_;
  llvm::Function* kernel_ = nullptr;
  unsigned used_ = 0;
};

std::vector<PrimitiveUse> all_uses() {
  std::vector<PrimitiveUse> out;
  for (int i = 0; i < primitive_count; ++i) {
    const auto id = static_cast<PrimitiveId>(i);
    const bool accumulates = primitive_info(id).arguments.find('A') != std::string_view::npos;
    for (int e = 0; e <= static_cast<int>(Element::e5m2_e5m2); ++e) {
      const auto element = static_cast<Element>(e);
      // Alone it commits nothing, of which ptxas complains; it stands behind every wgmma.
      if (id == PrimitiveId::wgmma_commit) continue;
      if (has_element(id, element)) out.push_back({id, element, accumulates ? 32 : 0});
    }
  }
  return out;
}

// The problem; "refused" where the primitive has no PTX on this target.
std::string problem_with(const PrimitiveUse& use, const std::string& target, bool predicate_known) {
  llvm::LLVMContext context;
  LoweredKernel kernel = OneCall(context, use, predicate_known).take();
  std::string ptx;
  try {
    ptx = nvptx_text(kernel, parse_target(target), Emit::assembly);
  } catch (const InternalError& e) {
    const std::string said = e.what();
    return said.find("primitive tw.") != std::string::npos && said.find(" has no PTX for ") != std::string::npos
               ? "refused"
               : said;
  }
  try {
    assemble(ptx, target, primitive_name(use), AssemblerChoice::ptxas);
    return "";
  } catch (const CompileError& e) {
    return std::string(e.what()) + "\n" + ptx;
  }
}

bool has_no_channel(PrimitiveId id) {
  return id == PrimitiveId::assert_true || id == PrimitiveId::check_failed || id == PrimitiveId::print_value;
}

bool can_assemble() {
  if (!find_ptxas().empty()) return true;
  std::puts("SKIP(ptxas): there is no ptxas in PATH, CUDA_HOME or /usr/local/cuda");
  return false;
}

}  // namespace

TEST_CASE("PTX: every primitive and element assembles for sm_90a") {
  if (!can_assemble()) return;
  for (const PrimitiveUse& use : all_uses()) {
    const bool predicated = primitive_info(use.id).arguments.find('b') != std::string_view::npos;
    for (const bool known : {false, true}) {
      if (known && !predicated) continue;
      const std::string expected = has_no_channel(use.id) ? "refused" : "";
      const std::string problem = problem_with(use, "sm_90a", known);
      CHECK_MESSAGE(problem == expected, primitive_name(use) << ": " << problem);
    }
  }
}

TEST_CASE("PTX: every primitive that sm_80 has assembles there, and the others are refused by name") {
  if (!can_assemble()) return;
  int refused = 0;
  for (const PrimitiveUse& use : all_uses()) {
    const std::string problem = problem_with(use, "sm_80", false);
    refused += problem == "refused" ? 1 : 0;
    CHECK_MESSAGE((problem.empty() || problem == "refused"), primitive_name(use) << ": " << problem);
  }
  CHECK(problem_with({PrimitiveId::mma_f16}, "sm_80", false) == "");
  CHECK(problem_with({PrimitiveId::bulk_commit}, "sm_80", false) == "refused");
  CHECK(refused > 20);
}
