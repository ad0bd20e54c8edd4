// The bodies of the GPU primitives: LLVM instructions where there are any, else inline PTX made from nvptx.def.
// Between the optimised calls of a lowered kernel and NVPTX's instruction selection.
#include "tileweave/jit/codegen/nvptx_primitives.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/codegen/primitives.h"

namespace tileweave::codegen {
namespace {

using llvm::Value;

constexpr unsigned global_space = 1, shared_space = 3;
constexpr int base_ptx = 80;

struct Row {
  PrimitiveId id;
  std::string_view elements;
  int sm, ptx;
  std::string_view text;
};
constexpr Row rows[] = {
#define TILEWEAVE_NVPTX(id, elements, sm, ptx, text) {PrimitiveId::id, elements, sm, ptx, text},
#include "tileweave/jit/codegen/nvptx.def"
};

bool lists(std::string_view elements, Element e) {
  return elements.empty() ||
         (" " + std::string(elements) + " ").find(" " + std::string(element_name(e)) + " ") != std::string::npos;
}

const Row* find_row(const PrimitiveUse& use, int sm) {
  const Row* found = nullptr;
  for (const Row& r : rows) {
    if (r.id == use.id && r.sm <= sm && lists(r.elements, use.element)) found = &r;
  }
  return found;
}

// Those that this file writes itself.
bool is_built_here(PrimitiveId id) {
  switch (id) {
    case PrimitiveId::thread_id:
    case PrimitiveId::lane_id:
    case PrimitiveId::warp_id:
    case PrimitiveId::shared_base:
    case PrimitiveId::block_id:
    case PrimitiveId::block_count:
    case PrimitiveId::global_load:
    case PrimitiveId::global_store:
    case PrimitiveId::tma_load:
    case PrimitiveId::tma_store:
    case PrimitiveId::wgmma_ss:
    case PrimitiveId::wgmma_rs:
    case PrimitiveId::wgmma_wait_tied:
      return true;
    default:
      return false;
  }
}

bool needs_sm_90(PrimitiveId id) { return is_built_here(id) && id >= PrimitiveId::tma_load; }

[[noreturn]] void refuse(const PrimitiveUse& use, int sm) {
  throw_internal_error(std::source_location::current(),
                       "primitive " + primitive_name(use) + " has no PTX for sm_" + std::to_string(sm));
}

std::string_view memory_type(Element e) {
  switch (e) {
    case Element::i8:
      return "b8";
    case Element::i16:
      return "b16";
    case Element::i64:
      return "b64";
    case Element::v2i32:
      return "v2.b32";
    case Element::v4i32:
      return "v4.b32";
    default:
      return "b32";
  }
}

unsigned memory_bytes(Element e) {
  switch (e) {
    case Element::i8:
      return 1;
    case Element::i16:
      return 2;
    case Element::i64:
    case Element::v2i32:
      return 8;
    case Element::v4i32:
      return 16;
    default:
      return 4;
  }
}

std::string_view added_type(Element e) {
  switch (e) {
    case Element::i64:
      return "u64";
    case Element::f32:
      return "f32";
    case Element::f64:
      return "f64";
    case Element::f16x2:
      return "noftz.f16x2";
    case Element::bf16x2:
      return "noftz.bf16x2";
    default:
      return "u32";
  }
}

std::string_view compared_type(Element e) {
  switch (e) {
    case Element::u32:
      return "u32";
    case Element::i64:
      return "s64";
    case Element::u64:
      return "u64";
    default:
      return "s32";
  }
}

std::string_view bits_type(Element e) { return e == Element::i64 ? "b64" : e == Element::i16 ? "b16" : "b32"; }

char constraint_of(const llvm::Type* t) {
  if (t->isIntegerTy(1)) return 'b';
  if (t->isIntegerTy(16)) return 'h';
  if (t->isIntegerTy(64)) return 'l';
  if (t->isFloatTy()) return 'f';
  return t->isDoubleTy() ? 'd' : 'r';
}

// --- One piece of inline PTX: operands are numbered results first, as LLVM wants them.

class PtxText {
 public:
  PtxText(llvm::IRBuilderBase& b, llvm::Type* result) : b_(b), result_(result) {
    if (result->isVoidTy()) return;
    scalar_ = result->getScalarType();
    if (auto* v = llvm::dyn_cast<llvm::FixedVectorType>(result)) count_ = v->getNumElements();
    if (auto* a = llvm::dyn_cast<llvm::ArrayType>(result)) {
      scalar_ = a->getElementType();
      count_ = static_cast<unsigned>(a->getNumElements());
    }
    if (!is_aggregate()) count_ = 1;
    // Predicates and bytes have no registers to return in.
    if (result->isIntegerTy(1)) scalar_ = b.getInt32Ty();
    if (result->isIntegerTy(8)) scalar_ = b.getInt16Ty();
    // Early clobber: some texts write the result before they have read everything.
    for (unsigned i = 0; i < count_; ++i)
      constraints_ += (i == 0 ? "=&" : ",=&") + std::string(1, constraint_of(scalar_));
  }

  std::string results() const {
    if (result_->isIntegerTy(1)) return "tw_r";
    return operands(0, count_, is_aggregate());
  }

  // `v` as an operand: its text. Vectors and arrays in braces.
  std::string add(Value* v) {
    llvm::Type* t = v->getType();
    if (t->isIntegerTy(8)) v = b_.CreateZExt(v, b_.getInt16Ty());
    if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(v); c != nullptr && !c->getType()->isIntegerTy(1)) {
      return std::to_string(c->getSExtValue());
    }
    const unsigned first = count_ + static_cast<unsigned>(arguments_.size());
    if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(t)) {
      for (unsigned i = 0; i < vector->getNumElements(); ++i) add_one(b_.CreateExtractElement(v, i));
      return operands(first, vector->getNumElements(), true);
    }
    add_one(v);
    return operands(first, 1, false);
  }

  // The array that the results start from: tied to their registers.
  void add_tied(Value* array) {
    for (unsigned i = 0; i < count_; ++i) {
      constraints_ += "," + std::to_string(i);
      arguments_.push_back(b_.CreateExtractValue(array, i));
    }
  }

  std::string zero_results() const {
    std::string out;
    for (unsigned i = 0; i < count_; ++i) {
      const unsigned bits = scalar_->getPrimitiveSizeInBits();
      out += "mov.b" + std::to_string(bits) + " $" + std::to_string(i) + ", 0; ";
    }
    return out;
  }

  Value* emit(const std::string& text, PrimitiveEffect effect) {
    const bool flag = result_->isIntegerTy(1);
    std::string whole = "{ " + std::string(flag ? ".reg .pred tw_r; " : "") + text;
    if (flag) whole += " selp.b32 $0, 1, 0, tw_r;";
    whole += " }";
    const bool orders = effect == PrimitiveEffect::writes || effect == PrimitiveEffect::sync;
    if (orders) constraints_ += std::string(constraints_.empty() ? "" : ",") + "~{memory}";
    std::vector<llvm::Type*> types;
    for (Value* a : arguments_) types.push_back(a->getType());
    auto* type = llvm::FunctionType::get(asm_result(), types, false);
    const bool stays = orders || effect == PrimitiveEffect::warp;
    llvm::CallInst* call = b_.CreateCall(llvm::InlineAsm::get(type, whole, constraints_, stays), arguments_);
    call->addFnAttr(llvm::Attribute::NoUnwind);
    if (effect == PrimitiveEffect::warp || effect == PrimitiveEffect::sync)
      call->addFnAttr(llvm::Attribute::Convergent);
    if (effect == PrimitiveEffect::pure) call->setMemoryEffects(llvm::MemoryEffects::none());
    if (effect == PrimitiveEffect::reads) call->setMemoryEffects(llvm::MemoryEffects::readOnly());
    if (effect == PrimitiveEffect::warp) call->setMemoryEffects(llvm::MemoryEffects::inaccessibleMemOnly());
    return result_of(call);
  }

 private:
  bool is_aggregate() const { return result_->isVectorTy() || result_->isArrayTy(); }

  void add_one(Value* v) {
    constraints_ += (constraints_.empty() ? "" : ",") + std::string(1, constraint_of(v->getType()));
    arguments_.push_back(v);
  }

  static std::string operands(unsigned first, unsigned count, bool braces) {
    std::string out = braces ? "{" : "";
    for (unsigned i = 0; i < count; ++i) out += (i == 0 ? "$" : ", $") + std::to_string(first + i);
    return out + (braces ? "}" : "");
  }

  llvm::Type* asm_result() const {
    if (count_ == 0) return b_.getVoidTy();
    if (count_ == 1) return scalar_;
    return llvm::StructType::get(b_.getContext(), std::vector<llvm::Type*>(count_, scalar_));
  }

  Value* result_of(llvm::CallInst* call) {
    if (count_ == 0) return nullptr;
    if (result_->isIntegerTy(1)) return b_.CreateICmpNE(call, b_.getInt32(0));
    if (result_->isIntegerTy(8)) return b_.CreateTrunc(call, result_);
    if (!is_aggregate()) return call;
    Value* all = llvm::PoisonValue::get(result_);
    for (unsigned i = 0; i < count_; ++i) {
      Value* one = count_ == 1 ? call : b_.CreateExtractValue(call, i);
      all = result_->isVectorTy() ? b_.CreateInsertElement(all, one, i) : b_.CreateInsertValue(all, one, i);
    }
    return all;
  }

  llvm::IRBuilderBase& b_;
  llvm::Type* result_;
  llvm::Type* scalar_ = nullptr;
  unsigned count_ = 0;
  std::string constraints_;
  std::vector<Value*> arguments_;
};

// --- One call.

class Expansion {
 public:
  Expansion(llvm::CallInst& call, const PrimitiveUse& use, int sm)
      : call_(call), use_(use), sm_(sm), b_(&call), text_(b_, call.getType()), m_(*call.getModule()) {}

  // The value that stands for the call's; null for void.
  Value* run() {
    switch (use_.id) {
      case PrimitiveId::thread_id:
        return thread();
      case PrimitiveId::lane_id:
        return b_.CreateAnd(thread(), 31);
      case PrimitiveId::warp_id:
        return b_.CreateLShr(thread(), 5);
      case PrimitiveId::shared_base:
        return b_.CreatePtrToInt(shared_base(), b_.getInt32Ty());
      case PrimitiveId::block_id: {
        Value* x = wide(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
        Value* y = wide(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y);
        return b_.CreateAdd(x, b_.CreateMul(wide(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x), y), "", true, true);
      }
      case PrimitiveId::block_count:
        return b_.CreateMul(wide(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x),
                            wide(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_y), "", true, true);
      case PrimitiveId::global_load:
        return global_load();
      case PrimitiveId::global_store:
        return global_store();
      case PrimitiveId::shared_load:
        return is_true(1) ? load(shared_pointer(0)) : from_table();
      case PrimitiveId::shared_store:
        return is_true(2) ? store(shared_pointer(0)) : from_table();
      case PrimitiveId::tma_load:
        return tma_load();
      case PrimitiveId::tma_store:
        return tma_store();
      case PrimitiveId::wgmma_ss:
      case PrimitiveId::wgmma_rs:
        return wgmma();
      case PrimitiveId::wgmma_wait_tied:
        text_.add_tied(arg(0));
        return emit("wgmma.wait_group.sync.aligned " + digits(1) + ";");
      default:
        return from_table();
    }
  }

 private:
  Value* arg(unsigned i) const { return call_.getArgOperand(i); }
  Value* emit(const std::string& text) { return text_.emit(text, primitive_info(use_.id).effect); }

  bool is_true(unsigned i) const {
    const auto* c = llvm::dyn_cast<llvm::ConstantInt>(arg(i));
    return c != nullptr && c->isOne();
  }
  std::uint64_t constant(unsigned i) const {
    const auto* c = llvm::dyn_cast<llvm::ConstantInt>(arg(i));
    if (c == nullptr) {
      throw_internal_error(std::source_location::current(),
                           "argument " + std::to_string(i) + " of " + primitive_name(use_) + " is not a constant");
    }
    return c->getZExtValue();
  }
  std::string digits(unsigned i) const { return std::to_string(constant(i)); }

  Value* thread() {
    llvm::CallInst* tid = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
    tid->setMetadata(llvm::LLVMContext::MD_range,
                     llvm::MDBuilder(m_.getContext()).createRange(llvm::APInt(32, 0), llvm::APInt(32, 1024)));
    return tid;
  }
  Value* wide(llvm::Intrinsic::ID id) { return b_.CreateZExt(b_.CreateIntrinsic(id, {}, {}), b_.getInt64Ty()); }

  // --- memory
  llvm::GlobalVariable* shared_base() {
    if (llvm::GlobalVariable* known = m_.getNamedGlobal("tw_shared")) return known;
    auto* type = llvm::ArrayType::get(b_.getInt8Ty(), 0);
    auto* base = new llvm::GlobalVariable(m_, type, false, llvm::GlobalValue::ExternalLinkage, nullptr, "tw_shared",
                                          nullptr, llvm::GlobalValue::NotThreadLocal, shared_space);
    base->setAlignment(llvm::Align(1024));  // what the widest swizzle needs
    return base;
  }
  Value* shared_pointer(unsigned i) { return b_.CreateInBoundsGEP(b_.getInt8Ty(), shared_base(), {wide_offset(i)}); }
  Value* wide_offset(unsigned i) { return b_.CreateZExt(arg(i), b_.getInt64Ty()); }
  Value* shared_address(unsigned i) { return b_.CreateAdd(b_.CreatePtrToInt(shared_base(), b_.getInt32Ty()), arg(i)); }
  Value* global_pointer(unsigned i) {
    return b_.CreateIntToPtr(arg(i), llvm::PointerType::get(m_.getContext(), global_space));
  }
  Value* load(Value* pointer) {
    return b_.CreateAlignedLoad(call_.getType(), pointer, llvm::Align(memory_bytes(use_.element)));
  }
  Value* store(Value* pointer) {
    b_.CreateAlignedStore(arg(1), pointer, llvm::Align(memory_bytes(use_.element)));
    return nullptr;
  }

  Value* global_load() {
    const auto hint = static_cast<CacheHint>(constant(2));
    if (is_true(1) && (hint == CacheHint::none || hint == CacheHint::read_only)) {
      Value* v = load(global_pointer(0));
      if (hint == CacheHint::read_only) {
        llvm::cast<llvm::LoadInst>(v)->setMetadata(llvm::LLVMContext::MD_invariant_load,
                                                   llvm::MDNode::get(m_.getContext(), {}));
      }
      return v;
    }
    static constexpr std::string_view spelled[] = {"", ".nc", ".L1::no_allocate", ".cs", ".L1::evict_last", ""};
    const std::string load = hint == CacheHint::volatile_ ? "ld.volatile.global" : "ld.global";
    return from_text("<zero><p1>" + load + std::string(spelled[static_cast<std::size_t>(hint)]) + ".<m> <r>, [<0>];");
  }

  Value* global_store() {
    const auto hint = static_cast<CacheHint>(constant(3));
    if (is_true(2) && (hint == CacheHint::none || hint == CacheHint::read_only)) return store(global_pointer(0));
    static constexpr std::string_view spelled[] = {"", "", ".L1::no_allocate", ".cs", ".L1::evict_last", ""};
    const std::string store = hint == CacheHint::volatile_ ? "st.volatile.global" : "st.global";
    return from_text("<p2>" + store + std::string(spelled[static_cast<std::size_t>(hint)]) + ".<m> [<0>], <1>;");
  }

  // --- texts
  std::string predicate(unsigned i) { return is_true(i) ? "" : "@" + text_.add(arg(i)) + " "; }

  // A placeholder's text. The predicate of a <zero> is the argument before the site, or before the hint and the site.
  std::string replace(std::string_view name) {
    const auto index = [&](std::size_t skip) { return static_cast<unsigned>(name[skip] - '0'); };
    if (name == "r") return text_.results();
    if (name == "m") return std::string(memory_type(use_.element));
    if (name == "a") return std::string(added_type(use_.element));
    if (name == "x") return std::string(compared_type(use_.element));
    if (name == "u") return std::string(bits_type(use_.element));
    if (name == "e") return std::string(element_name(use_.element));
    if (name == "zero") {
      const std::string_view letters = primitive_info(use_.id).arguments;
      return is_true(static_cast<unsigned>(letters.rfind('b'))) ? "" : text_.zero_results();
    }
    if (name[0] == '#') return digits(index(1));
    if (name[0] == 's') return text_.add(shared_address(index(1)));
    if (name[0] == 'p') return predicate(index(1));
    if (name[0] == 'c') return constant(index(1)) == 1 ? "cg" : "ca";
    return text_.add(arg(index(0)));
  }

  Value* from_text(std::string_view pattern) {
    std::string out;
    while (!pattern.empty()) {
      const std::size_t begin = std::min(pattern.find('<'), pattern.size());
      out += pattern.substr(0, begin);
      pattern.remove_prefix(begin);
      if (pattern.empty()) break;
      const std::size_t end = pattern.find('>');
      out += replace(pattern.substr(1, end - 1));
      pattern.remove_prefix(end + 1);
    }
    return emit(out);
  }

  Value* from_table() {
    const Row* row = find_row(use_, sm_);
    if (row == nullptr) refuse(use_, sm_);
    return from_text(row->text);
  }

  std::string coordinates(unsigned first, std::uint64_t rank) {
    std::string out = "{";
    for (unsigned i = 0; i < rank; ++i) out += (i == 0 ? "" : ", ") + text_.add(arg(first + i));
    return out + "}";
  }

  Value* tma_load() {
    const std::uint64_t rank = constant(2);
    const bool multicast = !(llvm::isa<llvm::ConstantInt>(arg(9)) && constant(9) == 0);
    std::string out = predicate(10) + "cp.async.bulk.tensor." + std::to_string(rank) +
                      "d.shared::cluster.global.mbarrier::complete_tx::bytes" +
                      (multicast ? ".multicast::cluster" : "") + " [" + text_.add(shared_address(0)) + "], [" +
                      text_.add(arg(1)) + ", " + coordinates(3, rank) + "], [" + text_.add(shared_address(8)) + "]";
    if (multicast) out += ", " + text_.add(b_.CreateTrunc(arg(9), b_.getInt16Ty()));
    return emit(out + ";");
  }

  Value* tma_store() {
    const std::uint64_t rank = constant(2);
    return emit(predicate(8) + "cp.async.bulk.tensor." + std::to_string(rank) + "d.global.shared::cta.bulk_group [" +
                text_.add(arg(0)) + ", " + coordinates(3, rank) + "], [" + text_.add(shared_address(1)) + "];");
  }

  Value* wgmma() {
    const bool both_shared = use_.id == PrimitiveId::wgmma_ss;
    const std::string type(element_name(use_.element));
    const bool half = use_.element == Element::f16 || use_.element == Element::bf16;
    const bool integer = use_.element == Element::s8;
    const char* k = half ? "k16" : use_.element == Element::tf32 ? "k8" : "k32";
    text_.add_tied(arg(0));
    std::string out = ".reg .pred tw_k; setp.ne.b32 tw_k, " + text_.add(arg(3)) + ", 0; ";
    out += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(2 * use_.accumulators) + k +
           (integer ? ".s32." : ".f32.") + type + "." + type + " " + text_.results() + ", " + text_.add(arg(1)) + ", " +
           text_.add(arg(2)) + ", tw_k";
    if (!integer) out += ", 1, 1";
    if (half && both_shared) out += ", " + digits(4) + ", " + digits(5);
    if (half && !both_shared) out += ", " + digits(4);
    return emit(out + ";");
  }

  llvm::CallInst& call_;
  const PrimitiveUse& use_;
  int sm_;
  llvm::IRBuilder<> b_;
  PtxText text_;
  llvm::Module& m_;
};

template <class Module, class F>
void for_each_use(Module& m, F&& f) {
  for (auto& function : m) {
    const llvm::StringRef name = function.getName();
    if (!name.starts_with("tw.") || function.use_empty()) continue;
    const auto use = primitive_from_name({name.data(), name.size()});
    if (!use) throw_internal_error(std::source_location::current(), "there is no primitive '" + name.str() + "'");
    f(function, *use);
  }
}

}  // namespace

int ptx_version_for(const llvm::Module& m, int sm) {
  int version = base_ptx;
  for_each_use(m, [&](const llvm::Function&, const PrimitiveUse& use) {
    const Row* row = find_row(use, sm);
    if (row == nullptr && (!is_built_here(use.id) || (needs_sm_90(use.id) && sm < 90))) refuse(use, sm);
    if (row != nullptr) version = std::max(version, row->ptx);
  });
  return version;
}

void expand_primitives(llvm::Module& m, int sm) {
  std::vector<llvm::Function*> done;
  for_each_use(m, [&](llvm::Function& function, const PrimitiveUse& use) {
    const std::vector<llvm::User*> users(function.user_begin(), function.user_end());
    for (llvm::User* user : users) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(user);
      if (call == nullptr) refuse(use, sm);
      Value* v = Expansion(*call, use, sm).run();
      if (v != nullptr) call->replaceAllUsesWith(v);
      call->eraseFromParent();
    }
    done.push_back(&function);
  });
  for (llvm::Function* f : done) f->eraseFromParent();
}

}  // namespace tileweave::codegen
