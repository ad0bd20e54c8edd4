// Global memory as one cluster has used it: races between its threads, and read-only loads of what it has written.
// Under simt_call; other clusters are not seen, since programs are independent of each other.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "tileweave/jit/runtime/simt_history.h"

namespace tileweave::runtime::simt {

class GlobalMemory {
 public:
  explicit GlobalMemory(Order& order) : history_(order) {}

  // `Conflict::byte` is the first offending address. `read_only`: the load claims that nobody writes there.
  Conflict read(std::uint64_t address, std::int64_t bytes, const Accessor& who, bool read_only);
  Conflict write(std::uint64_t address, std::int64_t bytes, const Accessor& who);

 private:
  static constexpr std::uint64_t line_bytes = 16;
  using Line = std::array<ByteHistory, line_bytes>;
  // Accesses are aligned and at most a line long, so each lies in one line.
  Line& line_of(std::uint64_t address) { return lines_[address / line_bytes]; }

  History history_;
  std::unordered_map<std::uint64_t, Line> lines_;
};

}  // namespace tileweave::runtime::simt
