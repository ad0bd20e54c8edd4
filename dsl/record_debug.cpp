// Records device_print and device_assert; static_check and static_print act at once.
// Behind debug.h. Labels and places are attributes, so they are part of the key: a cached kernel prints its own lines.
#include <cstdio>
#include <string>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::record {
namespace {

using ir::AttrKey;
using ir::OpId;
using ir::Value;

// 0 (or false) in lanes that are not valid.
Value* valid_or_zero(Recorder& r, const Raw& x, const Place& p) {
  Value* v = r.use(x, p);
  if (x.mask == nullptr) return v;
  return r.builder.elementwise(OpId::where, {x.mask, v, r.builder.constant_bits(v->type, 0, p)}, p);
}

void insert(Recorder& r, OpId id, Value* v, std::string_view text, const Place& p) {
  ir::Attrs attrs;
  attrs.set(AttrKey::text, std::string(text));
  attrs.set(AttrKey::place, to_string(p));
  r.builder.insert(id, {v}, std::move(attrs), {}, p);
}

void print_line(const Recorder& r, const std::string& text, const Place& p) {
  std::fprintf(stderr, "%s: %s: %s\n", to_string(p).c_str(), r.function.name.c_str(), text.c_str());
}

}  // namespace

void device_print(std::string_view label, const Raw& value, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  insert(r, OpId::print, valid_or_zero(r, value, p), label, p);
}

void device_assert(const Raw& condition, std::string_view message, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* v = r.use(condition, p);
  if (condition.mask != nullptr) {
    v = r.builder.elementwise(OpId::bit_or, {v, r.builder.elementwise(OpId::bit_not, {condition.mask}, p)}, p);
  }
  while (v->type.rank > 0) v = r.builder.reduce(v, v->type.rank - 1, ir::Combine::bit_and, nullptr, p);
  insert(r, OpId::assert_, v, message, p);
}

void static_check_failed(std::string_view message, const Place& place) {
  Recorder& r = current(place);
  throw_record_error(r.begin(place), "static_check: " + std::string(message));
}

void static_print(std::string_view text, const Place& place) {
  Recorder& r = current(place);
  print_line(r, std::string(text), r.begin(place));
}

void static_print_type(std::string_view label, const Raw& value, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  print_line(r, std::string(label) + " is " + ir::to_string(r.use(value, p)->type), p);
}

}  // namespace tileweave::record
