// Emits one loop nest for the tasks that share it: loops over the axes, vectors along one of them, lazy values computed
// at each point. The parts: cpu_nest.cpp (loops), cpu_eval.cpp (values at a point), cpu_access.cpp (memory),
// cpu_reduce.cpp (reductions).
#pragma once

#include <map>
#include <tuple>

#include "tileweave/jit/codegen/cpu_context.h"
#include "tileweave/jit/codegen/cpu_walk.h"

namespace tileweave::codegen::cpu {

// A value at a point: one element, or one for each lane.
struct Point {
  llvm::Value* value = nullptr;
  bool is_vector = false;
};

class Nest {
 public:
  Nest(Context& c, const std::vector<Task>& tasks, const std::vector<Buffer>& targets,
       const std::vector<Fetch>& fetches);
  void emit();

 private:
  // One emitted copy of the innermost body.
  struct Body {
    unsigned lanes = 0;             // 0: one element at a time
    llvm::Value* base = nullptr;    // the vector axis' index of lane 0
    llvm::Value* active = nullptr;  // lanes that take part; null: all
    int copy = 0;                   // which of the unrolled ones
    bool streams = false;           // whole vectors are stored past the caches
  };
  struct Range {
    llvm::Value *lo = nullptr, *hi = nullptr;
  };
  // Where a reduction is accumulated: vectors for each unrolled copy, and one element in the end.
  struct Accumulator {
    std::vector<llvm::AllocaInst*> values, indices;  // indices: arg_reduce
    llvm::AllocaInst *total = nullptr, *total_index = nullptr;
  };
  struct Best {
    llvm::Value *value = nullptr, *index = nullptr;  // index: arg_reduce; -1 where there is none yet
  };

  // --- loops (cpu_nest.cpp)
  void choose_loops();
  unsigned choose_lanes() const;
  int choose_copies() const;
  void find_ranges();
  void find_uncovered();
  llvm::Value* covered_condition();
  void prepare_results();
  void emit_versions();
  void emit_version(bool fast);
  void emit_outer(std::size_t depth);
  void emit_vectors();
  void emit_columns();
  void emit_column_chunk(unsigned lanes, int copies, llvm::Value* first, llvm::Value* active);
  llvm::Value* emit_whole_vectors(const Range& r, unsigned lanes, std::int64_t step);
  llvm::Value* streaming_condition(unsigned lanes);
  void emit_bodies(unsigned lanes, int copies, llvm::Value* first, llvm::Value* active, bool streams = false);
  void emit_tasks();
  void open_level();
  void close_level(std::size_t level);
  llvm::Value* tail_mask(llvm::Value* first, llvm::Value* end, unsigned lanes);
  void finish_results();
  Range range_of(int axis) const { return ranges_[static_cast<std::size_t>(axis)]; }

  // --- values (cpu_eval.cpp)
  Point eval(const ir::Value* v, const AxisMap& m, bool compute = false);
  Point emit_value(const ir::Value* v, const AxisMap& m);
  Point emit_elementwise(const ir::Op& op, const AxisMap& m);
  Point emit_rare(const ir::Op& where, const std::vector<const ir::Value*>& before, const AxisMap& m);
  Point emit_iota(const ir::Op& op, const AxisMap& m);
  Point emit_inside(const std::vector<Bound>& bounds);
  Point both(Point a, Point b);  // and; a null value is true
  llvm::Value* as_lanes(const Point& p);
  std::size_t level_of(const AxisMap& m, int rank) const;
  bool is_along_vectors(const AxisMap& m, int rank) const;
  llvm::Value* index_of(int axis);
  llvm::Value* lane_numbers(llvm::Type* scalar);
  llvm::Value* bound_limit(const Bound& b, bool high);
  template <class F>
  auto at_level(std::size_t level, F emit);

  // --- memory (cpu_access.cpp)
  struct Place {
    llvm::Value* address = nullptr;  // of lane 0; or of each lane, where `scattered`
    bool is_vector = false;
    bool scattered = false;
  };
  Place view_place(const ir::Op& op, const AxisMap& m);
  llvm::Value* view_row(const ir::Op& op, const AxisMap& m, std::size_t level);
  Place buffer_place(const Buffer& buffer, const AxisMap& m, const ir::Type& shape);
  bool has_masked_scatter(const ir::Type& t) const;
  llvm::Value* or_scratch(llvm::Value* on, llvm::Value* addresses);
  Point load_from(const Place& p, const ir::Type& t, Point mask, std::uint64_t pad);
  void store_to(const Place& p, const ir::Type& t, Point value, Point mask, bool is_view = false);
  Point emit_load(const ir::Op& op, const AxisMap& m);
  Point emit_load_ptr(const ir::Op& op, const AxisMap& m);
  Point load_buffer(const ir::Value* v, const AxisMap& m, const ir::Type& shape);
  Point mask_at(const ir::Value* mask, const AxisMap& m);
  Point task_mask(const Task& t);
  void emit_store(const Task& t);
  void emit_keep(const Task& t, std::size_t i);
  void emit_fetches();

  // --- reductions (cpu_reduce.cpp)
  void begin_reductions(unsigned lanes, int copies);
  void emit_reduce(const Task& t, std::size_t i);
  void merge_copies(int copies);
  void fold_lanes();
  void put_results();
  void finish_columns(unsigned lanes, int copies, llvm::Value* active);
  Best combine(const Task& t, Best a, Best x);
  Best pick_better(const Task& t, Best best, Best x);
  Best identity(const Task& t, unsigned lanes);
  Best across_lanes(const Task& t, Best x);
  Best load_best(llvm::AllocaInst* value, llvm::AllocaInst* index);
  void store_best(Best x, llvm::AllocaInst* value, llvm::AllocaInst* index);
  llvm::Value* result_of(const Task& t, Best x);
  AxisMap result_map(const Task& t) const;
  void fill_result(const Task& t, const Buffer& to);
  bool needs_fill(const Task& t) const;

  Context& c_;
  const std::vector<Task>& tasks_;
  const std::vector<Buffer>& targets_;
  const std::vector<Fetch>& fetches_;
  const ir::Type space_;
  const std::vector<Bound>& bounds_;
  std::vector<Reach> reach_;

  std::vector<int> order_;             // axes longer than 1, outermost loop first
  std::vector<std::size_t> position_;  // of an axis in order_, from 1; 0 where it has no loop
  int vector_axis_ = -1;
  int inner_axis_ = -1;  // a reduced axis inside the vector loop
  unsigned lanes_ = 1;
  int copies_ = 1;
  std::vector<Range> ranges_;
  llvm::Value* guard_ = nullptr;  // bounds on axes of extent 1
  std::vector<Bound> uncovered_;
  bool fast_ = false;     // the uncovered bounds hold
  bool is_rare_ = false;  // inside a branch of emit_rare

  std::vector<llvm::Value*> index_;        // of each axis, where it has a loop around us
  std::vector<llvm::BasicBlock*> levels_;  // where values of a loop level are computed; [0] is before the loops
  Body body_;
  std::vector<llvm::Value*> copy_bases_;  // the vector axis' index of each copy, where the vector loop is not innermost
  using Key = std::tuple<const ir::Value*, std::array<std::int8_t, ir::max_rank>, int>;
  struct Known {
    Point point;
    std::size_t level;
  };
  std::map<Key, Known> known_;
  std::map<std::tuple<const ir::Op*, std::array<std::int8_t, ir::max_rank>, std::size_t>, llvm::Value*> rows_;
  std::map<std::tuple<const ir::Value*, int, const ir::Value*, bool>, llvm::Value*> limits_;

  std::vector<Accumulator> accumulators_;
  std::vector<Buffer> buffers_;                // of kept tiles and of results with several elements
  std::vector<llvm::AllocaInst*> unit_slots_;  // of results of one element
};

}  // namespace tileweave::codegen::cpu
