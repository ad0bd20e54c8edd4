// Vectors, alignment, bounds and addresses of blocks of views.
// The rules of what may be one access stand here; when to use which version is gpu_versions.cpp's and the ops'.
#include "tileweave/jit/codegen/gpu_access.h"

#include <llvm/IR/Constants.h>

#include <algorithm>
#include <bit>

#include "tileweave/jit/base/error.h"

namespace tileweave::codegen {
namespace {

using ir::Layout;
using ir::OpId;
using ir::Place4;
using ir::Value;

constexpr int max_vector_bytes = 16;
constexpr std::int64_t highest_multiple = std::int64_t{1} << 20;

bool bit_of(std::uint8_t mask, int axis) { return (mask >> axis & 1) != 0; }

std::int64_t lowest_bit(std::int64_t v) {
  return v == 0 ? highest_multiple
                : std::min(highest_multiple, std::int64_t{1} << std::countr_zero(static_cast<std::uint64_t>(v)));
}

bool is_loop_index(const Value* v) {
  return v->region != nullptr && v->region->parent != nullptr && v->region->parent->id == OpId::for_ &&
         v->region->args[0] == v;
}

bool is_constant(const Value* v) { return v->def != nullptr && v->def->id == OpId::constant; }
std::int64_t constant_of(const Value* v) { return v->def->attrs.get_int(ir::AttrKey::value); }

// True where a scalar can be seen not to be negative, overflow aside.
bool is_known_nonnegative(const Value* v) {
  if (is_loop_index(v)) {
    const auto& bounds = v->region->parent->operands;
    return is_known_nonnegative(bounds[0]) && is_constant(bounds[2]) && constant_of(bounds[2]) > 0;
  }
  if (v->def == nullptr) return false;
  switch (v->def->id) {
    case OpId::constant:
      return constant_of(v) >= 0;
    case OpId::program_id:
    case OpId::num_programs:
    case OpId::extent:
      return true;
    case OpId::add:
    case OpId::mul:
      return is_known_nonnegative(v->def->operands[0]) && is_known_nonnegative(v->def->operands[1]);
    default:
      return false;
  }
}

bool is_constant_int(const llvm::Value* v, std::uint64_t n) {
  const auto* k = llvm::dyn_cast<llvm::ConstantInt>(v);
  return k != nullptr && k->getValue() == n;
}

// How many register bits hold neighbours along `axis`, from the first element up: their numbers.
std::vector<int> unit_registers(const Layout& l, int axis, int most) {
  std::vector<int> found;
  for (int i = 0; i < std::min(most, l.axis_bits(axis)); ++i) {
    const std::uint64_t unit = std::uint64_t{1} << (l.axis_shift(axis) + i);
    int holder = -1, users = 0;
    for (Place4 p : {Place4::reg, Place4::lane, Place4::warp, Place4::block}) {
      for (int k = 0; k < l.bits(p); ++k) {
        const std::uint64_t base = l.bases(p)[static_cast<std::size_t>(k)];
        if ((base & unit) == 0) continue;
        ++users;
        if (p == Place4::reg && base == unit) holder = k;
      }
    }
    if (holder < 0 || users != 1) break;
    found.push_back(holder);
  }
  return found;
}

}  // namespace

VectorPlan plan_vectors(const Layout& l, const ir::TileShape& shape, const ir::ViewFacts& facts, int element_bytes,
                        bool ragged) {
  VectorPlan best;
  const int most = std::countr_zero(static_cast<unsigned>(max_vector_bytes / element_bytes));
  for (int axis = l.rank() - 1; axis >= 0; --axis) {
    if (!bit_of(facts.unit_stride, axis)) continue;
    std::vector<int> registers = unit_registers(l, axis, most);
    while (!ragged && !registers.empty() &&
           shape.extents[static_cast<std::size_t>(axis)] % (1 << registers.size()) != 0) {
      registers.pop_back();
    }
    if (registers.size() > best.registers.size()) best = {axis, std::move(registers)};
  }
  return best;
}

std::int64_t known_multiple(const Value* v) {
  if (is_loop_index(v)) {
    const auto& bounds = v->region->parent->operands;
    return std::min(known_multiple(bounds[0]), known_multiple(bounds[2]));
  }
  if (v->def == nullptr) return 1;
  const ir::Op& op = *v->def;
  switch (op.id) {
    case OpId::constant:
      return lowest_bit(constant_of(v));
    case OpId::add:
    case OpId::sub:
      return std::min(known_multiple(op.operands[0]), known_multiple(op.operands[1]));
    case OpId::mul:
      return std::min(highest_multiple, known_multiple(op.operands[0]) * known_multiple(op.operands[1]));
    case OpId::shl:
      if (!is_constant(op.operands[1])) return known_multiple(op.operands[0]);
      return std::min(highest_multiple, known_multiple(op.operands[0])
                                            << std::clamp<std::int64_t>(constant_of(op.operands[1]), 0, 20));
    default:
      return 1;
  }
}

BlockAccess::BlockAccess(GpuContext& c, Block block, const Layout& l, ir::TileShape shape, const Rotation* rotation)
    : c_(c),
      block_(std::move(block)),
      frame_(c, l, shape),
      rotation_(rotation),
      vectors_(plan_vectors(l, shape, block_.view->facts, dtype_bytes(block_.view->elem), rotation != nullptr)),
      bytes_(dtype_bytes(block_.view->elem)),
      bounds_(static_cast<std::size_t>(l.rank())) {}

// --- conditions

llvm::Value* BlockAccess::is_inside() {
  if (block_.inbounds) return nullptr;
  llvm::Value* all = nullptr;
  for (std::size_t a = 0; a < block_.offsets.size(); ++a) {
    llvm::Value* offset = block_.offsets[a];
    if (!is_known_nonnegative(block_.offset_values[a])) {
      all = c_.both(all, c_.b.CreateICmpSGE(offset, c_.i64(0)));
    }
    llvm::Value* end = c_.b.CreateAdd(offset, c_.i64(frame_.shape().extents[a]));
    all = c_.both(all, c_.b.CreateICmpSLE(end, block_.view->extents[a]));
  }
  return all;
}

llvm::Value* BlockAccess::is_aligned() {
  if (!has_vectors()) return nullptr;
  const std::int64_t vector_bytes = static_cast<std::int64_t>(bytes_) * vectors_.elements();
  const ir::ViewFacts& facts = block_.view->facts;
  const auto zero_bits = [&](llvm::Value* v) {
    return c_.b.CreateICmpEQ(c_.b.CreateAnd(v, static_cast<std::uint64_t>(vector_bytes - 1)), c_.i64(0));
  };
  llvm::Value* all = nullptr;
  bool start_known = facts.aligned_base;
  for (int a = 0; a < frame_.rank(); ++a) {
    const Value* offset = block_.offset_values[static_cast<std::size_t>(a)];
    if (a == vectors_.axis) {
      start_known &= known_multiple(offset) % vectors_.elements() == 0;
      continue;
    }
    if (bit_of(facts.aligned_stride, a) || bit_of(facts.zero_stride, a)) continue;
    start_known &= is_constant(offset) && constant_of(offset) == 0;
    if (frame_.layout().axis_bits(a) > 0) {
      llvm::Value* stride = c_.b.CreateMul(block_.view->strides[static_cast<std::size_t>(a)], c_.i64(bytes_));
      all = c_.both(all, zero_bits(stride));
    }
  }
  return start_known ? all : c_.both(all, zero_bits(uniform_address()));
}

llvm::Value* BlockAccess::is_whole() {
  if (!has_vectors() || block_.inbounds) return nullptr;
  const auto axis = static_cast<std::size_t>(vectors_.axis);
  const auto whole = [&](llvm::Value* v) {
    return c_.b.CreateICmpEQ(c_.b.CreateAnd(v, static_cast<std::uint64_t>(vectors_.elements() - 1)), c_.i64(0));
  };
  llvm::Value* extent = whole(block_.view->extents[axis]);
  if (known_multiple(block_.offset_values[axis]) % vectors_.elements() == 0) return extent;
  return c_.both(extent, whole(block_.offsets[axis]));
}

BlockAccess::AxisBounds BlockAccess::bounds(int axis) {
  auto& known = bounds_[static_cast<std::size_t>(axis)];
  if (known) return *known;
  AxisBounds r;
  llvm::IRBuilder<>& b = c_.b;
  llvm::Value* offset = block_.offsets[static_cast<std::size_t>(axis)];
  llvm::Value* extent = c_.i64(frame_.shape().extents[static_cast<std::size_t>(axis)]);
  const auto clamp = [&](llvm::Value* v) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, c_.i64(0)),
                                   extent);
  };
  llvm::Value* end = clamp(b.CreateSub(block_.view->extents[static_cast<std::size_t>(axis)], offset));
  if (is_known_nonnegative(block_.offset_values[static_cast<std::size_t>(axis)])) {
    r.first = c_.i32(0);
    r.span = b.CreateTrunc(end, b.getInt32Ty());
  } else {
    llvm::Value* first = clamp(b.CreateNeg(offset));
    r.first = b.CreateTrunc(first, b.getInt32Ty());
    llvm::Value* span = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b.CreateSub(end, first), c_.i64(0));
    r.span = b.CreateTrunc(span, b.getInt32Ty());
  }
  known = r;
  return r;
}

llvm::Value* BlockAccess::in_view(int r) {
  if (block_.inbounds) return nullptr;
  llvm::Value* all = nullptr;
  for (int a = 0; a < frame_.rank(); ++a) {
    const AxisBounds at = bounds(a);
    llvm::Value* coordinate = frame_.coordinate(a, r);
    llvm::Value* from_first = is_constant_int(at.first, 0) ? coordinate : c_.b.CreateSub(coordinate, at.first);
    all = c_.both(all, c_.b.CreateICmpULT(from_first, at.span));
  }
  return all;
}

// --- addresses

llvm::Value* BlockAccess::uniform_address() {
  if (uniform_ != nullptr) return uniform_;
  llvm::Value* elements = nullptr;
  for (std::size_t a = 0; a < block_.offsets.size(); ++a) {
    llvm::Value* stride = block_.view->strides[a];
    if (is_constant_int(stride, 0) || is_constant_int(block_.offsets[a], 0)) continue;
    llvm::Value* term = is_constant_int(stride, 1) ? block_.offsets[a] : c_.b.CreateMul(block_.offsets[a], stride);
    elements = elements == nullptr ? term : c_.b.CreateAdd(elements, term);
  }
  uniform_ = elements == nullptr ? block_.view->base
                                 : c_.b.CreateAdd(block_.view->base, c_.b.CreateMul(elements, c_.i64(bytes_)));
  return uniform_;
}

llvm::Value* BlockAccess::thread_offset() {
  if (thread_ != nullptr) return thread_;
  llvm::IRBuilder<>& b = c_.b;
  const bool narrow = block_.view->facts.offsets_fit_32;
  llvm::Value* elements = narrow ? static_cast<llvm::Value*>(c_.i32(0)) : c_.i64(0);
  for (int a = 0; a < frame_.rank(); ++a) {
    llvm::Value* stride = block_.view->strides[static_cast<std::size_t>(a)];
    if (!frame_.adds_up(a) || is_constant_int(stride, 0)) continue;
    llvm::Value* coordinate = frame_.thread_coordinate(a);
    if (is_constant_int(coordinate, 0)) continue;
    if (!narrow) coordinate = b.CreateZExt(coordinate, b.getInt64Ty());
    if (!is_constant_int(stride, 1)) {
      coordinate = b.CreateMul(coordinate, narrow ? b.CreateTrunc(stride, b.getInt32Ty()) : stride, "", false, narrow);
    }
    elements = is_constant_int(elements, 0) ? coordinate : b.CreateAdd(elements, coordinate, "", false, narrow);
  }
  thread_ = b.CreateMul(b.CreateSExt(elements, b.getInt64Ty()), c_.i64(bytes_));
  return thread_;
}

llvm::Value* BlockAccess::address(int r) {
  llvm::IRBuilder<>& b = c_.b;
  llvm::Value* at = b.CreateAdd(uniform_address(), thread_offset());
  std::int64_t constant = 0;
  for (int a = 0; a < frame_.rank(); ++a) {
    llvm::Value* stride = block_.view->strides[static_cast<std::size_t>(a)];
    const std::int64_t own = frame_.register_coordinate(a, r);
    if (is_constant_int(stride, 0)) continue;
    if (!frame_.adds_up(a)) {
      llvm::Value* coordinate = b.CreateZExt(frame_.coordinate(a, r), b.getInt64Ty());
      at = b.CreateAdd(at, b.CreateMul(b.CreateMul(coordinate, stride), c_.i64(bytes_)));
    } else if (is_constant_int(stride, 1)) {
      constant += own * bytes_;
    } else if (own != 0) {
      at = b.CreateAdd(at, b.CreateMul(stride, c_.i64(own * bytes_)));
    }
  }
  return constant == 0 ? at : b.CreateAdd(at, c_.i64(constant));
}

void BlockAccess::prepare() {
  uniform_address();
  thread_offset();
  if (block_.inbounds) return;
  for (int a = 0; a < frame_.rank(); ++a) bounds(a);
}

// --- accesses

std::vector<int> BlockAccess::group(int r) const {
  std::vector<int> registers{r};
  for (int bit : vectors_.registers) {
    const std::size_t n = registers.size();
    for (std::size_t i = 0; i < n; ++i) registers.push_back(registers[i] | 1 << bit);
  }
  return registers;
}

bool BlockAccess::leads_group(int r) const {
  return std::none_of(vectors_.registers.begin(), vectors_.registers.end(),
                      [&](int bit) { return (r >> bit & 1) != 0; });
}

std::vector<llvm::Value*> BlockAccess::load(int r, int elements, llvm::Value* predicate, CacheHint hint) {
  c_.enter_op(*block_.op);
  const AccessType t = access_type(c_, bytes_ * elements);
  llvm::Value* word = c_.call(PrimitiveId::global_load, t.element,
                              {address(r), predicate == nullptr ? c_.b.getTrue() : predicate,
                               c_.i32(static_cast<int>(cache_hint(*block_.op, hint))), c_.site()});
  std::vector<llvm::Value*> values =
      unpack_elements(c_, word, elements, c_.elements.memory_type(block_.view->elem), bytes_);
  for (llvm::Value*& v : values) v = c_.elements.from_memory(v, block_.view->elem);
  return values;
}

void BlockAccess::store(int r, const std::vector<llvm::Value*>& values, llvm::Value* predicate) {
  c_.enter_op(*block_.op);
  std::vector<llvm::Value*> memory;
  for (llvm::Value* v : values) memory.push_back(c_.elements.to_memory(v, block_.view->elem));
  store_word(r, pack_elements(c_, memory, bytes_), predicate);
}

void BlockAccess::store_words(int r, const std::vector<llvm::Value*>& words, llvm::Value* predicate) {
  c_.enter_op(*block_.op);
  store_word(r, pack_elements(c_, words, 4), predicate);
}

void BlockAccess::store_word(int r, llvm::Value* word, llvm::Value* predicate) {
  const AccessType t = access_type(c_, static_cast<int>(word->getType()->getPrimitiveSizeInBits()) / 8);
  c_.call(PrimitiveId::global_store, t.element,
          {address(r), word, predicate == nullptr ? c_.b.getTrue() : predicate,
           c_.i32(static_cast<int>(cache_hint(*block_.op, CacheHint::none))), c_.site()});
}

CacheHint cache_hint(const ir::Op& op, CacheHint otherwise) {
  const std::string& text = op.attrs.get_text(ir::AttrKey::hint);
  if (text == "streaming") return CacheHint::streaming;
  if (text == "volatile") return CacheHint::volatile_;
  if (text == "no_allocate") return CacheHint::no_allocate;
  return text == "keep" ? CacheHint::keep : otherwise;
}

AccessType access_type(GpuContext& c, int bytes) {
  switch (bytes) {
    case 1:
      return {Element::i8, c.b.getInt8Ty()};
    case 2:
      return {Element::i16, c.b.getInt16Ty()};
    case 4:
      return {Element::i32, c.b.getInt32Ty()};
    case 8:
      return {Element::v2i32, llvm::FixedVectorType::get(c.b.getInt32Ty(), 2)};
    case 16:
      return {Element::v4i32, llvm::FixedVectorType::get(c.b.getInt32Ty(), 4)};
    default:
      throw_internal_error(std::source_location::current(), "no access of " + std::to_string(bytes) + " bytes");
  }
}

namespace {

llvm::Value* as_int(GpuContext& c, llvm::Value* v, int bytes) {
  return c.b.CreateBitCast(v, c.b.getIntNTy(static_cast<unsigned>(8 * bytes)));
}

// 32-bit words, low first. Only scalar shifts and casts: vectors of small integers are no registers of the GPU's.
std::vector<llvm::Value*> to_words(GpuContext& c, const std::vector<llvm::Value*>& values, int bytes) {
  std::vector<llvm::Value*> words;
  if (bytes == 8) {
    for (llvm::Value* v : values) {
      llvm::Value* x = as_int(c, v, 8);
      words.push_back(c.b.CreateTrunc(x, c.b.getInt32Ty()));
      words.push_back(c.b.CreateTrunc(c.b.CreateLShr(x, 32), c.b.getInt32Ty()));
    }
    return words;
  }
  const int per_word = 4 / bytes;
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(per_word)) {
    llvm::Value* word = nullptr;
    for (int k = 0; k < per_word; ++k) {
      llvm::Value* x = as_int(c, values[i + static_cast<std::size_t>(k)], bytes);
      x = c.b.CreateZExt(x, c.b.getInt32Ty());
      if (k > 0) x = c.b.CreateShl(x, static_cast<std::uint64_t>(8 * bytes * k));
      word = word == nullptr ? x : c.b.CreateOr(word, x);
    }
    words.push_back(word);
  }
  return words;
}

}  // namespace

llvm::Value* pack_elements(GpuContext& c, const std::vector<llvm::Value*>& values, int element_bytes) {
  const int bytes = element_bytes * static_cast<int>(values.size());
  if (bytes < 4) {
    llvm::Value* word = nullptr;
    for (std::size_t i = 0; i < values.size(); ++i) {
      llvm::Value* x = c.b.CreateZExt(as_int(c, values[i], element_bytes), access_type(c, bytes).type);
      word = word == nullptr ? x : c.b.CreateOr(word, c.b.CreateShl(x, 8 * element_bytes * i));
    }
    return word;
  }
  const std::vector<llvm::Value*> words = to_words(c, values, element_bytes);
  if (words.size() == 1) return words[0];
  llvm::Value* v = llvm::PoisonValue::get(access_type(c, bytes).type);
  for (std::size_t i = 0; i < words.size(); ++i) v = c.b.CreateInsertElement(v, words[i], i);
  return v;
}

std::vector<llvm::Value*> unpack_elements(GpuContext& c, llvm::Value* word, int count, llvm::Type* type,
                                          int element_bytes) {
  llvm::IRBuilder<>& b = c.b;
  std::vector<llvm::Value*> words;
  if (llvm::isa<llvm::FixedVectorType>(word->getType())) {
    const int n = element_bytes * count / 4;
    for (int i = 0; i < n; ++i) words.push_back(b.CreateExtractElement(word, static_cast<std::uint64_t>(i)));
  } else {
    words.push_back(word);
  }
  std::vector<llvm::Value*> values;
  for (int i = 0; i < count; ++i) {
    llvm::Value* x = nullptr;
    if (element_bytes == 8) {
      llvm::Value* low = b.CreateZExt(words[static_cast<std::size_t>(2 * i)], b.getInt64Ty());
      llvm::Value* high = b.CreateZExt(words[static_cast<std::size_t>(2 * i + 1)], b.getInt64Ty());
      x = b.CreateOr(low, b.CreateShl(high, 32));
    } else {
      x = words[static_cast<std::size_t>(i * element_bytes / 4)];
      const int shift = 8 * (i * element_bytes % 4);
      if (shift > 0) x = b.CreateLShr(x, static_cast<std::uint64_t>(shift));
      x = b.CreateTrunc(x, b.getIntNTy(static_cast<unsigned>(8 * element_bytes)));
    }
    values.push_back(b.CreateBitCast(x, type));
  }
  return values;
}

}  // namespace tileweave::codegen
