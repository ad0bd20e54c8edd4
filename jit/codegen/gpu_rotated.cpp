// The rotated version: blocks of one long axis in views whose base or pitch is no multiple of 16 bytes.
// Between gpu_versions.cpp, which checks before the body, and the loads and stores of the body.
//
// Position p of the block holds element (p + h) mod n, with h such that what is stored begins a line of 128 bytes
// there. So all vectors are aligned but those at the wrap, which go element by element. Element-wise ops and reductions
// do not see where an element is; ops that do keep a kernel from having this version. A view that lies otherwise than
// the stored ones (weights that begin on a boundary of their own) is read by two aligned vectors, shifted together; how
// many words by is a constant in each copy of the body.
#include <llvm/IR/Constants.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "tileweave/jit/codegen/gpu_lowering.h"

namespace tileweave::codegen {

using ir::Op;
using ir::OpId;
using ir::Place4;
using ir::Value;

namespace {

constexpr std::int64_t line_bytes = 128;
// Of the long axis: shorter ones have more of a block at the wrap than is won.
constexpr std::int64_t least_extent = 512;

bool keeps_positions(const Op& op) {
  if (ir::is_elementwise(op.id)) return true;
  switch (op.id) {
    case OpId::constant:
    case OpId::program_id:
    case OpId::num_programs:
    case OpId::extent:
    case OpId::stride:
    case OpId::broadcast:
    case OpId::expand_dims:
    case OpId::convert:
    case OpId::bitcast:
    case OpId::inside:
    case OpId::load:
    case OpId::store:
    case OpId::reduce:
      return true;
    default:
      return false;
  }
}

}  // namespace

// --- accesses

// How far past a position its vector ends, h aside: a shifted vector is read as two.
std::int64_t BlockAccess::reach() const { return (is_shifted_ ? 2 : 1) * std::int64_t{vectors_.elements()}; }

// The element that the vector at position 0 starts from; a shifted view is read from the boundary below.
llvm::Value* BlockAccess::start_of_vectors() {
  if (!is_shifted_) return rotation_->by;
  return c_.b.CreateAnd(rotation_->by, c_.i32(-std::int64_t{vectors_.elements()}));
}

// The same in bytes.
llvm::Value* BlockAccess::rotated_start() {
  if (rotated_ == nullptr) {
    rotated_ = c_.b.CreateMul(c_.b.CreateZExt(start_of_vectors(), c_.b.getInt64Ty()), c_.i64(bytes_));
  }
  return rotated_;
}

// Whether a vector never meets the wrap; else a condition to ask the thread.
bool BlockAccess::is_never_at_wrap(const std::vector<int>& group) const {
  std::int64_t last = frame_.register_coordinate(vectors_.axis, group[0]);
  for (Place4 p : {Place4::lane, Place4::warp}) {
    for (std::uint64_t base : frame_.layout().bases(p)) {
      last |= static_cast<std::int64_t>(frame_.layout().coordinate(base, vectors_.axis));
    }
  }
  return last + rotation_->most + reach() <= rotation_->extent;
}

llvm::Value* BlockAccess::is_before_wrap(const std::vector<int>& group) {
  llvm::Value* end = c_.b.CreateAdd(frame_.coordinate(vectors_.axis, group[0]), start_of_vectors());
  return c_.b.CreateICmpSLE(end, c_.i32(rotation_->extent - reach()));
}

llvm::Value* BlockAccess::wrapped_address(int r) {
  llvm::Value* at = c_.b.CreateAdd(frame_.coordinate(vectors_.axis, r), rotation_->by);
  llvm::Value* wraps = c_.b.CreateICmpSGE(at, c_.i32(rotation_->extent));
  at = c_.b.CreateSelect(wraps, c_.b.CreateSub(at, c_.i32(rotation_->extent)), at);
  llvm::Value* offset = c_.b.CreateMul(c_.b.CreateZExt(at, c_.b.getInt64Ty()), c_.i64(bytes_));
  return c_.b.CreateAdd(uniform_address(), offset);
}

std::vector<llvm::Value*> BlockAccess::rotated_words(const std::vector<int>& group, CacheHint hint) {
  const int bytes = bytes_ * vectors_.elements();
  const AccessType t = access_type(c_, bytes);
  const auto load_words = [&](std::int64_t ahead) {
    llvm::Value* at = c_.b.CreateAdd(c_.b.CreateAdd(address(group[0]), rotated_start()), c_.i64(ahead));
    llvm::Value* word =
        c_.call(PrimitiveId::global_load, t.element, {at, c_.b.getTrue(), c_.i32(static_cast<int>(hint)), c_.site()});
    return unpack_elements(c_, word, bytes / 4, c_.b.getInt32Ty(), 4);
  };
  std::vector<llvm::Value*> words = load_words(0);
  if (!is_shifted_) return words;
  const std::vector<llvm::Value*> next = load_words(bytes);
  words.insert(words.end(), next.begin(), next.end());
  std::vector<llvm::Value*> shifted;
  llvm::Value* bits = nullptr;
  if (bytes_ < 4) {
    llvm::Value* odd = c_.b.CreateAnd(c_.b.CreateMul(rotation_->by, c_.i32(bytes_)), c_.i32(3));
    bits = c_.b.CreateShl(odd, 3);
  }
  for (int i = 0; i < bytes / 4; ++i) {
    const auto from = static_cast<std::size_t>(i + rotation_->words);
    llvm::Value* low = words[from];
    if (bits == nullptr) {
      shifted.push_back(low);
    } else {
      shifted.push_back(c_.b.CreateIntrinsic(llvm::Intrinsic::fshr, {c_.b.getInt32Ty()}, {words[from + 1], low, bits}));
    }
  }
  return shifted;
}

// Runs one of two ways to load by the thread's place.
template <class Vector, class Singly>
std::vector<llvm::Value*> BlockAccess::by_wrap(const std::vector<int>& group, Vector vector, Singly singly) {
  llvm::Value* before = is_before_wrap(group);
  // What both ways use stands before them.
  uniform_address();
  thread_offset();
  rotated_start();
  llvm::BasicBlock *fast = c_.new_block("vector"), *slow = c_.new_block("wrap"), *join = c_.new_block("loaded");
  c_.b.CreateCondBr(before, fast, slow);
  std::array<std::vector<llvm::Value*>, 2> made;
  std::array<llvm::BasicBlock*, 2> ends{};
  for (std::size_t i = 0; i < 2; ++i) {
    c_.b.SetInsertPoint(i == 0 ? fast : slow);
    made[i] = i == 0 ? vector() : singly();
    ends[i] = c_.b.GetInsertBlock();
    c_.b.CreateBr(join);
  }
  c_.b.SetInsertPoint(join);
  std::vector<llvm::Value*> values;
  for (std::size_t k = 0; k < made[0].size(); ++k) {
    llvm::PHINode* phi = c_.b.CreatePHI(made[0][k]->getType(), 2);
    for (std::size_t i = 0; i < 2; ++i) phi->addIncoming(made[i][k], ends[i]);
    values.push_back(phi);
  }
  return values;
}

std::vector<llvm::Value*> BlockAccess::load_rotated(const std::vector<int>& group, CacheHint hint) {
  c_.enter_op(*block_.op);
  llvm::Type* type = c_.elements.memory_type(block_.view->elem);
  const bool all_live = std::all_of(group.begin(), group.end(), [&](int k) { return frame_.is_live(k); });
  const auto vector = [&] {
    const auto words = rotated_words(group, hint);
    llvm::Value* word = pack_elements(c_, words, 4);
    return unpack_elements(c_, word, static_cast<int>(group.size()), type, bytes_);
  };
  const auto singly = [&] {
    std::vector<llvm::Value*> values;
    for (int k : group) {
      if (!frame_.is_live(k)) {
        values.push_back(nullptr);
        continue;
      }
      llvm::Value* exists = frame_.exists(k);
      llvm::Value* word = c_.call(
          PrimitiveId::global_load, access_type(c_, bytes_).element,
          {wrapped_address(k), exists == nullptr ? c_.b.getTrue() : exists, c_.i32(static_cast<int>(hint)), c_.site()});
      values.push_back(unpack_elements(c_, word, 1, type, bytes_)[0]);
    }
    return values;
  };
  std::vector<llvm::Value*> values;
  if (all_live && is_never_at_wrap(group)) {
    values = vector();
  } else if (!all_live) {
    values = singly();
  } else {
    values = by_wrap(group, vector, singly);
  }
  for (llvm::Value*& v : values) {
    if (v != nullptr) v = c_.elements.from_memory(v, block_.view->elem);
  }
  return values;
}

void BlockAccess::store_rotated(const std::vector<int>& group, const std::vector<llvm::Value*>& values,
                                llvm::Value* first) {
  c_.enter_op(*block_.op);
  const bool all_live = std::none_of(values.begin(), values.end(), [](const auto* v) { return v == nullptr; });
  const auto predicate = [&](llvm::Value* p) { return p == nullptr ? c_.b.getTrue() : p; };
  const auto vector = [&] {
    llvm::Value* at = c_.b.CreateAdd(address(group[0]), rotated_start());
    llvm::Value* word = pack_elements(c_, values, bytes_);
    c_.call(PrimitiveId::global_store, access_type(c_, bytes_ * static_cast<int>(values.size())).element,
            {at, word, predicate(first), c_.i32(0), c_.site()});
    return std::vector<llvm::Value*>{};
  };
  const auto singly = [&] {
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (values[i] == nullptr) continue;
      llvm::Value* word = pack_elements(c_, {values[i]}, bytes_);
      c_.call(
          PrimitiveId::global_store, access_type(c_, bytes_).element,
          {wrapped_address(group[i]), word, predicate(c_.both(first, frame_.exists(group[i]))), c_.i32(0), c_.site()});
    }
    return std::vector<llvm::Value*>{};
  };
  if (all_live && is_never_at_wrap(group)) {
    vector();
  } else if (!all_live) {
    singly();
  } else {
    by_wrap(group, vector, singly);
  }
}

llvm::Value* BlockAccess::bytes_to_line() {
  // Down from the address to the next multiple: its negation's low bits.
  llvm::Value* low = c_.b.CreateTrunc(c_.b.CreateNeg(uniform_address()), c_.b.getInt32Ty());
  return c_.b.CreateAnd(low, c_.i32(line_bytes - 1));
}

// Whether the view's vectors are aligned when moved on by `by` elements; null where they are seen to be.
llvm::Value* BlockAccess::is_aligned_when(llvm::Value* by) {
  llvm::Value* at = c_.b.CreateTrunc(uniform_address(), c_.b.getInt32Ty());
  at = c_.b.CreateAdd(at, c_.b.CreateMul(by, c_.i32(bytes_)));
  const std::int64_t low = bytes_ * std::int64_t{vectors_.elements()} - 1;
  return c_.b.CreateICmpEQ(c_.b.CreateAnd(at, c_.i32(low)), c_.i32(0));
}

// --- the version

namespace {

// True in every lane where the blocks lie inside their views.
bool is_of_insides(const Value* v) {
  if (v->def == nullptr) return false;
  const Op& op = *v->def;
  if (op.id == OpId::inside) return true;
  const bool passes_on = op.id == OpId::bit_and || op.id == OpId::broadcast || op.id == OpId::expand_dims;
  return passes_on && std::all_of(op.operands.begin(), op.operands.end(), is_of_insides);
}

const ir::Type& type_of_block(const Op& op) {
  return op.id == OpId::store ? op.operands[static_cast<std::size_t>(1 + op.operands[0]->type.rank)]->type
                              : op.results[0]->type;
}

bool moves_block(const Op& op) { return op.id == OpId::load || op.id == OpId::store; }

}  // namespace

// The extent of the one axis that all long blocks run along; 0 where the function cannot be rotated.
std::int64_t GpuLowering::rotated_extent() const {
  std::int64_t extent = 0;
  const auto fits = [&](const auto& op) {
    if (!keeps_positions(*op) || !op->regions.empty()) return false;
    if (!moves_block(*op)) return true;
    if (!checked_.contains(op.get())) return false;
    if (op->attrs.get_int(ir::AttrKey::masked) != 0 && !is_of_insides(op->operands.back())) return false;
    const ir::Type& t = type_of_block(*op);
    if (t.elements() == 1) return true;
    const std::int64_t longest = *std::max_element(t.extents.begin(), t.extents.end());
    if (longest != t.elements() || (extent != 0 && extent != longest)) return false;
    extent = longest;
    return true;
  };
  const auto& ops = c.f.body().ops;
  return std::all_of(ops.begin(), ops.end(), fits) && extent >= least_extent ? extent : 0;
}

bool GpuLowering::is_rotated_block(const Op& op) const {
  return moves_block(op) && type_of_block(op).elements() == rotation_->extent;
}

bool GpuLowering::lower_rotated() {
  const std::int64_t extent = rotated_extent();
  if (extent == 0) return false;
  rotation_ = Rotation{.extent = extent};
  std::vector<std::pair<const Op*, std::unique_ptr<BlockAccess>>> blocks;
  const BlockAccess* stored = nullptr;
  std::size_t first_store = 0;
  bool gains = false;
  for (const Op* op : checked_order_) {
    if (!is_rotated_block(*op)) continue;
    const Value* tile =
        op->id == OpId::store ? op->operands[static_cast<std::size_t>(1 + op->operands[0]->type.rank)] : op->results[0];
    auto a = std::make_unique<BlockAccess>(c, block_of(*op), layout_of(tile), shape_of(tile->type), &*rotation_);
    if (!a->has_vectors() || a->vectors().elements() == 1) return false;
    if (op->id == OpId::store) {
      gains |= a->is_aligned() != nullptr || extent % a->vectors().elements() != 0;
      if (stored == nullptr) first_store = blocks.size();
      if (stored == nullptr) stored = a.get();
    }
    blocks.emplace_back(op, std::move(a));
  }
  if (stored == nullptr || !gains) return false;
  const int bytes = stored->element_bytes(), elements = stored->vectors().elements();
  rotation_->most = line_bytes / bytes - 1;
  llvm::Value* to_line = blocks[first_store].second->bytes_to_line();
  rotation_->by = c.b.CreateLShr(to_line, static_cast<std::uint64_t>(std::countr_zero(static_cast<unsigned>(bytes))));
  llvm::Value* all = nullptr;
  bool shifts = false;
  for (auto& [op, a] : blocks) {
    if (a->vectors().elements() != elements) return false;
    if (op->id == OpId::load && a->is_aligned() == nullptr) {
      // Where the stored view is aligned too, this one is not shifted against it but lies as it does.
      if (a->element_bytes() != bytes) return false;
      shifts = true;
      continue;
    }
    all = c.both(all, a->is_aligned_when(rotation_->by));
  }
  for (const Op* op : checked_order_) {
    const Value* tile =
        op->id == OpId::store ? op->operands[static_cast<std::size_t>(1 + op->operands[0]->type.rank)] : op->results[0];
    all = c.both(all, access_of(*op, layout_of(tile)).is_inside());
  }
  for (auto& [op, a] : blocks) checked_[op] = elements;
  if (all == nullptr) all = c.b.getTrue();

  llvm::BasicBlock *start = c.new_block("rotated"), *generic = c.new_block("generic");
  c.b.CreateCondBr(all, start, generic);
  c.b.SetInsertPoint(start);
  const int copies = shifts ? std::max(1, bytes * elements / 4) : 1;
  llvm::Value* words = c.b.CreateAnd(c.b.CreateLShr(c.b.CreateMul(rotation_->by, c.i32(bytes)), 2), c.i32(copies - 1));
  std::vector<llvm::BasicBlock*> bodies;
  for (int i = 0; i < copies; ++i) bodies.push_back(c.new_block("rotated_by"));
  llvm::SwitchInst* choose = c.b.CreateSwitch(words, bodies[0], static_cast<unsigned>(copies));
  for (int i = 1; i < copies; ++i) choose->addCase(c.i32(i), bodies[static_cast<std::size_t>(i)]);
  for (int i = 0; i < copies; ++i) {
    rotation_->words = i;
    lower_version(Version::rotated, bodies[static_cast<std::size_t>(i)]);
  }
  lower_version(Version::generic, generic);
  return true;
}

}  // namespace tileweave::codegen
