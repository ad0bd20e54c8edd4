// Race, initialisation and visibility checks on shared memory, byte by byte.
// See simt_shared.h; what is ordered is asked of the Order.
#include "tileweave/jit/runtime/simt_shared.h"

#include <algorithm>

namespace tileweave::runtime::simt {

void SharedMemory::reset(std::int64_t bytes) {
  bytes_ = bytes;
  data_.assign(static_cast<std::size_t>(bytes), std::byte{0xa5});
  shadow_.assign(static_cast<std::size_t>(bytes), Byte{});
  reader_sets_.clear();
}

Conflict SharedMemory::check_place(std::int64_t offset, std::int64_t bytes, std::int64_t alignment) const {
  if (offset < 0 || bytes > bytes_ || offset > bytes_ - bytes) {
    return {Conflict::Kind::outside, std::max<std::int64_t>(offset, std::min(offset + bytes - 1, bytes_)), false, 0, 0};
  }
  if (offset % alignment != 0) return {Conflict::Kind::misaligned, offset, false, 0, 0};
  return {};
}

// The last write must be known to this thread, and to its proxy.
Conflict SharedMemory::check_writer(const Byte& b, std::int64_t at, const Accessor& who) const {
  if (b.writer < 0 || (who.is_atomic && b.write_atomic)) return {};
  if (b.writer != who.agent && !order_->is_before(b.writer, b.write_clock, who.thread)) {
    return {Conflict::Kind::race, at, true, b.writer, b.write_site};
  }
  if (who.is_async_proxy && !b.by_proxy && order_->is_thread(b.writer)) {
    if (order_->proxy_fence(b.writer) < b.write_clock) return {Conflict::Kind::proxy, at, true, b.writer, b.write_site};
  }
  return {};
}

Conflict SharedMemory::check_readers(const Byte& b, std::int64_t at, const Accessor& who) const {
  const auto is_unordered = [&](const Reader& r) {
    return r.agent >= 0 && r.agent != who.agent && !(who.is_atomic && r.is_atomic) &&
           !order_->is_before(r.agent, r.when, who.thread);
  };
  const Reader last{b.reader, b.read_clock, b.read_site, b.read_atomic};
  if (is_unordered(last)) return {Conflict::Kind::race, at, false, last.agent, last.site};
  if (b.more_readers >= 0) {
    for (const Reader& r : reader_sets_[static_cast<std::size_t>(b.more_readers)]) {
      if (is_unordered(r)) return {Conflict::Kind::race, at, false, r.agent, r.site};
    }
  }
  return {};
}

Conflict SharedMemory::check_write(const Byte& b, std::int64_t at, const Accessor& who) const {
  if (b.is_barrier) return {Conflict::Kind::barrier, at, true, b.writer, b.write_site};
  if (b.in_flight) return {Conflict::Kind::in_flight, at, true, b.writer, b.write_site};
  Accessor generic = who;
  generic.is_async_proxy = false;  // overwriting needs order, not visibility
  if (const Conflict c = check_writer(b, at, generic)) return c;
  return check_readers(b, at, who);
}

// Keeps every reader that a later write could race with: one that is known to this reader is covered by it.
void SharedMemory::note_read(Byte& b, const Accessor& who) {
  const bool covers = b.reader < 0 || b.reader == who.agent || order_->is_before(b.reader, b.read_clock, who.thread);
  if (!covers) {
    if (b.more_readers < 0) {
      b.more_readers = static_cast<std::int32_t>(reader_sets_.size());
      reader_sets_.emplace_back();
    }
    auto& set = reader_sets_[static_cast<std::size_t>(b.more_readers)];
    std::erase_if(
        set, [&](const Reader& r) { return r.agent == who.agent || order_->is_before(r.agent, r.when, who.thread); });
    set.push_back({b.reader, b.read_clock, b.read_site, b.read_atomic});
  }
  b.read_atomic = who.is_atomic && (b.reader != who.agent || b.read_atomic);  // a plain read of its own still counts
  b.reader = who.agent;
  b.read_clock = order_->clock(who.agent);
  b.read_site = who.site;
}

void SharedMemory::note_write(Byte& b, const Accessor& who) {
  b.writer = who.agent;
  b.write_clock = order_->clock(who.agent);
  b.write_site = who.site;
  b.write_atomic = who.is_atomic;
  b.by_proxy = who.is_async_proxy;
  b.reader = -1;
  b.more_readers = -1;
}

Conflict SharedMemory::read(std::int64_t offset, std::int64_t bytes, const Accessor& who) {
  for (std::int64_t i = offset; i < offset + bytes; ++i) {
    const Byte& b = shadow_[static_cast<std::size_t>(i)];
    if (b.is_barrier) return {Conflict::Kind::barrier, i, true, b.writer, b.write_site};
    if (b.in_flight) return {Conflict::Kind::in_flight, i, true, b.writer, b.write_site};
    if (b.writer < 0) return {Conflict::Kind::uninitialised, i, false, 0, 0};
    if (const Conflict c = check_writer(b, i, who)) return c;
  }
  for (std::int64_t i = offset; i < offset + bytes; ++i) note_read(shadow_[static_cast<std::size_t>(i)], who);
  return {};
}

Conflict SharedMemory::write(std::int64_t offset, std::int64_t bytes, const Accessor& who) {
  for (std::int64_t i = offset; i < offset + bytes; ++i) {
    if (const Conflict c = check_write(shadow_[static_cast<std::size_t>(i)], i, who)) return c;
  }
  for (std::int64_t i = offset; i < offset + bytes; ++i) note_write(shadow_[static_cast<std::size_t>(i)], who);
  return {};
}

Conflict SharedMemory::begin_flight(std::int64_t offset, std::int64_t bytes, const Accessor& who) {
  if (const Conflict c = write(offset, bytes, who)) return c;
  for (std::int64_t i = offset; i < offset + bytes; ++i) shadow_[static_cast<std::size_t>(i)].in_flight = true;
  return {};
}

void SharedMemory::land(std::int64_t offset, std::int64_t bytes, int agent) {
  for (std::int64_t i = offset; i < offset + bytes; ++i) {
    Byte& b = shadow_[static_cast<std::size_t>(i)];
    b.in_flight = false;
    b.writer = agent;
    b.write_clock = order_->clock(agent);
  }
}

void SharedMemory::set_barrier(std::int64_t offset, std::int64_t bytes, bool is_barrier) {
  for (std::int64_t i = offset; i < offset + bytes; ++i) {
    Byte& b = shadow_[static_cast<std::size_t>(i)];
    b = Byte{};
    b.is_barrier = is_barrier;
  }
}

}  // namespace tileweave::runtime::simt
