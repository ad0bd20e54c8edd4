// Debug information of CPU kernels. See cpu_debug.h.
// Variables are described as memory relative to the launch's slots or to the worker's scratch, whose addresses are kept
// in the stack frame, so they are right at every instruction.
#include "tileweave/jit/codegen/cpu_debug.h"

#include <filesystem>
#include <tuple>

#include <llvm/BinaryFormat/Dwarf.h>

namespace tileweave::codegen::cpu {

namespace dwarf = llvm::dwarf;

namespace {

struct FilePath {
  std::string name, directory;
};

// A path relative to where the user's program was compiled is made absolute where it can be found from here.
FilePath path_of(const char* file) {
  const std::filesystem::path path(file);
  std::error_code none;
  const std::filesystem::path whole =
      std::filesystem::exists(path, none) ? std::filesystem::canonical(path, none) : path;
  return {whole.filename().string(), whole.has_parent_path() ? whole.parent_path().string() : "."};
}

}  // namespace

DebugInfo::DebugInfo(Context& c, llvm::Module& m, bool full) : c_(c), full_(full), builder_(m) {
  m.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  m.addModuleFlag(llvm::Module::Warning, "Dwarf Version", 4);
  llvm::DIFile* file = file_of(c.f.place);
  unit_ = builder_.createCompileUnit(dwarf::DW_LANG_C_plus_plus_14, file, "tileweave", !full, "", 0, "",
                                     full ? llvm::DICompileUnit::FullDebug : llvm::DICompileUnit::LineTablesOnly);
  auto* type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
  kernel_ = builder_.createFunction(unit_, c.f.name, "", file, c.f.place.line, type, c.f.place.line,
                                    llvm::DINode::FlagPrototyped, llvm::DISubprogram::toSPFlags(false, true, !full));
  c.entry->setSubprogram(kernel_);
  scopes_ = {kernel_};
  set_line(c.f.place);
}

llvm::DIFile* DebugInfo::file_of(const Place& p) {
  llvm::DIFile*& file = files_[p.file];
  if (file == nullptr) {
    const FilePath path = path_of(p.known() ? p.file : "kernel");
    file = builder_.createFile(path.name, path.directory);
  }
  return file;
}

void DebugInfo::set_line(const Place& p) {
  if (!p.known()) return;
  llvm::DIScope* scope = scopes_.back();
  if (scope->getFile() != file_of(p)) scope = builder_.createLexicalBlockFile(scope, file_of(p));
  c_.b.SetCurrentDebugLocation(llvm::DILocation::get(c_.b.getContext(), p.line, p.column, scope));
}

void DebugInfo::open_scope(const Place& p) {
  scopes_.push_back(builder_.createLexicalBlock(scopes_.back(), scopes_.back()->getFile(), p.line, p.column));
}

void DebugInfo::close_scope() { scopes_.pop_back(); }

void DebugInfo::finish() { builder_.finalize(); }

// --- types

llvm::DIType* DebugInfo::element_type(Dtype t) {
  const auto bits = static_cast<std::uint64_t>(dtype_info(t).bits);
  if (is_bool(t)) return builder_.createBasicType("bool", 8, dwarf::DW_ATE_boolean);
  if (is_narrow_float(t)) return builder_.createBasicType(dtype_name(t), bits, dwarf::DW_ATE_unsigned);
  if (is_float(t)) return builder_.createBasicType(bits == 64 ? "double" : "float", bits, dwarf::DW_ATE_float);
  const std::string name = std::string(is_unsigned(t) ? "u" : "") + "int" + std::to_string(bits) + "_t";
  return builder_.createBasicType(name, bits, is_unsigned(t) ? dwarf::DW_ATE_unsigned : dwarf::DW_ATE_signed);
}

llvm::DIType* DebugInfo::array_of(llvm::DIType* element, unsigned element_bits,
                                  const std::vector<std::int64_t>& extents) {
  std::uint64_t bits = element_bits;
  llvm::SmallVector<llvm::Metadata*, 5> ranges;
  for (const std::int64_t e : extents) {
    bits *= static_cast<std::uint64_t>(e);
    ranges.push_back(builder_.getOrCreateSubrange(0, e));
  }
  return builder_.createArrayType(bits, element_bits, element, builder_.getOrCreateArray(ranges));
}

llvm::DIType* DebugInfo::type_of(const ir::Type& t) {
  llvm::DIType* element = element_type(t.elem);
  unsigned bits = static_cast<unsigned>(std::max(dtype_info(t.elem).bits, 8));
  if (t.is_pointer()) {
    element = builder_.createPointerType(element, 64);
    bits = 64;
  }
  return t.rank == 0 ? element : array_of(element, bits, t.shape());
}

// As the launch's slots lie in memory (jit/runtime/abi.h): base, extents, strides.
llvm::DIType* DebugInfo::view_type(const ir::Type& t) {
  llvm::DIFile* file = kernel_->getFile();
  llvm::DIType* element = element_type(t.elem);
  if (t.is_const) element = builder_.createQualifiedType(dwarf::DW_TAG_const_type, element);
  const auto rank = static_cast<std::uint64_t>(t.rank);
  llvm::DIType* index = builder_.createBasicType("int64_t", 64, dwarf::DW_ATE_signed);
  llvm::SmallVector<llvm::Metadata*, 3> members;
  const auto add = [&](const char* name, std::uint64_t size, std::uint64_t at, llvm::DIType* type) {
    members.push_back(builder_.createMemberType(unit_, name, file, 0, size, 64, at, llvm::DINode::FlagZero, type));
  };
  add("base", 64, 0, builder_.createPointerType(element, 64));
  if (rank > 0) {
    llvm::DIType* list = array_of(index, 64, {t.rank});
    add("extents", 64 * rank, 64, list);
    add("strides", 64 * rank, 64 + 64 * rank, list);
  }
  return builder_.createStructType(unit_, ir::to_string(t), file, 0, 64 + 128 * rank, 64, llvm::DINode::FlagZero,
                                   nullptr, builder_.getOrCreateArray(members));
}

// --- variables

llvm::AllocaInst* DebugInfo::slot_with(llvm::Value* pointer, const char* name) {
  llvm::AllocaInst* slot = c_.slot(pointer->getType(), name);
  c_.b.CreateStore(pointer, slot);
  return slot;
}

void DebugInfo::declare(llvm::Value* pointer_slot, std::int64_t offset, llvm::DILocalVariable* v, llvm::DIScope* scope,
                        unsigned line) {
  llvm::DIExpression* at =
      builder_.createExpression({dwarf::DW_OP_deref, dwarf::DW_OP_plus_uconst, static_cast<std::uint64_t>(offset)});
  builder_.insertDeclare(pointer_slot, v, at, llvm::DILocation::get(c_.b.getContext(), line, 0, scope),
                         c_.b.GetInsertBlock());
}

void DebugInfo::describe_parameters(llvm::Value* slots) {
  if (!full_) return;
  scratch_slot_ = slot_with(c_.scratch, "scratch");
  slots_slot_ = slot_with(slots, "slots");
  std::int64_t slot = 0;
  unsigned number = 0;
  for (const ir::Param& p : c_.f.params) {
    const ir::Type& t = p.value->type;
    const std::string name = p.value->name.empty() ? "p" + std::to_string(number) : p.value->name;
    auto* v = builder_.createParameterVariable(kernel_, name, ++number, kernel_->getFile(), c_.f.place.line,
                                               t.is_view() ? view_type(t) : type_of(t), true);
    declare(slots_slot_, 8 * slot, v, kernel_, c_.f.place.line);
    slot += t.is_view() ? 1 + 2 * t.rank : 1;
  }
  llvm::Type* word = c_.b.getInt64Ty();
  program_ = c_.slot(llvm::ArrayType::get(word, 3), "program");
  llvm::DIType* type = array_of(builder_.createBasicType("int64_t", 64, dwarf::DW_ATE_signed), 64, {3});
  auto* v = builder_.createAutoVariable(kernel_, "program", kernel_->getFile(), c_.f.place.line, type, true);
  builder_.insertDeclare(program_, v, builder_.createExpression(),
                         llvm::DILocation::get(c_.b.getContext(), c_.f.place.line, 0, kernel_), c_.b.GetInsertBlock());
}

void DebugInfo::show_program() {
  if (!full_) return;
  for (unsigned axis = 0; axis < 3; ++axis) {
    llvm::Value* at = c_.b.CreateConstInBoundsGEP2_64(program_->getAllocatedType(), program_, 0, axis);
    c_.b.CreateStore(c_.program[axis], at);
  }
}

void DebugInfo::show(const ir::Op& op) {
  const ir::Value* value = op.operands[0];
  const ir::Type& t = value->type;
  const std::string& name = op.attrs.get_text(ir::AttrKey::text);
  // A variable made outside a loop keeps its place when it is assigned inside.
  const auto* found = static_cast<const Buffer*>(nullptr);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend() && found == nullptr; ++scope) {
    const auto at = variables_.find({*scope, name, t.elem, t.shape()});
    if (at != variables_.end()) found = &at->second;
  }
  if (found == nullptr) {
    llvm::DIScope* scope = scopes_.back();
    const std::int64_t offset = c_.scratch_bytes();
    found = &(variables_[{scope, name, t.elem, t.shape()}] = c_.new_buffer(t));
    auto* v = builder_.createAutoVariable(scope, name, file_of(op.place), op.place.line, type_of(t), true);
    declare(scratch_slot_, offset, v, scope, op.place.line);
  }
  if (is_unit(value)) {
    c_.b.CreateAlignedStore(c_.to_memory(c_.unit(value), t), found->base, llvm::Align(Context::element_bytes(t)));
    return;
  }
  Task copy;
  copy.value = value;
  copy.yield = 0;
  copy.space = t;
  lower_nest(c_, {copy}, {*found});
}

}  // namespace tileweave::codegen::cpu
