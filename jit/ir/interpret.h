// The interpreter: the definition of what tile IR means. Slow and obvious, one element at a time, no 32-bit index.
// Runs recorded, promoted and expanded functions on launch slots; every backend is compared with it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/ir/races.h"
#include "tileweave/jit/ir/short_forms.h"

namespace tileweave::ir {

using Grid = std::array<std::int64_t, 3>;

struct InterpretOptions {
  // Count accesses that a view's extents clipped, refuse pointers that lie in no view, and find races (races.h).
  bool checked = false;
  // Carry along how far another order of summation may move each value (interpret_error.cpp).
  bool bounds = false;
  // With `bounds`: and how far the short forms of GPUs may (short_forms.h).
  bool short_forms = false;
};

// Lanes of one op that lay outside their view, over all programs.
struct ClippedAccess {
  const Op* op = nullptr;
  std::int64_t lanes = 0;
};

class Interpreter {
 public:
  explicit Interpreter(const Function& f, InterpretOptions options = {}) : function_(f), options_(options) {
    if (options.bounds && options.short_forms) rounded_.emplace(f);
    if (options.checked) races_.emplace();
  }

  // All programs of the grid, one after another, x fastest. Slots as in jit/runtime/abi.h: a view of rank R is
  // 1 + 2R slots (base, extents, strides in elements), a scalar one, its bytes in the low end.
  void run(std::span<const std::uint64_t> slots, const Grid& grid);
  void run_program(std::span<const std::uint64_t> slots, const Grid& grid, const Grid& program);

  const std::vector<ClippedAccess>& clipped() const { return clipped_; }
  // A device_assert that failed, or in checked mode an access outside its view: the programs go on, and run throws the
  // first one as a LaunchError when all are done. `place` is "file:line".
  void note_failure(const std::string& message, std::string_view place, const std::string& help = {});

  // With `bounds`: how far a backend's value at this address may lie from ours. 0 is bit for bit, infinite is anything.
  double bound_at(const void* address) const;
  // Whether a branch, a trip count or an address hung on a value that is not exact: then nothing is promised.
  bool is_undetermined() const { return undetermined_; }

 private:
  friend struct Frame;
  const Function& function_;
  InterpretOptions options_;
  std::optional<RoundedValues> rounded_;
  std::optional<RaceDetector> races_;
  std::vector<ClippedAccess> clipped_;
  std::unordered_map<std::uint64_t, double> memory_error_;  // by address; exact where absent
  bool undetermined_ = false;
  struct Failure {
    std::string message, help;
    Place place;
  };
  std::optional<Failure> failure_;
};

// How many slots the function's parameters take.
std::size_t slot_count(const Function& f);

}  // namespace tileweave::ir
