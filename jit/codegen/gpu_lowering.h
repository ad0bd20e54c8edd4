// The GPU lowering itself: one object a kernel, one function an op. Internal to gpu_lower*.cpp.
// A tile is held as one LLVM scalar a register of its layout; all memory and all talk between threads is primitives.
#pragma once

#include <llvm/IR/LLVMContext.h>

#include <array>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tileweave/jit/base/channel.h"
#include "tileweave/jit/base/tensor_map.h"
#include "tileweave/jit/codegen/gpu_access.h"
#include "tileweave/jit/codegen/gpu_axis.h"
#include "tileweave/jit/codegen/gpu_context.h"
#include "tileweave/jit/codegen/gpu_dot_plan.h"
#include "tileweave/jit/codegen/gpu_fragments.h"
#include "tileweave/jit/codegen/gpu_frame.h"
#include "tileweave/jit/codegen/gpu_layouts.h"
#include "tileweave/jit/codegen/gpu_lower.h"
#include "tileweave/jit/codegen/gpu_sync.h"
#include "tileweave/jit/codegen/gpu_wgmma.h"
#include "tileweave/jit/codegen/rare_paths.h"
#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/layout_conversion.h"
#include "tileweave/jit/ir/short_forms.h"

namespace tileweave::codegen {

// The registers of a tile in one thread, by their number in its layout; null where no thread holds an element.
using Regs = std::vector<llvm::Value*>;

struct Reduction;

// An f32 rounded to the 10 fraction bits of tf32, to nearest even, NaN kept (gpu_lower_dot.cpp).
llvm::Value* round_to_tf32(GpuContext& c, llvm::Value* x);

// A load of a loop that is copied to shared memory some iterations ahead.
struct StreamedLoad {
  const ir::Op* op = nullptr;
  ir::Layout copies;  // which thread copies which 16 bytes
  SharedTile tile;
  std::int64_t at = 0;  // in a stage
  int map = -1;         // TMA: the number of its tensor map
};
// A loop with such loads. A ring of stages: while one is multiplied, the others fill.
struct Stream {
  const ir::Op* loop = nullptr;
  std::vector<StreamedLoad> loads;
  int stages = 0;
  std::int64_t stage_bytes = 0, base = 0;
  // The stage that is filled in an iteration is the one that was read `lag` iterations ago. 2 where the products of one
  // iteration, `lagging`, are still under way in the next.
  int lag = 1;
  const ir::Op* lagging = nullptr;
  bool feeds_warp_groups = false;  // what lands must be shown to the asynchronous proxy
  llvm::Value *step = nullptr, *trips = nullptr;
  // A ring that one warp of its own fills by TMA: the offset of its mbarriers, `stages` full ones and as many empty
  // ones.
  bool is_ring = false;
  std::int64_t barriers = 0;
  // Each block does every so many programs; the ring goes on from one to the next.
  bool is_persistent = false;
  // Of the consumers, between programs: the next stage and its parity, in memory that becomes registers.
  llvm::AllocaInst *next_slot = nullptr, *next_parity = nullptr;
  // Of the consumers, in the loop: the stage of this iteration and the parity of its phase.
  llvm::PHINode *slot = nullptr, *parity = nullptr;
};

// Whether the op itself, not what is inside it, may write memory (gpu_lower_stream.cpp).
bool writes_memory(const ir::Op& op);

// How many times a loop runs, as u64 (gpu_lower_control.cpp).
llvm::Value* trip_count(GpuContext& c, llvm::Value* lo, llvm::Value* hi, llvm::Value* step);

// Tiles that stand in shared memory while a loop runs.
struct HeldOperands {
  std::vector<const ir::Value*> values;
  std::int64_t base = 0;
};

// The row-major index of a register's element in the real (not padded) tile, i32 (gpu_lower_shape.cpp).
llvm::Value* row_major_index(GpuContext& c, TileFrame& frame, int r);

class GpuLowering {
  // A value in a layout, by the layout's bases.
  using Key = std::pair<const ir::Value*, std::vector<std::uint64_t>>;

 public:
  // `persistent`: blocks with a ring may do one program after another.
  GpuLowering(const ir::Function& f, const Target& target, llvm::LLVMContext& context, std::string entry,
              bool persistent);
  // Without a module where a persistent kernel needs more shared memory than there is.
  LoweredKernel run();

 private:
  // --- the driver (gpu_lower.cpp)
  void lower_params();
  void lower_program_ids();
  llvm::Value* number_of_programs();
  void place_program(llvm::Value* linear);
  int min_blocks() const;
  void lower_op(const ir::Op& op);
  void lower_elementwise(const ir::Op& op);

  // --- versions (gpu_versions.cpp): which blocks are checked before the body, and the body once for each version
  void lower_versions();
  // How many ops of the body end with the last one that multiplies on tensor cores: all versions share them.
  std::size_t shared_ops() const;
  void collect_checked(const ir::Region& r, std::size_t shared);
  bool is_known_early(const ir::Value* v) const;
  void lower_early(const ir::Value* v);
  void lower_version(Version v, llvm::BasicBlock* block, std::size_t first = 0);
  // gpu_rotated.cpp. False where the function has no such version: nothing was emitted that matters.
  bool lower_rotated();
  std::int64_t rotated_extent() const;
  bool is_rotated_block(const ir::Op& op) const;

  // --- ops, by file: gpu_lower_shape.cpp
  void lower_reshape_in_memory(const ir::Op& op);
  Regs constant_regs(const ir::Op& op, const ir::Layout& l);
  Regs iota_regs(const ir::Op& op, const ir::Layout& l);
  // gpu_lower_memory.cpp
  Block block_of(const ir::Op& op);
  BlockAccess access_of(const ir::Op& op, const ir::Layout& l);
  // How this op may be emitted where it stands; `decide` is set where only the running program can tell full from
  // generic.
  Version version_of(const ir::Op& op, BlockAccess& a, llvm::Value*& decide);
  Regs inside_regs(const ir::Op& op, const ir::Layout& l);
  void lower_load(const ir::Op& op);
  Regs emit_load(const ir::Op& op, BlockAccess& a, Version v, const Regs* mask);
  // The registers of the access that `r` belongs to, into `regs`.
  void emit_load_of(const ir::Op& op, BlockAccess& a, Version v, const Regs* mask, int r, Regs& regs);
  void lower_store(const ir::Op& op);
  void emit_store(BlockAccess& a, Version v, const ir::Value* value, const Regs* mask);
  // The elements of a vector as 32-bit words, two of f16 or bf16 rounded at once; empty where that is not how they
  // come.
  std::vector<llvm::Value*> rotated_values(BlockAccess& a, const ir::Value* value, const ir::Layout& l,
                                           const std::vector<int>& group);
  std::vector<llvm::Value*> rounded_words(const ir::Value* value, const ir::Layout& l, const std::vector<int>& group);
  // The predicate of an element, or of the vector that it leads; null where it is always true.
  llvm::Value* predicate_of(BlockAccess& a, Version v, int r, const Regs* mask);
  // Runs `emit` for full and for generic, each under `decide`, and joins what they give.
  template <class F>
  Regs in_two_versions(llvm::Value* decide, F emit);
  void lower_ptr_add(const ir::Op& op);
  void lower_load_ptr(const ir::Op& op);
  void lower_store_ptr(const ir::Op& op);
  GlobalAccess global_access(const ir::Op& op, bool this_pass) const;
  void collect_accesses(const ir::Region& r, std::vector<GlobalAccess>& out) const;
  // gpu_lower_reduce.cpp
  std::vector<std::vector<llvm::Value*>> reduce_axis(const ir::Layout& l, const Reduction& r,
                                                     const std::vector<std::vector<llvm::Value*>>& lanes);
  ir::Layout reducible_layout(const ir::Value* x, int axis) const;
  llvm::Value* counts(TileFrame& frame, int r, const Regs* mask);
  bool sums_products(const ir::Op& op, const ir::Layout& l) const;
  void lower_sum_of_products(const ir::Op& op, const ir::Layout& l);
  void lower_reduce(const ir::Op& op);
  void lower_arg_reduce(const ir::Op& op);
  // gpu_lower_moments.cpp
  const ir::Op* find_deviations(const ir::Op& sum) const;
  void lower_sum_with_deviations(const ir::Op& sum, const ir::Op& squares, const ir::Layout& l);
  std::vector<std::vector<llvm::Value*>> squared_deviations(const Regs& held, const std::vector<llvm::Value*>& counted,
                                                            const std::vector<llvm::Value*>& means, const ir::Layout& l,
                                                            int axis);
  void lower_deviations(const ir::Op& op, const ir::Layout& l);
  // gpu_lower_move.cpp: slice, cat, flip, gather, histogram
  struct TileImage {
    std::int64_t base = 0, bytes = 1;  // where it begins in shared memory, and an element's bytes
    ir::Extents extents;               // row-major
  };
  TileImage new_image(const ir::Type& t, llvm::Type* type);
  llvm::Value* image_offset(const TileImage& image, const std::vector<llvm::Value*>& at);
  // The tile's elements, at `start` of the image.
  void write_image(const ir::Value* v, const TileImage& image, const std::vector<std::int64_t>& start);
  // Registers of `result`: from(register, coordinates) changes the coordinates to where each comes from, and gives
  // when it does (null: always; 0 elsewhere).
  template <class From>
  Regs read_image(const ir::Value* result, const TileImage& image, llvm::Type* type, From from);
  bool slice_registers(const ir::Op& op);
  bool cat_registers(const ir::Op& op);
  void lower_slice(const ir::Op& op);
  void lower_cat(const ir::Op& op);
  void lower_flip(const ir::Op& op);
  void lower_gather(const ir::Op& op);
  void lower_histogram(const ir::Op& op);
  // gpu_lower_scan.cpp, gpu_lower_sort.cpp
  ir::Layout scannable_layout(const ir::Value* x, int axis) const;
  llvm::Value* from_other_thread(llvm::Value* v, const PlaceMove& move);
  std::vector<llvm::Value*> from_other_warp(const std::vector<llvm::Value*>& values, const PlaceMove& move);
  // The values that the thread of another lane and warp holds.
  std::vector<llvm::Value*> from_others(const std::vector<llvm::Value*>& values, const PlaceMove& move);
  void lower_scan(const ir::Op& op);
  void lower_sort(const ir::Op& op);
  // gpu_lower_dot.cpp
  void stage_operand(const ir::Value* v, int k_axis, std::int64_t k0, std::int64_t part, std::int64_t base);
  Regs multiply_staged(const ir::Op& op, const Regs& acc, std::int64_t part, std::int64_t base_a, std::int64_t base_b);
  void lower_dot(const ir::Op& op);
  // gpu_lower_mma.cpp
  // The value that `v` is a relabelling of (or that is staged), and `l` as a layout of it.
  const ir::Value* root_of(const ir::Value* v, ir::Layout& l) const;
  bool has_fragments(const ir::Value* v, const ir::Layout& fragments) const;
  bool may_multiply_from_registers(const ir::Op& dot, const DotPlan& plan) const;
  SharedTile staging_tile(const ir::Value* root) const;
  Words pack_fragments(const ir::Value* v, const ir::Layout& fragments, int packed);
  void write_staged(const ir::Value* v, const StagedTile& staged);
  MemoryOperand memory_of(const ir::Value* v, const StagedTile& staged) const;
  std::vector<FetchedOperand> fetch_operands(const ir::Op& op, const DotPlan& plan);
  void lower_mma(const ir::Op& op, const DotPlan& plan);
  void multiply_step(const ir::Op& op, const DotPlan& plan, const Words& a, const Words& b, Regs& acc);
  // gpu_lower_wgmma.cpp. False where B cannot be described: nothing was emitted that matters.
  bool lower_wgmma(const ir::Op& op, const DotPlan& plan, std::vector<FetchedOperand>& operands);
  struct WgmmaBlock {
    int first = 0, count = 0;  // registers
    int rows = 0, column = 0;  // repeats of 64 rows (with the batch's); the first block of 8 columns
    llvm::Value* sums = nullptr;
  };
  std::optional<WgmmaMatrix> describe_operand(const DotPlan& plan, const FetchedOperand& operand, bool is_a);
  std::vector<std::pair<int, int>> wgmma_columns(const ir::Op& op, const DotPlan& plan) const;
  std::vector<WgmmaBlock> wgmma_blocks(const ir::Op& op, const DotPlan& plan, const Regs& acc);
  void take_sums(const ir::Op& op, const DotPlan& plan, const std::vector<WgmmaBlock>& blocks, Regs& acc);
  void finish_wgmma(const ir::Op& dot, Regs& acc);
  void wait_for_wgmma(const ir::Op& op, const DotPlan& plan, std::vector<WgmmaBlock>& blocks, Regs& acc);
  // gpu_lower_stream.cpp
  std::optional<Stream> plan_stream(const ir::Op& loop) const;
  int usual_number_of_stages(const Stream& s, std::int64_t shared_bytes) const;
  std::optional<StreamedLoad> plan_streamed(const ir::Op& load, const ir::Op& loop) const;
  bool feeds_products(const ir::Value* v, const ir::Region& body) const;
  const ir::Op* find_lagging(const Stream& s) const;
  void begin_stream(Stream& s, llvm::Value* first);
  // At the head of an iteration: its own stage, a byte offset, is full afterwards, and one more is asked for.
  void advance_stream(const Stream& s, llvm::Value* count, llvm::Value* index, llvm::Value* stage);
  llvm::Value* next_stage(const Stream& s, llvm::Value* stage);
  void end_stream(const Stream& s);
  void copy_stage(const Stream& s, llvm::Value* index, llvm::Value* stage);
  void copy_tile(const StreamedLoad& load, BlockAccess& a, llvm::Value* base, bool by_vectors);
  void lower_ahead(const ir::Value* v);
  HeldOperands hold_invariant_operands(const ir::Op& loop);
  HeldOperands stage_for_loop(const std::vector<const ir::Value*>& values);
  void release_held(const HeldOperands& held);
  // gpu_lower_ring.cpp
  void begin_ring();
  void begin_programs();
  void end_ring();
  void leave_ring_loop(const Stream& s);
  std::int64_t stored_bytes() const;
  std::optional<Stream> plan_ring();
  void choose_ring_stages(Stream& s) const;
  std::optional<TensorMapPlan> plan_map(const StreamedLoad& load) const;
  bool is_known_to_producer(const ir::Value* v, const ir::Region& body) const;
  void make_barriers(const Stream& s);
  struct RingPlace {
    llvm::Value *slot = nullptr, *parity = nullptr;
  };
  void produce(const Stream& s);
  void produce_program(const Stream& s, RingPlace& place);
  void fill_stage(const Stream& s, llvm::Value* index, llvm::Value* slot);
  void load_boxes(const StreamedLoad& load, llvm::Value* stage, llvm::Value* full);
  void begin_ring_loop(Stream& s, llvm::BasicBlock* before);
  void enter_stage(const Stream& s);
  void leave_stage(const Stream& s, llvm::Value* count);
  void advance_ring(const Stream& s, llvm::BasicBlock* last, llvm::Value* next);
  llvm::Value* next_slot(const Stream& s, llvm::Value* slot);
  llvm::Value* full_barrier(const Stream& s, llvm::Value* slot);
  llvm::Value* empty_barrier(const Stream& s, llvm::Value* slot);
  void take_tensor_maps();
  // gpu_lower_host.cpp: records for the host, in the launch's channel
  struct ChannelArea {
    std::int64_t counter, begin, capacity;
  };
  llvm::Value* channel();
  int add_text(ChannelText text);
  llvm::Value* linear_program();
  void write_record(const ChannelArea& area, int text, llvm::Value* element, llvm::Value* bits, llvm::Value* extent,
                    llvm::Value* predicate);
  void lower_print(const ir::Op& op);
  void lower_assert(const ir::Op& op);
  // gpu_lower_external.cpp
  void lower_external(const ir::Op& op);
  // gpu_lower_atomic.cpp
  void lower_atomic(const ir::Op& op);
  llvm::Value* atomic_element(const ir::Op& op, llvm::Value* address, const std::vector<llvm::Value*>& values,
                              llvm::Value* predicate);
  llvm::Value* atomic_by_swaps(const ir::Op& op, llvm::Value* address, const std::vector<llvm::Value*>& values,
                               llvm::Value* predicate);
  void fence(const std::string& scope);
  Regs share_old_values(const ir::Op& op, const Regs& old);
  // gpu_lower_control.cpp
  void lower_for(const ir::Op& op);
  void lower_if(const ir::Op& op);
  void lower_while(const ir::Op& op);
  void lower_body(const ir::Region& r) { lower_ops(r, 0, r.ops.size()); }
  void lower_ops(const ir::Region& r, std::size_t first, std::size_t last);
  void around_repeated(const ir::Op& op, const GlobalOrder& before);

  // --- values (gpu_values.cpp)
  // The registers of `v` in layout `l`: as held, made again where that is cheaper than moving, else converted.
  const Regs& get(const ir::Value* v, const ir::Layout& l);
  const Regs& get(const ir::Value* v) { return get(v, layout_of(v)); }
  llvm::Value* scalar(const ir::Value* v) { return get(v)[0]; }
  void set(const ir::Value* v, Regs regs) { set(v, layout_of(v), std::move(regs)); }
  void set(const ir::Value* v, const ir::Layout& l, Regs regs);
  // `v` has `regs` in layout `l`, whatever its own layout is.
  void define(const ir::Value* v, const ir::Layout& l, const Regs& regs);
  llvm::Type* register_type(const ir::Value* v);
  const ir::Layout& layout_of(const ir::Value* v) const;
  // Of the tile of a store while it is stored.
  const ir::Layout& layout_of_store(const ir::Op& op, const ir::Value* tile) const {
    return tile->type.rank == 0 ? scalar_layout_ : layouts_.of_access(op);
  }
  const Regs* find(const ir::Value* v, const ir::Layout& l) const;
  // Nothing where `v` has to be converted from the registers it is held in.
  std::optional<Regs> make_again(const ir::Value* v, const ir::Layout& l);
  void open_scope() { scopes_.emplace_back(); }
  void close_scope();

  // --- deferred values (gpu_deferred.cpp): element-wise ops and read-only loads are emitted where a register of theirs
  // is first asked for. A store or a reduction asks register by register, so a chain is emitted that way round: what
  // lives at once is one element's temporaries, not a tile's.
  // One register of `v` in layout `l`.
  llvm::Value* element(const ir::Value* v, const ir::Layout& l, int r);
  llvm::Value* make_element(const ir::Value* v, const ir::Layout& l, int r);
  llvm::Value* rare_element(const ir::Op& where, const std::vector<const ir::Value*>& before, const ir::Layout& l,
                            int r);
  llvm::Value* elementwise_lane(const ir::Op& op, const std::vector<llvm::Value*>& lane);
  bool defer(const ir::Op& op);
  bool defer_load(const ir::Op& op, const BlockAccess& a);
  void defer_value(const ir::Value* v, int chain);
  bool is_deferred(const ir::Value* v) const { return deferred_.contains(v); }
  llvm::Value* find_register(const Key& k, int r) const;
  // Before code that is not always run: what it may ask for is emitted now.
  void emit_deferred();

  // --- layout conversions (gpu_convert.cpp)
  Regs convert_layout(const Regs& from, const ir::Layout& source, const ir::Layout& target, const ir::TileShape& shape,
                      llvm::Type* type);
  Regs convert_by_shuffle(const Regs& from, const ir::ShuffleMove& move, const ir::TileShape& shape,
                          const ir::Layout& target, llvm::Type* type);
  Regs convert_through_memory(const Regs& from, const ir::SharedMove& move, const ir::Layout& source,
                              const ir::TileShape& shape, const ir::Layout& target, llvm::Type* type);
  llvm::Value* shuffle(llvm::Value* v, PrimitiveId how, llvm::Value* with);
  void shared_store(llvm::Value* offset, llvm::Value* v, llvm::Value* predicate);
  llvm::Value* shared_load(llvm::Value* offset, llvm::Type* type);

  const ir::ViewFacts& facts_of(const ir::Value* view) const;

  GpuContext c;
  const Target& target_;
  const bool may_persist_;
  const ir::RoundedValues rounded_;
  std::vector<ChannelText> texts_;  // what the numbers in channel records mean
  bool has_byte_atomics_ = false;
  const DotPlans dots_;
  LayoutMap layouts_;
  std::unordered_map<const ir::Value*, StagedTile> staged_;
  bool has_streams_ = false;
  std::optional<Stream> ring_;
  std::vector<TensorMapPlan> maps_;
  llvm::PHINode* program_ = nullptr;               // of the consumers, where the ring is persistent
  llvm::BasicBlock* kernel_end_ = nullptr;         // what c.exit was before programs began
  std::vector<llvm::Instruction*> map_addresses_;  // stand for parameters that the kernel gets when it is done
  const ir::Op* lagging_ = nullptr;                // Stream::lagging of the loop that is being lowered
  bool is_under_way_ = false;                      // its products were not waited for
  const RarePaths rare_;
  bool is_rare_ = false;  // inside a branch of rare_element
  ir::Layout scalar_layout_;
  SharedScratch scratch_;
  GlobalOrder order_;
  std::unordered_map<const ir::Value*, ViewSlots> views_;
  std::array<llvm::Value*, 3> program_ids_{}, grid_{};
  Version version_ = Version::generic;
  std::optional<Rotation> rotation_;
  // Ops whose blocks the check before the body covers, with the length of the vectors it was made for.
  std::unordered_map<const ir::Op*, int> checked_;
  std::vector<const ir::Op*> checked_order_;

  // What the warps know of a sum of squared deviations before it is asked for: by register of the result and warp.
  struct Moments {
    std::vector<std::vector<std::array<llvm::Value*, 3>>> warps;  // sum, squares about the warp's mean, count
    std::map<std::size_t, int> some_register;                     // of the values, for a register of the result
  };
  std::unordered_map<const ir::Op*, Moments> moments_;

  static Key key(const ir::Value* v, const ir::Layout& l);
  struct Scope {
    std::map<Key, Regs> held;
    std::map<Key, Regs> some;  // registers of deferred values that have been asked for
    std::vector<const ir::Value*> deferred;
  };
  std::vector<Scope> scopes_;
  std::unordered_map<const ir::Value*, int> deferred_;  // with the length of the chain that ends there
  std::unordered_map<const ir::Value*, std::unique_ptr<BlockAccess>> deferred_loads_;
};

}  // namespace tileweave::codegen
