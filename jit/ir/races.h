// Finds programs of one launch that race for an element: what they leave there hangs on which of them runs first.
// Told of every access by the interpreter in checked mode; it runs programs one after another, and this says where
// another order would have given another result.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tileweave/jit/ir/function.h"

namespace tileweave::ir {

struct Race {
  enum class Kind : std::uint8_t { two_values, read_and_write, two_lanes };
  Kind kind;
  const Op* first;  // the earlier access, by program `other`
  std::int64_t other;
};

// A race is reported where it could be seen: writing the value that is there already, or the same value twice, is none.
// Programs are ordered by atomics: what one did before a release of a place comes before what another does after an
// acquire of it. Accesses to one place are compared where they begin at the same address. Volatile accesses are exempt.
class RaceDetector {
 public:
  void begin_program(std::int64_t program);
  // A store op is run once more: its lanes are compared with each other.
  void begin_store() { ++store_; }

  std::optional<Race> load(const Op& op, std::uint64_t address);
  std::optional<Race> store(const Op& op, std::uint64_t address, std::uint64_t old, std::uint64_t bits);
  std::optional<Race> atomic(const Op& op, std::uint64_t address, std::uint64_t old, std::uint64_t bits);

 private:
  struct Access {
    const Op* op = nullptr;  // null: none
    std::int64_t program = 0;
    std::uint64_t time = 0;
  };
  struct Cell {
    std::uint64_t initial = 0, now = 0;
    std::uint64_t store = 0;  // which run of a store op wrote it last
    Access writer, atomic;
    std::array<Access, 2> readers;  // of different programs: one of them is another than any writer
  };
  // Up to when what a program did is known to have been done.
  using Clock = std::unordered_map<std::int64_t, std::uint64_t>;

  Access here(const Op& op) const { return {&op, program_, time_}; }
  bool is_unordered(const Access& a) const;
  const Access* unordered_writer(const Cell& cell) const;
  const Access* unordered_reader(const Cell& cell) const;
  Cell& written(std::uint64_t address, std::uint64_t old);

  std::int64_t program_ = 0;
  std::uint64_t time_ = 0, store_ = 0;
  Clock seen_;  // by this program, through acquires
  std::unordered_map<std::uint64_t, Cell> cells_;
  std::unordered_map<std::uint64_t, Clock> released_;  // by address
};

// "program 2's store at a.cpp:7 and program 0's load at a.cpp:5 ..."
std::string describe(const Race& race, const Op& second, std::int64_t program);

}  // namespace tileweave::ir
