// Accesses to blocks of views: which registers move together, what must hold for that, and the instructions.
// Between the ops load, store and inside, and the primitives global_load and global_store.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "tileweave/jit/codegen/gpu_context.h"
#include "tileweave/jit/codegen/gpu_frame.h"
#include "tileweave/jit/ir/function.h"

namespace tileweave::codegen {

// The kernel is emitted in up to three versions of which each program picks one by its place:
//   full     every block lies inside its view and is aligned: vectors, no predicates
//   whole    vectors lie wholly inside or wholly outside: one predicate a vector
//   generic  element by element
// or, where what is stored is not aligned, in
//   rotated  every block lies inside its view; vectors once positions are moved on to a boundary (gpu_rotated.cpp)
// and generic.
enum class Version : std::uint8_t { full, whole, generic, rotated };

// The blocks of the rotated version: position p of the long axis holds element (p + by) mod extent.
struct Rotation {
  llvm::Value* by = nullptr;  // i32, the same in every thread
  std::int64_t most = 0;      // that `by` can be
  std::int64_t extent = 0;
  int words = 0;  // by how many 32-bit words of a vector views lie otherwise that begin on a boundary
};

// A view's slots as LLVM values (i64), and what is known of it.
struct ViewSlots {
  llvm::Value* base = nullptr;
  std::vector<llvm::Value*> extents, strides;
  ir::ViewFacts facts;
  Dtype elem = Dtype::f32;
  bool is_const = false;
  int slot = 0;  // of the base among the kernel's parameters
};

// Registers that hold neighbours in memory: those that differ only in the bits of `registers` (1 << bit each, for
// offsets 1, 2, 4, ... along `axis`).
struct VectorPlan {
  int axis = -1;               // -1: none, every element by itself
  std::vector<int> registers;  // one a doubling
  int elements() const { return 1 << registers.size(); }
};
// The longest vectors, up to 16 bytes, that the layout and the strides known at compile time allow.
// `ragged`: also where the last vector of the axis is not full.
VectorPlan plan_vectors(const ir::Layout& l, const ir::TileShape& shape, const ir::ViewFacts& facts, int element_bytes,
                        bool ragged);

// A multiple that a scalar is known to be of, a power of two up to 2^20; 2^20 for 0.
std::int64_t known_multiple(const ir::Value* v);

// A block of a view: the operands of load, store and inside.
struct Block {
  const ViewSlots* view = nullptr;
  const ir::Op* op = nullptr;
  std::vector<llvm::Value*> offsets;  // i64
  std::vector<const ir::Value*> offset_values;
  bool inbounds = false;  // proved
};

// Emits addresses, bounds and accesses of one block in one layout.
class BlockAccess {
 public:
  // `rotation` must outlive the object.
  BlockAccess(GpuContext& c, Block block, const ir::Layout& l, ir::TileShape shape, const Rotation* rotation = nullptr);

  const VectorPlan& vectors() const { return vectors_; }
  int element_bytes() const { return bytes_; }
  TileFrame& frame() { return frame_; }

  // --- conditions of the versions, the same in every thread; null where they hold always
  llvm::Value* is_inside();   // the whole block
  llvm::Value* is_aligned();  // every vector, if its first element is where the plan says
  llvm::Value* is_whole();    // no vector crosses the edge
  // False where one of them can be seen never to hold with vectors.
  bool has_vectors() const { return vectors_.axis >= 0; }

  // Emits what branches to come share, here where it dominates them.
  void prepare();

  // True where the element lies in the view; null where it always does (it may still not exist, see TileFrame).
  llvm::Value* in_view(int r);

  // One element, or the vector whose first register is r; a null predicate is true.
  // The load's `hint` is what the lowering knows; the user's own, of the op, goes before it.
  std::vector<llvm::Value*> load(int r, int elements, llvm::Value* predicate, CacheHint hint);
  void store(int r, const std::vector<llvm::Value*>& values, llvm::Value* predicate);
  // The same vector as 32-bit words.
  void store_words(int r, const std::vector<llvm::Value*>& words, llvm::Value* predicate);
  // --- copies of vectors of 16 bytes into shared memory, 0 where the view or the tile ends
  // Whether the hardware can copy them; null: always.
  llvm::Value* can_copy();
  void copy_vector(int r, llvm::Value* to);
  void copy_singly(int r, llvm::Value* to);
  // --- the same in the rotated version; registers without an element are null
  bool is_rotated() const { return rotation_ != nullptr; }
  // The view begins on a boundary of its own.
  void set_shifted() { is_shifted_ = true; }
  bool is_shifted() const { return is_shifted_; }
  llvm::Value* bytes_to_line();  // from the block's start on
  llvm::Value* is_aligned_when(llvm::Value* by);
  std::vector<llvm::Value*> load_rotated(const std::vector<int>& group, CacheHint hint);
  void store_rotated(const std::vector<int>& group, const std::vector<llvm::Value*>& values, llvm::Value* first);

  // The registers of the vector with first register r, in the order of memory.
  std::vector<int> group(int r) const;
  bool leads_group(int r) const;
  // The vector that register r belongs to.
  std::vector<int> group_with(int r) const {
    for (int bit : vectors_.registers) r &= ~(1 << bit);
    return group(r);
  }

 private:
  llvm::Value* bytes_inside(int r);
  llvm::Value* uniform_address();
  llvm::Value* thread_offset();  // bytes, i64
  llvm::Value* address(int r);
  // gpu_rotated.cpp
  std::int64_t reach() const;
  llvm::Value* rotated_start();
  llvm::Value* start_of_vectors();
  bool is_never_at_wrap(const std::vector<int>& group) const;
  llvm::Value* is_before_wrap(const std::vector<int>& group);
  llvm::Value* wrapped_address(int r);
  std::vector<llvm::Value*> rotated_words(const std::vector<int>& group, CacheHint hint);
  template <class Vector, class Singly>
  std::vector<llvm::Value*> by_wrap(const std::vector<int>& group, Vector vector, Singly singly);
  void store_word(int r, llvm::Value* word, llvm::Value* predicate);

  GpuContext& c_;
  Block block_;
  TileFrame frame_;
  const Rotation* rotation_;
  bool is_shifted_ = false;
  VectorPlan vectors_;
  int bytes_;
  llvm::Value *uniform_ = nullptr, *thread_ = nullptr, *rotated_ = nullptr;
  struct AxisBounds {
    llvm::Value *first = nullptr, *span = nullptr;  // i32: in the view where coordinate - first <u span
    bool always = false;
  };
  AxisBounds bounds(int axis);
  std::vector<std::optional<AxisBounds>> bounds_;
};

// Elements as words of 1, 2, 4, 8 or 16 bytes, for the primitives. Types are the memory types of elements.
struct AccessType {
  Element element = Element::i32;
  llvm::Type* type = nullptr;
};
// The hint that the user gave an access, or the other one.
CacheHint cache_hint(const ir::Op& op, CacheHint otherwise);

AccessType access_type(GpuContext& c, int bytes);
llvm::Value* pack_elements(GpuContext& c, const std::vector<llvm::Value*>& values, int element_bytes);
std::vector<llvm::Value*> unpack_elements(GpuContext& c, llvm::Value* word, int count, llvm::Type* type,
                                          int element_bytes);

}  // namespace tileweave::codegen
