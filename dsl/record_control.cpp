// Records mutable tiles, loops and branches. Vars carry values through them, until passes/promote_vars.
// Behind Var and control.h.
#include <string>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::record {
namespace {

using ir::OpId;
using ir::Value;

Value* index_value(Recorder& r, const Raw& x, const Place& p) {
  Value* v = r.use(x, p);
  return v->type.elem == Dtype::i64 ? v : r.builder.convert(v, Dtype::i64, p);
}

// A condition whose lane is invalid does not hold.
Value* flag_value(Recorder& r, const Raw& condition, const Place& p) {
  return both_valid(r, r.use(condition, p), condition.mask, p);
}

}  // namespace

Raw make_var(const Raw& init, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  return r.wrap(r.builder.var(r.use(init, p), p), init.mask);
}

Raw read_var(const Raw& var, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  return r.wrap(r.builder.var_get(r.use(var, p), p), var.mask);
}

void write_var(const Raw& var, const Raw& value, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Value* target = r.use(var, p);
  Value* v = r.use(value, p);
  const ir::Extents extents = target->type.shape();
  Value* mask = value.mask;
  if (v->type.shape() != extents) {
    ir::Extents grown = v->type.shape();
    grown.insert(grown.begin(), extents.size() - grown.size(), 1);
    const bool grows =
        v->type.rank == 0 ||
        ir::Builder::broadcast_shape(target->type, ir::Type::tile(v->type.elem, grown), "assignment", p) == extents;
    if (!grows) {
      throw_record_error(p,
                         "the extents of a tw::Var are fixed: it is " + ir::to_string(target->type) +
                             ", the value assigned is " + ir::to_string(v->type),
                         "reduce or reshape the value, or declare another tw::Var",
                         {{target->def != nullptr ? target->def->place : Place(), "the tw::Var was declared here"}});
    }
    v = broadcast_value(r, v, extents, p);
    mask = broadcast_mask(r, mask, extents, p);
  }
  // Lanes that are invalid in the variable for ever are never seen, so only others need to keep their value.
  if (mask != nullptr && !(var.mask != nullptr && r.facts.does_imply(var.mask, mask))) {
    v = r.builder.elementwise(OpId::where, {mask, v, r.builder.var_get(target, p)}, p);
  }
  r.builder.var_set(target, v, p);
}

Raw begin_for(const Raw& lo, const Raw& hi, const Raw& step, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  return r.wrap(r.builder.begin_for(index_value(r, lo, p), index_value(r, hi, p), index_value(r, step, p), p));
}

void end_for() {
  Recorder& r = current({});
  r.begin({});
  r.builder.end_for();
}

void left_early(const Place& loop) noexcept {
  if (is_active()) current({}).broken = loop;
}

void begin_if(const Raw& condition, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  r.builder.begin_if(flag_value(r, condition, p), p);
}

void end_branch() {
  Recorder& r = current({});
  r.begin({});
  r.if_open = true;
}

void begin_else(const Place& place) {
  Recorder& r = current(place);
  if (!r.if_open) {
    throw_record_error(place, "else_ does not follow its tw::if_ directly",
                       "write tw::if_(condition, [&] { ... }).else_([&] { ... });");
  }
  r.if_open = false;
  r.builder.begin_else();
}

void end_if() {
  Recorder& r = current({});
  r.begin({});
  r.builder.end_if();
}

void begin_while(const Place& place) {
  Recorder& r = current(place);
  r.builder.begin_while(r.begin(place));
}

void while_condition(const Raw& flag, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  r.builder.while_condition(flag_value(r, flag, p), p);
}

void end_while() {
  Recorder& r = current({});
  r.begin({});
  r.builder.end_while();
}

}  // namespace tileweave::record
