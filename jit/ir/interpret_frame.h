// What the interpreter holds while it runs one program, and the functions that run each structural op.
// Included by interpret*.cpp alone.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/interpret.h"

namespace tileweave::ir {

// A tile: its elements' bits in row-major order; a pointer tile's elements are addresses.
struct TileValue {
  std::vector<std::uint64_t> bits;
  std::vector<double> error;  // one an element; empty: all exact

  double error_at(std::size_t i) const { return error.empty() ? 0.0 : error[i]; }
};

struct ViewValue {
  std::uint64_t base = 0;
  Extents extents;
  Extents strides;
};

struct Frame {
  Interpreter& owner;
  Grid grid;
  Grid program;
  const Frame* caller = nullptr;
  std::unordered_map<const Value*, TileValue> tiles;  // a var's own value is its content
  std::unordered_map<const Value*, ViewValue> views;

  Frame(Interpreter& o, std::span<const std::uint64_t> slots, const Grid& g, const Grid& p);
  // Of a call: the callee's parameters are these values of the caller.
  Frame(const Frame& caller, const Function& callee, std::span<Value* const> arguments);

  const Function& owner_function() const;
  const Frame& kernel_frame() const { return caller == nullptr ? *this : caller->kernel_frame(); }
  bool bounds() const { return owner.options_.bounds; }
  bool checked() const { return owner.options_.checked; }
  // The short form that a backend may take for this op; null: none.
  const ShortForm* short_form_of(const Op& op) const { return owner.rounded_ ? owner.rounded_->form_of(op) : nullptr; }
  const TileValue& get(const Value* v) const { return tiles.at(v); }
  void set(const Value* v, TileValue t) { tiles[v] = std::move(t); }
  std::uint64_t scalar(const Value* v) const { return get(v).bits[0]; }
  // A scalar that decides what is done next: what hangs on an inexact one is not determined.
  std::uint64_t decide(const Value* v);
  void undetermined() { owner.undetermined_ = true; }
  void count_clipped(const Op& op, std::int64_t lanes);

  static std::uint64_t value_at(std::uint64_t address, Dtype t);
  // One element's memory. An access that races with another program's is noted as a failure and done all the same.
  std::uint64_t load(const Op& op, std::uint64_t address, Dtype t);
  void store(const Op& op, std::uint64_t address, Dtype t, std::uint64_t bits);
  void atomic(const Op& op, std::uint64_t address, Dtype t, std::uint64_t old, std::uint64_t bits);
  // A store op begins: its lanes are looked at together.
  void begin_store();
  void note_race(const std::optional<Race>& race, const Op& op, std::uint64_t address, Dtype t);
  std::int64_t linear_program() const;
  double memory_error(std::uint64_t address) const;
  void set_memory_error(std::uint64_t address, double e);

  void run_ops(const Region& r);
  void run_op(const Op& op);
  // Runs a region with these arguments; gives the values its terminator names, from `skip` on.
  std::vector<TileValue> run_region(const Region& r, std::vector<TileValue> args, std::size_t skip = 0);
};

// Whether a pointer may be followed: always, but in checked mode only into a view of the launch (else the failure is
// noted).
bool is_reachable(Frame& f, const Op& op, std::uint64_t address, Dtype t);

#define TILEWEAVE_STRUCTURAL_OP(id, mnemonic, effects, legal, text) void interpret_##id(Frame& f, const Op& op);
#include "tileweave/jit/ir/structural_ops.def"
void interpret_elementwise(Frame& f, const Op& op);

// The elements along `axis` that share the other coordinates of element `i` of the tile without that axis.
class Line {
 public:
  Line(const Type& x, std::size_t axis, std::int64_t i);
  std::int64_t length() const { return x_.extents[axis_]; }
  std::size_t element(std::int64_t k);  // its row-major index in the tile

 private:
  const Type& x_;
  std::size_t axis_;
  std::array<std::int64_t, max_rank> at_{};
};
// How many lines a tile has along an axis.
std::int64_t line_count(const Type& x, std::size_t axis);
// The mask operand of an op whose `masked` says that it has one; null otherwise.
const TileValue* mask_of(const Frame& f, const Op& op);
bool is_masked_off(Frame& f, const TileValue* mask, std::size_t i);

// What an empty reduction gives, as bits of the accumulator.
std::uint64_t identity_of(Combine c, Dtype t);

// --- indices
// The coordinates of row-major element `i`.
std::array<std::int64_t, max_rank> coordinates(const Type& t, std::int64_t i);
std::int64_t row_major(const Type& t, const std::array<std::int64_t, max_rank>& at);

// --- error bounds (interpret_error.cpp)
// Of one lane of an element-wise op or a conversion whose operands are this far from exact.
double elementwise_error(OpId id, Dtype t, std::span<const std::uint64_t> operands, std::span<const double> errors);
double convert_error(std::uint64_t bits, Dtype from, Dtype to, bool saturate, double error);
// Of a sum (or product) of these terms in any order, accumulated in `t` and rounded to `result`.
double sum_error(std::span<const double> terms, std::span<const double> errors, Dtype t, Dtype result, bool products);
double prod_error(std::span<const double> terms, std::span<const double> errors, Dtype t, Dtype result);

}  // namespace tileweave::ir
