// Recorder: the state of one recording, and the scope that makes it this thread's.
// Behind record.h and the launch: kernel.h opens a scope, calls the user's lambda, and takes the function out.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tileweave/dsl/record.h"
#include "tileweave/jit/ir/builder.h"

namespace tileweave::record {

// What is known of validity masks beside their value: masks that hold wherever a mask holds. Lets the conjunction of a
// block's validity with that of its own row sums be the block's validity, without an op.
class MaskFacts {
 public:
  void implies(ir::Value* mask, ir::Value* weaker);
  bool does_imply(ir::Value* mask, ir::Value* weaker) const;

 private:
  std::unordered_map<ir::Value*, std::vector<ir::Value*>> weaker_;
};

class Recorder {
 public:
  Recorder(std::string name, const Place& place);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  ir::Function function;
  ir::Builder builder;
  MaskFacts facts;
  const std::uint32_t session;

  // Before every op: closes an if that got no else, reports a loop that was left early. Gives the place to use: p, or
  // the last known one.
  Place begin(const Place& p);
  // A tile of this recording, of a region that is still open. Throws RecordError.
  ir::Value* use(const Raw& raw, const Place& p);
  Raw wrap(ir::Value* value, ir::Value* mask = nullptr) const { return {value, mask, session}; }
  // The end of the user's lambda: gives up what is still open.
  void finish();

  Place last;            // of the last statement that has one
  Place broken;          // of a loop that was left early
  bool if_open = false;  // an if waits for its else

 private:
  void close_if();
};

// The recorder of this thread; throws RecordError where there is none (`what` was used outside of a kernel).
Recorder& current(const Place& p);

// Makes a recorder the thread's while it lives. Recordings do not nest: a RecordError says so.
class Scope {
 public:
  explicit Scope(Recorder& r);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

// --- validity (validity.cpp); null means all lanes valid, and masks have the shape of the value they belong to
ir::Value* both_valid(Recorder& r, ir::Value* a, ir::Value* b, const Place& p);
ir::Value* broadcast_mask(Recorder& r, ir::Value* mask, ExtentSpan extents, const Place& p);
// The validity that remains when `axis` is reduced away: that of the block's edges along the other axes. Masks of the
// user's making leave nothing: a row that is masked off has the reduction's identity as its value.
ir::Value* project_mask(Recorder& r, ir::Value* mask, int axis, const Place& p);

// --- shapes (record_values.cpp)
// NumPy broadcasting of any ranks: leading axes are added. Scalars too.
ir::Value* broadcast_value(Recorder& r, ir::Value* v, ExtentSpan extents, const Place& p);
std::string shape_text(ExtentSpan extents);

}  // namespace tileweave::record
