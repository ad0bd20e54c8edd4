// The shared memory of one emulated block: its bytes, and for each byte who wrote and read it when.
// Under simt_cluster; every access of a primitive is checked here before it is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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
    proxy         // written, ordered, but without fence_proxy_async
  };
  Kind kind = Kind::none;
  std::int64_t byte = 0;  // the first offending one
  bool other_wrote = false;
  int other_agent = 0;
  int other_site = 0;
  explicit operator bool() const { return kind != Kind::none; }
};

class SharedMemory {
 public:
  explicit SharedMemory(Order& order) : order_(&order) {}
  // All bytes uninitialised.
  void reset(std::int64_t bytes);
  std::int64_t bytes() const { return bytes_; }
  std::byte* at(std::int64_t offset) { return data_.data() + offset; }

  // Whether [offset, offset + bytes) lies inside and is aligned (alignment 1: any).
  Conflict check_place(std::int64_t offset, std::int64_t bytes, std::int64_t alignment) const;
  // The access itself is the caller's; both assume that check_place has found nothing.
  Conflict read(std::int64_t offset, std::int64_t bytes, const Accessor& who);
  Conflict write(std::int64_t offset, std::int64_t bytes, const Accessor& who);
  // An asynchronous copy into the bytes begins: checked like a write; they are in flight until land().
  Conflict begin_flight(std::int64_t offset, std::int64_t bytes, const Accessor& who);
  void land(std::int64_t offset, std::int64_t bytes, int agent);
  void set_barrier(std::int64_t offset, std::int64_t bytes, bool is_barrier);

 private:
  struct Byte {
    Clock write_clock = 0, read_clock = 0;
    std::int32_t writer = -1, reader = -1;
    std::int32_t write_site = 0, read_site = 0;
    std::int32_t more_readers = -1;  // index into reader_sets_
    bool in_flight = false, is_barrier = false, write_atomic = false, read_atomic = false, by_proxy = false;
  };
  struct Reader {
    int agent;
    Clock when;
    int site;
    bool is_atomic;
  };

  Conflict check_writer(const Byte& b, std::int64_t at, const Accessor& who) const;
  Conflict check_readers(const Byte& b, std::int64_t at, const Accessor& who) const;
  Conflict check_write(const Byte& b, std::int64_t at, const Accessor& who) const;
  void note_read(Byte& b, const Accessor& who);
  void note_write(Byte& b, const Accessor& who);

  Order* order_;
  std::int64_t bytes_ = 0;
  std::vector<std::byte> data_;
  std::vector<Byte> shadow_;
  std::vector<std::vector<Reader>> reader_sets_;  // readers of one byte that are not ordered among themselves
};

}  // namespace tileweave::runtime::simt
