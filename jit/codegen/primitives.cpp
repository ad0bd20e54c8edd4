// Names, types, attributes and metadata of the GPU primitives, all read off primitives.def.
// Stands between the GPU lowering and the two implementations of its primitives.
#include "tileweave/jit/codegen/primitives.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Metadata.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/ModRef.h>

#include <array>
#include <charconv>

#include "tileweave/jit/base/error.h"

namespace tileweave::codegen {
namespace {

constexpr PrimitiveEffect pure = PrimitiveEffect::pure, warp = PrimitiveEffect::warp, reads = PrimitiveEffect::reads,
                          writes = PrimitiveEffect::writes, sync = PrimitiveEffect::sync;

constexpr PrimitiveInfo infos[] = {
#define TILEWEAVE_PRIMITIVE(id, elements, result, arguments, effect, text) \
  {#id, elements, result, arguments, effect, text},
#include "tileweave/jit/codegen/primitives.def"
};

constexpr std::array<std::string_view, 23> element_names = {
    "none",   "i8",  "i16",  "i32",  "i64", "u32",  "u64",  "f32",       "f64",       "v2i32",     "v4i32",    "f16x2",
    "bf16x2", "f16", "bf16", "tf32", "s8",  "e4m3", "e5m2", "e4m3_e4m3", "e4m3_e5m2", "e5m2_e4m3", "e5m2_e5m2"};
static_assert(element_names.size() == static_cast<std::size_t>(Element::e5m2_e5m2) + 1);

llvm::Type* element_type(llvm::LLVMContext& c, Element e) {
  switch (e) {
    case Element::i8:
      return llvm::Type::getInt8Ty(c);
    case Element::i16:
      return llvm::Type::getInt16Ty(c);
    case Element::i64:
    case Element::u64:
      return llvm::Type::getInt64Ty(c);
    case Element::f32:
      return llvm::Type::getFloatTy(c);
    case Element::f64:
      return llvm::Type::getDoubleTy(c);
    case Element::v2i32:
      return llvm::FixedVectorType::get(llvm::Type::getInt32Ty(c), 2);
    case Element::v4i32:
      return llvm::FixedVectorType::get(llvm::Type::getInt32Ty(c), 4);
    default:
      return llvm::Type::getInt32Ty(c);
  }
}

llvm::Type* letter_type(llvm::LLVMContext& c, char letter, const PrimitiveUse& use) {
  switch (letter) {
    case 'v':
      return llvm::Type::getVoidTy(c);
    case 'b':
      return llvm::Type::getInt1Ty(c);
    case 'c':
      return llvm::Type::getInt8Ty(c);
    case 'h':
      return llvm::Type::getInt16Ty(c);
    case 'i':
      return llvm::Type::getInt32Ty(c);
    case 'l':
      return llvm::Type::getInt64Ty(c);
    case 'f':
      return llvm::Type::getFloatTy(c);
    case 'd':
      return llvm::Type::getDoubleTy(c);
    case '2':
      return llvm::FixedVectorType::get(llvm::Type::getInt32Ty(c), 2);
    case '4':
      return llvm::FixedVectorType::get(llvm::Type::getInt32Ty(c), 4);
    case 'F':
      return llvm::FixedVectorType::get(llvm::Type::getFloatTy(c), 4);
    case 'D':
      return llvm::FixedVectorType::get(llvm::Type::getDoubleTy(c), 2);
    case 'A': {
      llvm::Type* t = use.element == Element::s8 ? llvm::Type::getInt32Ty(c) : llvm::Type::getFloatTy(c);
      return llvm::ArrayType::get(t, static_cast<std::uint64_t>(use.accumulators));
    }
    default:
      return element_type(c, use.element);
  }
}

bool takes_accumulators(const PrimitiveInfo& info) { return info.arguments.find('A') != std::string_view::npos; }

void check_use(const PrimitiveUse& use) {
  const PrimitiveInfo& info = primitive_info(use.id);
  if (!has_element(use.id, use.element)) {
    throw_internal_error(std::source_location::current(), "primitive " + std::string(info.name) + " has no element " +
                                                              std::string(element_name(use.element)));
  }
  if (takes_accumulators(info) != (use.accumulators > 0)) {
    throw_internal_error(std::source_location::current(), "primitive " + std::string(info.name) + " with " +
                                                              std::to_string(use.accumulators) + " accumulators");
  }
}

// i1 is a whole byte of 0 or 1 at a call, as C++'s bool: the machine is C++.
void add_attributes(llvm::Function& f, const PrimitiveInfo& info) {
  f.addFnAttr(llvm::Attribute::NoUnwind);
  f.addFnAttr(llvm::Attribute::NoFree);
  switch (info.effect) {
    case PrimitiveEffect::pure:
      f.setMemoryEffects(llvm::MemoryEffects::none());
      f.addFnAttr(llvm::Attribute::WillReturn);
      f.addFnAttr(llvm::Attribute::Speculatable);
      break;
    case PrimitiveEffect::warp:
      f.setMemoryEffects(llvm::MemoryEffects::inaccessibleMemOnly());
      f.addFnAttr(llvm::Attribute::Convergent);
      break;
    case PrimitiveEffect::reads:
      f.setMemoryEffects(llvm::MemoryEffects::readOnly());
      f.addFnAttr(llvm::Attribute::WillReturn);
      break;
    case PrimitiveEffect::writes:
      break;
    case PrimitiveEffect::sync:
      f.addFnAttr(llvm::Attribute::Convergent);
      break;
  }
  if (f.getReturnType()->isIntegerTy(1)) f.addRetAttr(llvm::Attribute::ZExt);
  for (llvm::Argument& a : f.args()) {
    if (a.getType()->isIntegerTy(1)) a.addAttr(llvm::Attribute::ZExt);
  }
}

llvm::Metadata* number(llvm::LLVMContext& c, std::uint64_t n) {
  return llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(c), n));
}

// Replaces what an earlier attach left.
llvm::NamedMDNode& fresh_node(llvm::Module& module, const char* name) {
  llvm::NamedMDNode* node = module.getOrInsertNamedMetadata(name);
  node->clearOperands();
  return *node;
}

}  // namespace

const PrimitiveInfo& primitive_info(PrimitiveId id) { return infos[static_cast<std::size_t>(id)]; }
std::string_view element_name(Element e) { return element_names[static_cast<std::size_t>(e)]; }

bool has_element(PrimitiveId id, Element e) {
  const std::string_view elements = primitive_info(id).elements;
  if (e == Element::none || elements.empty()) return e == Element::none && elements.empty();
  return (" " + std::string(elements) + " ").find(" " + std::string(element_name(e)) + " ") != std::string::npos;
}

std::string primitive_name(const PrimitiveUse& use) {
  std::string out = "tw." + std::string(primitive_info(use.id).name);
  if (use.element != Element::none) out += "." + std::string(element_name(use.element));
  if (use.accumulators > 0) out += ".n" + std::to_string(use.accumulators);
  return out;
}

std::optional<PrimitiveUse> primitive_from_name(std::string_view name) {
  if (!name.starts_with("tw.")) return std::nullopt;
  name.remove_prefix(3);
  const auto take = [&name] {
    const std::string_view part = name.substr(0, name.find('.'));
    name.remove_prefix(part.size() == name.size() ? part.size() : part.size() + 1);
    return part;
  };
  const std::string_view id = take();
  PrimitiveUse use;
  std::size_t i = 0;
  while (i < std::size(infos) && infos[i].name != id) ++i;
  if (i == std::size(infos)) return std::nullopt;
  use.id = static_cast<PrimitiveId>(i);
  if (!infos[i].elements.empty()) {
    const std::string_view element = take();
    std::size_t e = 1;
    while (e < element_names.size() && element_names[e] != element) ++e;
    if (e == element_names.size() || !has_element(use.id, static_cast<Element>(e))) return std::nullopt;
    use.element = static_cast<Element>(e);
  }
  if (takes_accumulators(infos[i])) {
    const std::string_view count = take();
    if (!count.starts_with('n')) return std::nullopt;
    std::from_chars(count.data() + 1, count.data() + count.size(), use.accumulators);
    if (use.accumulators <= 0) return std::nullopt;
  }
  return name.empty() ? std::optional(use) : std::nullopt;
}

llvm::FunctionType* primitive_type(llvm::LLVMContext& context, const PrimitiveUse& use) {
  check_use(use);
  const PrimitiveInfo& info = primitive_info(use.id);
  std::vector<llvm::Type*> arguments;
  for (const char letter : info.arguments) arguments.push_back(letter_type(context, letter, use));
  return llvm::FunctionType::get(letter_type(context, info.result[0], use), arguments, false);
}

llvm::Function* declare_primitive(llvm::Module& module, const PrimitiveUse& use) {
  const std::string name = primitive_name(use);
  if (llvm::Function* known = module.getFunction(name)) return known;
  llvm::FunctionType* type = primitive_type(module.getContext(), use);
  llvm::Function* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, module);
  add_attributes(*f, primitive_info(use.id));
  return f;
}

llvm::Function* declare_primitive(llvm::Module& module, PrimitiveId id, Element element, int accumulators) {
  return declare_primitive(module, PrimitiveUse{id, element, accumulators});
}

int SiteTable::add(const Place& place) {
  if (!place.known()) return 0;
  const auto [it, is_new] =
      numbers_.try_emplace({place.file, place.line, place.column}, static_cast<int>(places_.size()));
  if (is_new) places_.push_back(place);
  return it->second;
}

void SiteTable::attach(llvm::Module& module) const {
  llvm::LLVMContext& c = module.getContext();
  llvm::NamedMDNode& node = fresh_node(module, "tw.sites");
  for (const Place& p : places_) {
    node.addOperand(llvm::MDNode::get(c, {llvm::MDString::get(c, p.file), number(c, p.line), number(c, p.column)}));
  }
}

int TextTable::add(const std::string& text) {
  texts_.push_back(text);
  return static_cast<int>(texts_.size()) - 1;
}

void TextTable::attach(llvm::Module& module) const {
  llvm::NamedMDNode& node = fresh_node(module, "tw.texts");
  for (const std::string& t : texts_) {
    node.addOperand(llvm::MDNode::get(module.getContext(), {llvm::MDString::get(module.getContext(), t)}));
  }
}

void attach_views(llvm::Module& module, const std::vector<ViewParam>& views) {
  llvm::LLVMContext& c = module.getContext();
  llvm::NamedMDNode& node = fresh_node(module, "tw.views");
  for (const ViewParam& v : views) {
    node.addOperand(llvm::MDNode::get(
        c, {number(c, static_cast<std::uint64_t>(v.slot)), number(c, static_cast<std::uint64_t>(v.rank)),
            number(c, static_cast<std::uint64_t>(v.element_bytes))}));
  }
}

}  // namespace tileweave::codegen
