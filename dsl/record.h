// What the language's templates call to record: untyped operations on (value, validity) pairs.
// Between the typed headers above (tile, expr, memory, ...) and ir::Builder below; the state is in recorder.h.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tileweave/dsl/element.h"
#include "tileweave/jit/ir/ops.h"

namespace tileweave::ir {
struct Value;
}

namespace tileweave::record {

// A recorded tile: its value, and which lanes are valid (null: all; else a bool tile of the value's shape). `session`
// tells the recording it belongs to, so that a tile kept beyond its kernel is refused and never followed.
struct Raw {
  ir::Value* value = nullptr;
  ir::Value* mask = nullptr;
  std::uint32_t session = 0;
};

// A number of the user's C++ program, exact.
struct Literal {
  enum class Kind : std::uint8_t { signed_int, unsigned_int, floating, boolean };
  Kind kind = Kind::signed_int;
  std::int64_t integer = 0;  // the bits of an unsigned one
  double real = 0;
};

template <class V>
constexpr Literal literal(V v) {
  if constexpr (std::same_as<V, bool>) {
    return {Literal::Kind::boolean, v, 0};
  } else if constexpr (std::signed_integral<V>) {
    return {Literal::Kind::signed_int, v, 0};
  } else if constexpr (std::unsigned_integral<V>) {
    return {Literal::Kind::unsigned_int, static_cast<std::int64_t>(v), 0};
  } else {
    return {Literal::Kind::floating, 0, static_cast<double>(v)};
  }
}

// Whether an integer literal is a value of the type; others always fit.
bool fits(const Literal& v, Dtype type);
std::string to_string(const Literal& v);

using ExtentSpan = std::span<const index_t>;

// Whether this thread records a kernel now.
bool is_active();

// --- values
Raw constant(const Literal& v, Dtype type, const Place& p);
// Broadcasts the operands to one shape; valid where all are (`where`: as the branch taken).
Raw elementwise(ir::OpId op, std::span<const Raw> operands, const Place& p);
Raw convert(const Raw& x, Dtype to, bool saturate, const Place& p);
Raw bitcast(const Raw& x, Dtype to, const Place& p);
// The scalar in every lane of `like`, with its validity.
Raw fill_like(const Raw& like, const Raw& scalar, const Place& p);
Raw full(const Raw& scalar, ExtentSpan extents, const Place& p);
Raw iota(index_t n, Dtype type, index_t start, const Place& p);
// The validity as a bool tile of its own.
Raw valid(const Raw& x, const Place& p);
std::vector<index_t> shape(const Raw& x, const Place& p);

// --- shape
Raw expand(const Raw& x, int axis, const Place& p);
Raw reshape(const Raw& x, ExtentSpan extents, const Place& p);
Raw transpose(const Raw& x, std::span<const int> perm, const Place& p);
Raw broadcast(const Raw& x, ExtentSpan extents, const Place& p);

// --- grid and views; offsets are integer scalars
Raw program_id(int axis, const Place& p);
Raw num_programs(int axis, const Place& p);
Raw view_extent(const Raw& view, int axis, const Place& p);
Raw view_stride(const Raw& view, int axis, const Place& p);

// --- memory
struct LoadRequest {
  bool has_pad = false;
  Literal pad;
  Raw mask;               // value null: none
  std::string_view hint;  // of the caches; empty: none
};
Raw load(const Raw& view, std::span<const Raw> offsets, ExtentSpan extents, const LoadRequest& request, const Place& p);
void store(const Raw& view, std::span<const Raw> offsets, const Raw& value, const Raw& mask, const Place& p,
           std::string_view hint = {});
Raw pointer(const Raw& view, const Place& p);
Raw advance(const Raw& pointers, const Raw& offsets, const Place& p);
Raw load_pointers(const Raw& pointers, const LoadRequest& request, const Place& p);
void store_pointers(const Raw& pointers, const Raw& value, const Raw& mask, const Place& p, std::string_view hint = {});

// --- atomics; `order` and `scope` as in the op table
struct AtomicRequest {
  Raw mask;  // value null: none
  std::string_view order, scope;
};
// Pointers to the block of a view that has the extents of `like`; valid inside the view.
Raw block_pointers(const Raw& view, std::span<const Raw> offsets, const Raw& like, const Place& p);
Raw atomic_rmw(const Raw& pointers, const Raw& value, std::string_view combine, const AtomicRequest& request,
               const Place& p);
Raw atomic_cas(const Raw& pointers, const Raw& expected, const Raw& value, const AtomicRequest& request,
               const Place& p);

// --- the user's device functions
// The symbol of a function's host twin, made from everything that tells it from others.
std::string external_name(std::string_view name, std::string_view text, std::string_view constraints,
                          const Dtype* types, std::size_t count);
Raw external(const std::string& name, const std::string& text, const std::string& constraints,
             std::span<const Raw> operands, Dtype result, const Place& p);

// --- reductions
enum class Reduction : std::uint8_t { sum, prod, min, max, fmin, fmax, any, all, bit_and, bit_or, bit_xor };
Raw reduce(const Raw& x, int axis, Reduction how, bool keep_dims, const Place& p);
Raw arg_reduce(const Raw& x, int axis, bool largest, bool keep_dims, const Place& p);
// acc.value null: a sum from zero in `result`, its rows and columns valid as those of a and b.
Raw dot(const Raw& a, const Raw& b, const Raw& acc, Dtype result, std::string_view precision, const Place& p);

// --- moving elements
Raw slice(const Raw& x, ExtentSpan starts, ExtentSpan extents, const Place& p);
Raw cat(const Raw& a, const Raw& b, int axis, const Place& p);
Raw flip(const Raw& x, int axis, const Place& p);
// Valid where the index is; an invalid lane of x is 0.
Raw gather(const Raw& x, const Raw& index, int axis, const Place& p);
// Valid lanes come first, so many as there are in each line.
Raw sort(const Raw& x, int axis, bool descending, bool indices, const Place& p);
// Where the k largest are, largest first.
Raw topk_indices(const Raw& x, index_t k, int axis, const Place& p);
Raw histogram(const Raw& x, index_t bins, const Place& p);
Raw squeeze(const Raw& x, int axis, const Place& p);
// The last axis' two lanes, without it; and the two put together again as neighbours along the last axis.
std::pair<Raw, Raw> split(const Raw& x, const Place& p);
Raw interleave(const Raw& a, const Raw& b, const Place& p);

// --- combining lanes with a function of the user's: begin gives its arguments a..., b...; end takes what it gave
enum class Lanes : std::uint8_t { scan, reverse_scan, fold, fold_keep_dims };
std::vector<Raw> begin_combine(std::span<const Raw> values, int axis, Lanes how, const Place& p);
std::vector<Raw> end_combine(std::span<const Raw> given, const Place& p);

// --- contracts at launch
// The condition is checked at every launch, before the kernel runs; it hangs on the launch's arguments alone.
void require(const Raw& condition, const std::string& text, const Place& p);
// The view's first element lies at a multiple of so many bytes.
void require_aligned(const Raw& view, index_t bytes, const Place& p);
// A condition that is known already.
void require_known(bool condition, const std::string& text, const Place& p);

// --- mutable tiles
Raw make_var(const Raw& init, const Place& p);  // value: the variable, mask: its validity for ever
Raw read_var(const Raw& var, const Place& p);
void write_var(const Raw& var, const Raw& value, const Place& p);

// --- control flow
Raw begin_for(const Raw& lo, const Raw& hi, const Raw& step, const Place& p);
void end_for();
void left_early(const Place& loop) noexcept;  // the body of a range was left by break or return
void begin_if(const Raw& condition, const Place& p);
void end_branch();  // the if may still get its else
void begin_else(const Place& p);
void end_if();
void begin_while(const Place& p);
void while_condition(const Raw& flag, const Place& p);
void end_while();

// --- functions (record_call.cpp)
// A function as its tw::function object names it: `identity` is one address for each lambda.
struct Callee {
  const void* identity;
  std::string_view name;
  Place place;
};
// What records a callee's body: its parameters in the order of the arguments, and its results back.
class CalleeBody {
 public:
  template <class F>
  explicit CalleeBody(const F& f)
      : object_(&f),
        call_([](const void* o, std::span<const Raw> parameters) { return (*static_cast<const F*>(o))(parameters); }) {}
  std::vector<Raw> operator()(std::span<const Raw> parameters) const { return call_(object_, parameters); }

 private:
  const void* object_;
  std::vector<Raw> (*call_)(const void*, std::span<const Raw>);
};
// Calls the function; records it first where it is new for these types, extents and constants.
std::vector<Raw> call(const Callee& callee, std::span<const Raw> arguments, std::span<const std::uint64_t> constants,
                      const CalleeBody& body, const Place& p);

// --- debugging
void device_print(std::string_view label, const Raw& value, const Place& p);
void device_assert(const Raw& condition, std::string_view message, const Place& p);
[[noreturn]] void static_check_failed(std::string_view message, const Place& p);
void static_print(std::string_view text, const Place& p);
void static_print_type(std::string_view label, const Raw& value, const Place& p);

// --- the host value of an op, for fusion groups on host scalars: storage bits in and out
using HostLane = std::uint64_t (*)(std::uint64_t, std::uint64_t, std::uint64_t);
HostLane host_lane(ir::OpId op, Dtype type);
std::uint64_t host_convert(std::uint64_t bits, Dtype from, Dtype to, bool saturate);

}  // namespace tileweave::record
