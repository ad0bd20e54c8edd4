// Recorder: the state of one recording, and the scope that makes it this thread's.
// Behind record.h and the launch: kernel.h opens a scope, calls the user's lambda, and takes the function out.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tileweave/dsl/debug_names.h"
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

// A function recorded for one set of argument types, extents and constants.
struct CalleeInstance {
  const void* identity = nullptr;
  std::string key;   // what tells it from the function's other instances
  std::string name;  // in the IR
  // The results' values come first; what their validities hang on, and no parameter is, follows.
  std::vector<ir::Type> types;
  std::vector<ir::Value*> masks;                      // one a result, values of the callee; null: all lanes valid
  std::unordered_map<ir::Value*, std::size_t> extra;  // of what the masks hang on: which result
};

// The functions of one recording, and those that are being recorded now, the innermost last.
struct CallTable {
  std::vector<CalleeInstance> instances;
  std::vector<Callee> active;
  std::vector<ir::Function>* functions = nullptr;  // of the kernel
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
  Raw wrap(ir::Value* value, ir::Value* mask = nullptr) {
    if (keeps_results) results.push_back({is_placed ? last : Place(), value, mask});
    return {value, mask, session};
  }
  // The end of the user's lambda: gives up what is still open.
  void finish();
  // Instead of recording: a whole function that was recorded before, under the options of this launch. Nothing can be
  // recorded after it.
  void adopt(const ir::Function& recorded);

  bool is_placed = false;  // the statement being recorded gave its place
  Place last;              // of the last statement that has one
  Place broken;            // of a loop that was left early
  bool if_open = false;    // an if waits for its else
  // For a debugger's names: what every operation gave.
  bool keeps_results = false;
  std::vector<RecordedResult> results;

  // What the kernel requires of its launches (requirements.h).
  struct Requirement {
    ir::Value* condition = nullptr;  // null: of an alignment
    ir::Value* view = nullptr;
    index_t bytes = 0;
    std::string text;
    Place place;
  };
  std::vector<Requirement> requirements;

  // The scan or fold whose function is being recorded: what end_combine needs to know.
  struct Combining {
    ir::Op* op = nullptr;
    int axis = 0;
    Lanes how = Lanes::scan;
    std::vector<ir::Value*> values;
    ir::Value* mask = nullptr;
  };
  std::vector<Combining> combining;

  // Functions that were called: the kernel's recorder has the list, those of its functions point to it.
  CallTable own_calls;
  CallTable* calls = &own_calls;
  bool is_function() const { return calls != &own_calls; }

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

// Makes the recorder of a function the thread's while it lives, in place of its caller's.
class CalleeScope {
 public:
  explicit CalleeScope(Recorder& r);
  ~CalleeScope();
  CalleeScope(const CalleeScope&) = delete;
  CalleeScope& operator=(const CalleeScope&) = delete;

 private:
  Recorder* caller_;
};

// --- validity (validity.cpp); null means all lanes valid, and masks have the shape of the value they belong to
ir::Value* both_valid(Recorder& r, ir::Value* a, ir::Value* b, const Place& p);
ir::Value* broadcast_mask(Recorder& r, ir::Value* mask, ExtentSpan extents, const Place& p);
// The validity that remains when `axis` is reduced away: that of the block's edges along the other axes. Masks of the
// user's making leave nothing: a row that is masked off has the reduction's identity as its value.
ir::Value* project_mask(Recorder& r, ir::Value* mask, int axis, const Place& p);

// The value with 0 in its invalid lanes.
ir::Value* zero_invalid(Recorder& r, const Raw& x, ir::Value* v, const Place& p);
// The axis asked for, negative ones counted from the end; a RecordError that names `what` where there is none.
int checked_axis(const ir::Value* v, int axis, std::string_view what, const Place& p);

// --- shapes (record_values.cpp)
// NumPy broadcasting of any ranks: leading axes are added. Scalars too.
ir::Value* broadcast_value(Recorder& r, ir::Value* v, ExtentSpan extents, const Place& p);
std::string shape_text(ExtentSpan extents);

}  // namespace tileweave::record
