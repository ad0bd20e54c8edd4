// Makes ops: checks operands, infers types, folds constants and reuses equal pure ops of the same region as it goes.
// The recorder (dsl), the parser and the passes all build through it; a mistake of the user's is a RecordError at
// `place`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tileweave/jit/ir/function.h"

namespace tileweave::ir {

enum class Combine : std::uint8_t { sum, prod, min, max, fmin, fmax, bit_and, bit_or, bit_xor };
// The bits of a constant, or nothing.
std::optional<std::uint64_t> constant_of(const Value* v);

std::string_view combine_name(Combine c);
std::optional<Combine> combine_from_name(std::string_view s);
// The binary op that joins two partial results.
OpId combine_op(Combine c);

// Whether an op may stand in the region of a scan or fold: arithmetic on scalars.
bool is_combine_op(const Op& op);

class Builder {
 public:
  explicit Builder(Function& f);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Function& function() { return function_; }
  // Where the next ops go. A Builder starts at the end of the body.
  Region* region() const { return region_; }

  // --- constants; `bits` are the element's storage bits, zero-extended
  Value* constant_bits(Type t, std::uint64_t bits, Place p = {});
  Value* constant(Type t, double v, Place p = {});        // rounded to t.elem once
  Value* constant(Type t, std::int64_t v, Place p = {});  // wraps to t.elem
  Value* index(std::int64_t v) { return constant(Type::scalar(Dtype::i64), v); }

  // --- element-wise: operands have one shape (broadcast first); scalars are broadcast to the others' shape
  Value* elementwise(OpId id, std::span<Value* const> operands, Place p = {});
  Value* elementwise(OpId id, std::initializer_list<Value*> operands, Place p = {}) {
    return elementwise(id, std::span(operands.begin(), operands.size()), p);
  }
  Value* convert(Value* x, Dtype to, Place p = {}, bool saturate = false);
  Value* bitcast(Value* x, Dtype to, Place p = {});

  // --- shape
  Value* iota(std::int64_t n, Dtype t, std::int64_t start, Place p = {});
  Value* broadcast(Value* x, std::span<const std::int64_t> extents, Place p = {});
  // NumPy broadcasting of two shapes; throws RecordError naming both.
  static Extents broadcast_shape(const Type& a, const Type& b, std::string_view what, Place p);
  Value* expand_dims(Value* x, int axis, Place p = {});
  Value* reshape(Value* x, std::span<const std::int64_t> extents, Place p = {});
  Value* trans(Value* x, std::span<const int> perm, Place p = {});

  // --- grid and views
  Value* program_id(int axis, Place p = {});
  Value* num_programs(int axis, Place p = {});
  Value* extent(Value* view, int axis, Place p = {});
  Value* stride(Value* view, int axis, Place p = {});

  // --- memory; offsets are i64 scalars, one per axis of the view
  Value* inside(Value* view, std::span<Value* const> offsets, std::span<const std::int64_t> extents, Place p = {});
  Value* load(Value* view, std::span<Value* const> offsets, std::span<const std::int64_t> extents, Value* mask,
              std::uint64_t pad_bits, Place p = {}, std::string_view hint = {});
  void store(Value* view, std::span<Value* const> offsets, Value* value, Value* mask, Place p = {},
             std::string_view hint = {});
  Value* view_base(Value* view, Place p = {});
  Value* ptr_add(Value* ptr, Value* offset, Place p = {});
  Value* load_ptr(Value* ptr, Value* mask, std::uint64_t pad_bits, Place p = {}, std::string_view hint = {});
  void store_ptr(Value* ptr, Value* value, Value* mask, Place p = {}, std::string_view hint = {});

  // --- reductions: drop `axis`
  Value* reduce(Value* x, int axis, Combine c, Value* mask, Place p = {});
  Value* arg_reduce(Value* x, int axis, Combine min_or_max, Value* mask, Place p = {});
  Value* dot(Value* a, Value* b, Value* acc, std::string_view precision, Place p = {});

  // --- moving elements; a mask may be null
  Value* slice(Value* x, std::span<const std::int64_t> starts, std::span<const std::int64_t> extents, Place p = {});
  Value* cat(Value* a, Value* b, int axis, Place p = {});
  Value* flip(Value* x, int axis, Place p = {});
  Value* gather(Value* x, Value* index, int axis, Place p = {});
  Value* sort(Value* x, int axis, bool descending, Value* mask, Place p = {});
  Value* argsort(Value* x, int axis, bool descending, Value* mask, Place p = {});
  Value* histogram(Value* x, std::int64_t bins, Value* mask, Place p = {});

  // --- combining lanes: begin gives the op, whose region's arguments are a..., b...; end gives what they combine to
  Op* begin_scan(std::span<Value* const> values, int axis, bool reverse, Value* mask, Place p = {});
  Op* begin_fold(std::span<Value* const> values, int axis, Value* mask, Place p = {});
  void end_combine(std::span<Value* const> given, Place p = {});

  // --- mutable tiles, until passes/promote_vars
  Value* var(Value* init, Place p = {});
  Value* var_get(Value* var, Place p = {});
  void var_set(Value* var, Value* value, Place p = {});

  // --- control flow while recording: no carried values yet (Vars carry)
  Value* begin_for(Value* lo, Value* hi, Value* step, Place p = {});  // gives the index
  void end_for();
  void begin_if(Value* condition, Place p = {});
  void begin_else();
  void end_if();
  void begin_while(Place p = {});
  void while_condition(Value* flag, Place p = {});  // ends the condition region, begins the body
  void end_while();

  // A pure op like `op` on other operands; folds and reuses as the functions above do.
  Value* remake(const Op& op, std::span<Value* const> operands, Place p);

  // --- the general form, for passes and the parser: no folding, no reuse. Result types are inferred where they can be.
  Op* insert(OpId id, std::vector<Value*> operands, Attrs attrs, std::vector<Type> results, Place p);
  // Enters / leaves a region of an inserted op.
  Region* add_region(Op* op, std::vector<Type> args);
  void enter(Region* r);
  void leave();

 private:
  // A pure op with one result: an equal one that is visible here, or a new one.
  Value* pure(OpId id, std::vector<Value*> operands, Attrs attrs, std::span<const Type> asked, Place p);
  Value* pure_typed(OpId id, std::vector<Value*> operands, Attrs attrs, const Type& result, Place p);
  Value* find_equal(std::size_t hash, OpId id, std::span<Value* const> operands, const Attrs& attrs,
                    const Type& result) const;
  bool is_visible(const Region* r) const;
  Op* append(OpId id, std::vector<Value*> operands, Attrs attrs, std::span<const Type> results, Place p);
  Op* append_typed(OpId id, std::vector<Value*> operands, Attrs attrs, std::span<const Type> results, Place p);
  Value* fold(OpId id, std::span<Value* const> operands, const Type& result, Place p);
  Op* open_control(OpId expected) const;
  Op* begin_combine(OpId id, std::span<Value* const> values, Attrs attrs, Value* mask, Place p);

  Function& function_;
  Region* region_;
  std::vector<Region*> stack_;
  // By hash of (id, operands, attrs, type). Entries of left regions stay, and are passed over.
  std::unordered_multimap<std::size_t, Op*> reuse_;
};

}  // namespace tileweave::ir
