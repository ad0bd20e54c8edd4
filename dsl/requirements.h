// The requirements of a recorded kernel as straight-line code over a launch's slots: what tw::requires_ costs at each
// launch is a handful of calls. Made once for each set of constants, checked by Frame::run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::launch {

class Requirements {
 public:
  Requirements() = default;
  // Throws RecordError where a condition hangs on more than the launch's arguments.
  Requirements(const ir::Function& f, const std::vector<record::Recorder::Requirement>& recorded);

  bool empty() const { return clauses_.empty(); }
  std::size_t size() const { return clauses_.size(); }
  // Throws LaunchError at `place` where a clause does not hold. `numbers` are the parameter numbers of the views.
  void check(const std::uint64_t* slots, const std::string& kernel, const int* numbers, const Place& place) const {
    if (clauses_.empty()) return;
    check_all(slots, kernel, numbers, place);
  }

 private:
  static constexpr std::size_t max_steps = 256;
  enum class Kind : std::uint8_t { slot, constant, call, convert };
  // One step: its result is the register of its own number.
  struct Step {
    Kind kind = Kind::constant;
    Dtype from = Dtype::i64, to = Dtype::i64;  // of a conversion; `to` of a slot
    std::uint16_t a = 0, b = 0, c = 0;         // registers
    std::uint32_t slot = 0;
    std::uint64_t bits = 0;
    ir::host::LaneFunction function = nullptr;
  };
  // What a condition reads, for messages: "argument 2, extent 1".
  struct Reading {
    std::uint32_t slot;
    int view = -1;  // which view; -1: a scalar
    char what = 'e';
    int axis = 0;
  };
  struct Clause {
    std::uint16_t flag = 0;  // the register of its condition
    std::string text;
    Place place;
    std::vector<Reading> readings;
  };
  class Maker;

  void check_all(const std::uint64_t* slots, const std::string& kernel, const int* numbers, const Place& place) const;
  [[noreturn]] static void fail(const Clause& clause, const std::uint64_t* slots, const std::string& kernel,
                                const int* numbers, const Place& place);

  std::vector<Step> steps_;
  std::vector<Clause> clauses_;
};

}  // namespace tileweave::launch
