// Records calls of the user's device functions. Behind external.h.
// The function's text is an attribute of the op, so it is in the key; its name is made from it, so that two functions
// of one name and different text are two.
#include <algorithm>
#include <string>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/host_function.h"

namespace tileweave::record {
namespace {

using ir::AttrKey;
using ir::OpId;
using ir::Value;

std::uint64_t hash_of(std::string_view text, std::uint64_t h) {
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return (h ^ 0xff) * 0x100000001b3u;
}

}  // namespace

std::string external_name(std::string_view name, std::string_view text, std::string_view constraints,
                          const Dtype* types, std::size_t count) {
  std::uint64_t h = hash_of(constraints, hash_of(text, hash_of(name, 0xcbf29ce484222325u)));
  for (std::size_t i = 0; i < count; ++i) h = hash_of(dtype_name(types[i]), h);
  static constexpr char digits[] = "0123456789abcdef";
  std::string s(host_function_prefix);
  for (const char c : name) s += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  s += '_';
  for (int shift = 60; shift >= 0; shift -= 4) s += digits[h >> shift & 15];
  return s;
}

Raw external(const std::string& name, const std::string& text, const std::string& constraints,
             std::span<const Raw> operands, Dtype result, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  std::vector<Value*> values;
  int rank = 0;
  for (const Raw& x : operands) {
    values.push_back(r.use(x, p));
    rank = std::max<int>(rank, values.back()->type.rank);
  }
  ir::Extents shape;
  for (const Value* v : values) {
    if (v->type.rank == 0) continue;
    ir::Extents e = v->type.shape();
    e.insert(e.begin(), static_cast<std::size_t>(rank - v->type.rank), 1);
    shape = shape.empty() ? e
                          : ir::Builder::broadcast_shape(ir::Type::tile(v->type.elem, shape),
                                                         ir::Type::tile(v->type.elem, e), "device function", p);
  }
  Value* mask = nullptr;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = broadcast_value(r, values[i], shape, p);
    mask = both_valid(r, mask, broadcast_mask(r, operands[i].mask, shape, p), p);
  }
  ir::Attrs attrs{{AttrKey::name, name}, {AttrKey::text, text}};
  if (!constraints.empty()) attrs.set(AttrKey::constraints, constraints);
  return r.wrap(
      r.builder.insert(OpId::external, std::move(values), std::move(attrs), {ir::Type::tile(result, shape)}, p)
          ->result(),
      mask);
}

}  // namespace tileweave::record
