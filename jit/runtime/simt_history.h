// Who wrote and read a byte when, and whether a further access is ordered after them: the race check itself.
// Under simt_shared and simt_global, which keep one ByteHistory for each byte.
#pragma once

#include <cstdint>
#include <vector>

#include "tileweave/jit/runtime/simt_order.h"

namespace tileweave::runtime::simt {

// Who accesses: an agent of the Order (a thread or an asynchronous unit), seen with the knowledge of a thread.
struct Accessor {
  int agent = 0;
  int thread = 0;
  int site = 0;
  bool is_atomic = false;
  bool is_async_proxy = false;  // TMA, bulk copies and wgmma see writes only behind a proxy fence of the writer
  int instruction = 0;          // where not 0: two writes by one instruction do not race
};

// What is wrong with an access.
struct Conflict {
  enum class Kind : std::uint8_t {
    none,
    outside,
    misaligned,
    uninitialised,
    in_flight,    // an asynchronous copy has not landed (or is not known to have)
    barrier,      // the bytes are an mbarrier
    no_mbarrier,  // the bytes are none
    race,         // `other_wrote`: an unordered write, else an unordered read
    proxy,        // written, ordered, but without fence_proxy_async
    stale         // a read-only load of what this launch has written
  };
  Kind kind = Kind::none;
  std::int64_t byte = 0;  // the first offending one
  bool other_wrote = false;
  int other_agent = 0;
  int other_site = 0;
  explicit operator bool() const { return kind != Kind::none; }
};

struct ByteHistory {
  Clock write_clock = 0, read_clock = 0;
  std::int32_t writer = -1, reader = -1;  // agents; -1: nobody yet
  std::int32_t write_site = 0, read_site = 0;
  std::int32_t more_readers = -1;  // History's, where several readers are not ordered among themselves
  std::int32_t write_instruction = 0;
  bool in_flight = false, is_barrier = false, write_atomic = false, read_atomic = false, by_proxy = false;
};

class History {
 public:
  explicit History(Order& order) : order_(&order) {}
  void clear() { reader_sets_.clear(); }

  // `at` is what the conflict names. Neither notes anything.
  Conflict check_read(const ByteHistory& b, std::int64_t at, const Accessor& who) const;
  Conflict check_write(const ByteHistory& b, std::int64_t at, const Accessor& who) const;
  void note_read(ByteHistory& b, const Accessor& who);
  void note_write(ByteHistory& b, const Accessor& who);

 private:
  struct Reader {
    int agent;
    Clock when;
    int site;
    bool is_atomic;
  };
  Conflict check_readers(const ByteHistory& b, std::int64_t at, const Accessor& who) const;

  Order* order_;
  std::vector<std::vector<Reader>> reader_sets_;
};

}  // namespace tileweave::runtime::simt
