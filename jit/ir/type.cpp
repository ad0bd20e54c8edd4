// Types of tile IR values: making, counting and printing them.
// Under every later stage; the parser reads back what to_string writes.
#include "tileweave/jit/ir/type.h"

#include <algorithm>

#include "tileweave/jit/base/error.h"

namespace tileweave::ir {
namespace {

void set_extents(Type& t, std::span<const std::int64_t> e) {
  if (e.size() > max_rank) {
    throw_record_error(
        {},
        "a tile of rank " + std::to_string(e.size()) + " is over the limit of " + std::to_string(max_rank) + " axes",
        "reshape it to fewer axes");
  }
  t.rank = static_cast<std::int8_t>(e.size());
  t.extents = {};
  std::copy(e.begin(), e.end(), t.extents.begin());
}

std::string extents_text(const Type& t) {
  std::string out;
  for (int i = 0; i < t.rank; ++i) {
    out += i == 0 ? "[" : ",";
    out += std::to_string(t.extents[static_cast<std::size_t>(i)]);
  }
  return t.rank == 0 ? out : out + "]";
}

}  // namespace

Type Type::tile(Dtype t, std::span<const std::int64_t> e) {
  Type r = scalar(t);
  set_extents(r, e);
  return r;
}

Type Type::pointer(Dtype t, bool is_const, std::span<const std::int64_t> e) {
  Type r = tile(t, e);
  r.kind = Kind::pointer;
  r.is_const = is_const;
  return r;
}

Type Type::view(Dtype t, int rank, bool is_const) {
  if (rank < 0 || rank > max_rank) {
    throw_record_error(
        {}, "a view of rank " + std::to_string(rank) + " is outside 0 to " + std::to_string(max_rank) + " axes");
  }
  return Type{Kind::view, t, is_const, static_cast<std::int8_t>(rank), {}};
}

std::int64_t Type::elements() const {
  std::int64_t n = 1;
  for (int i = 0; i < rank; ++i) {
    // Saturates, so that a limit check on the result is right for any extents.
    if (__builtin_mul_overflow(n, extents[static_cast<std::size_t>(i)], &n)) return INT64_MAX;
  }
  return n;
}

Type Type::with_elem(Dtype t) const {
  Type r = *this;
  r.elem = t;
  return r;
}

Type Type::with_shape(std::span<const std::int64_t> e) const {
  Type r = *this;
  set_extents(r, e);
  return r;
}

std::string to_string(const Type& t) {
  const std::string elem = (t.is_const ? "const " : "") + std::string(dtype_name(t.elem));
  if (t.is_view()) return "view<" + elem + ", " + std::to_string(t.rank) + ">";
  if (t.is_pointer()) return "ptr<" + elem + ">" + extents_text(t);
  return elem + extents_text(t);
}

}  // namespace tileweave::ir
