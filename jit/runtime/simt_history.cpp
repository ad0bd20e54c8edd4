// The race check on one byte. See simt_history.h; what is ordered is asked of the Order.
// An access races with another thread's where at least one writes and nothing orders them.
#include "tileweave/jit/runtime/simt_history.h"

#include <algorithm>

namespace tileweave::runtime::simt {

// The last write must be known to this thread, and to its proxy.
Conflict History::check_read(const ByteHistory& b, std::int64_t at, const Accessor& who) const {
  if (b.writer < 0 || (who.is_atomic && b.write_atomic)) return {};
  if (b.writer != who.agent && !order_->is_before(b.writer, b.write_clock, who.thread)) {
    return {Conflict::Kind::race, at, true, b.writer, b.write_site};
  }
  if (who.is_async_proxy && !b.by_proxy && order_->is_thread(b.writer) &&
      order_->proxy_fence(b.writer) < b.write_clock) {
    return {Conflict::Kind::proxy, at, true, b.writer, b.write_site};
  }
  return {};
}

Conflict History::check_readers(const ByteHistory& b, std::int64_t at, const Accessor& who) const {
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

Conflict History::check_write(const ByteHistory& b, std::int64_t at, const Accessor& who) const {
  Accessor generic = who;
  generic.is_async_proxy = false;  // overwriting needs order, not visibility
  const bool is_same_instruction = who.instruction != 0 && who.instruction == b.write_instruction;
  if (!is_same_instruction) {
    if (const Conflict c = check_read(b, at, generic)) return c;
  }
  return check_readers(b, at, who);
}

// Keeps every reader that a later write could race with: one that is known to this reader is covered by it.
void History::note_read(ByteHistory& b, const Accessor& who) {
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

void History::note_write(ByteHistory& b, const Accessor& who) {
  b.writer = who.agent;
  b.write_clock = order_->clock(who.agent);
  b.write_site = who.site;
  b.write_instruction = who.instruction;
  b.write_atomic = who.is_atomic;
  b.by_proxy = who.is_async_proxy;
  b.reader = -1;
  b.more_readers = -1;
}

}  // namespace tileweave::runtime::simt
