// Records scans and generic reductions: the user's function is called once, on scalars, and becomes the op's region.
// Behind scan.h.
#include <string>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::record {
namespace {

using ir::Op;
using ir::Value;

std::string_view name_of(Lanes how) { return how == Lanes::scan || how == Lanes::reverse_scan ? "scan" : "reduce"; }

// The function may compute with its arguments and with scalars, and nothing else: it runs once for each pair of lanes.
void check_function(const Op& op, Lanes how) {
  for (const auto& inner : op.regions[0]->ops) {
    if (ir::is_combine_op(*inner)) continue;
    throw_record_error(inner->place.known() ? inner->place : op.place,
                       std::string(name_of(how)) + ": the combining function uses " +
                           std::string(ir::op_info(inner->id).name) + ", which is not arithmetic on scalars",
                       "compute it before the " + std::string(name_of(how)) + ", as a tile or a scalar",
                       {{op.place, "the " + std::string(name_of(how)) + " is here"}});
  }
}

}  // namespace

std::vector<Raw> begin_combine(std::span<const Raw> values, int axis, Lanes how, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  Recorder::Combining now;
  now.how = how;
  for (const Raw& x : values) {
    now.values.push_back(r.use(x, p));
    if (now.values.back()->type.shape() != now.values[0]->type.shape()) {
      throw_record_error(p,
                         std::string(name_of(how)) + ": extents differ: " + ir::to_string(now.values[0]->type) +
                             " and " + ir::to_string(now.values.back()->type),
                         "tiles that are combined together have the same extents");
    }
    now.mask = both_valid(r, now.mask, x.mask, p);
  }
  now.axis = checked_axis(now.values[0], axis, name_of(how), p);
  const bool scans = how == Lanes::scan || how == Lanes::reverse_scan;
  now.op = scans ? r.builder.begin_scan(now.values, now.axis, how == Lanes::reverse_scan, now.mask, p)
                 : r.builder.begin_fold(now.values, now.axis, now.mask, p);
  std::vector<Raw> args;
  for (Value* v : now.op->regions[0]->args) args.push_back(r.wrap(v));
  r.combining.push_back(std::move(now));
  return args;
}

std::vector<Raw> end_combine(std::span<const Raw> given, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  const Recorder::Combining now = r.combining.back();
  r.combining.pop_back();
  std::vector<Value*> values;
  for (const Raw& x : given) values.push_back(r.use(x, p));
  check_function(*now.op, now.how);
  r.builder.end_combine(values, p);
  std::vector<Raw> results;
  if (now.how == Lanes::scan || now.how == Lanes::reverse_scan) {
    for (Value* v : now.op->results) results.push_back(r.wrap(v, now.mask));
    return results;
  }
  Value* rest = project_mask(r, now.mask, now.axis, p);
  const bool keeps = now.how == Lanes::fold_keep_dims;
  if (keeps && rest != nullptr) rest = r.builder.expand_dims(rest, now.axis, p);
  for (Value* v : now.op->results) results.push_back(r.wrap(keeps ? r.builder.expand_dims(v, now.axis, p) : v, rest));
  return results;
}

}  // namespace tileweave::record
