// Race, initialisation and visibility checks on shared memory, byte by byte.
// See simt_shared.h; what is ordered is asked of the Order.
#include "tileweave/jit/runtime/simt_shared.h"

#include <algorithm>

namespace tileweave::runtime::simt {

void SharedMemory::reset(std::int64_t bytes) {
  bytes_ = bytes;
  data_.assign(static_cast<std::size_t>(bytes), std::byte{0xa5});
  shadow_.assign(static_cast<std::size_t>(bytes), ByteHistory{});
  history_.clear();
}

Conflict SharedMemory::check_place(std::int64_t offset, std::int64_t bytes, std::int64_t alignment) const {
  if (offset < 0 || bytes > bytes_ || offset > bytes_ - bytes) {
    return {Conflict::Kind::outside, std::max<std::int64_t>(offset, std::min(offset + bytes - 1, bytes_)), false, 0, 0};
  }
  if (offset % alignment != 0) return {Conflict::Kind::misaligned, offset, false, 0, 0};
  return {};
}

Conflict SharedMemory::check_write(const ByteHistory& b, std::int64_t at, const Accessor& who) const {
  if (b.is_barrier) return {Conflict::Kind::barrier, at, true, b.writer, b.write_site};
  if (b.in_flight) return {Conflict::Kind::in_flight, at, true, b.writer, b.write_site};
  return history_.check_write(b, at, who);
}

Conflict SharedMemory::read(std::int64_t offset, std::int64_t bytes, const Accessor& who) {
  for (std::int64_t i = offset; i < offset + bytes; ++i) {
    const ByteHistory& b = shadow_[static_cast<std::size_t>(i)];
    if (b.is_barrier) return {Conflict::Kind::barrier, i, true, b.writer, b.write_site};
    if (b.in_flight) return {Conflict::Kind::in_flight, i, true, b.writer, b.write_site};
    if (b.writer < 0) return {Conflict::Kind::uninitialised, i, false, 0, 0};
    if (const Conflict c = history_.check_read(b, i, who)) return c;
  }
  for (std::int64_t i = offset; i < offset + bytes; ++i) history_.note_read(shadow_[static_cast<std::size_t>(i)], who);
  return {};
}

Conflict SharedMemory::write(std::int64_t offset, std::int64_t bytes, const Accessor& who) {
  for (std::int64_t i = offset; i < offset + bytes; ++i) {
    if (const Conflict c = check_write(shadow_[static_cast<std::size_t>(i)], i, who)) return c;
  }
  for (std::int64_t i = offset; i < offset + bytes; ++i) history_.note_write(shadow_[static_cast<std::size_t>(i)], who);
  return {};
}

Conflict SharedMemory::begin_flight(std::int64_t offset, std::int64_t bytes, const Accessor& who) {
  if (const Conflict c = write(offset, bytes, who)) return c;
  for (std::int64_t i = offset; i < offset + bytes; ++i) shadow_[static_cast<std::size_t>(i)].in_flight = true;
  return {};
}

void SharedMemory::land(std::int64_t offset, std::int64_t bytes, int agent) {
  for (std::int64_t i = offset; i < offset + bytes; ++i) {
    ByteHistory& b = shadow_[static_cast<std::size_t>(i)];
    b.in_flight = false;
    b.writer = agent;
    b.write_clock = order_->clock(agent);
  }
}

void SharedMemory::set_barrier(std::int64_t offset, std::int64_t bytes, bool is_barrier) {
  for (std::int64_t i = offset; i < offset + bytes; ++i) {
    ByteHistory& b = shadow_[static_cast<std::size_t>(i)];
    b = ByteHistory{};
    b.is_barrier = is_barrier;
  }
}

}  // namespace tileweave::runtime::simt
