// See simt_global.h.
// Between the primitives' bounds check and the access itself.
#include "tileweave/jit/runtime/simt_global.h"

namespace tileweave::runtime::simt {

Conflict GlobalMemory::read(std::uint64_t address, std::int64_t bytes, const Accessor& who, bool read_only) {
  Line& line = line_of(address);
  for (std::int64_t i = 0; i < bytes; ++i) {
    const std::uint64_t at = address + static_cast<std::uint64_t>(i);
    ByteHistory& b = line[at % line_bytes];
    if (read_only && b.writer >= 0) {
      return {Conflict::Kind::stale, static_cast<std::int64_t>(at), true, b.writer, b.write_site};
    }
    if (const Conflict c = history_.check_read(b, static_cast<std::int64_t>(at), who)) return c;
    history_.note_read(b, who);
  }
  return {};
}

Conflict GlobalMemory::write(std::uint64_t address, std::int64_t bytes, const Accessor& who) {
  Line& line = line_of(address);
  for (std::int64_t i = 0; i < bytes; ++i) {
    const std::uint64_t at = address + static_cast<std::uint64_t>(i);
    ByteHistory& b = line[at % line_bytes];
    if (const Conflict c = history_.check_write(b, static_cast<std::int64_t>(at), who)) return c;
    history_.note_write(b, who);
  }
  return {};
}

}  // namespace tileweave::runtime::simt
