// The shared memory of one emulated block: its bytes, and for each byte who wrote and read it when.
// Under simt_cluster; every access of a primitive is checked here before it is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tileweave/jit/runtime/simt_history.h"

namespace tileweave::runtime::simt {

class SharedMemory {
 public:
  explicit SharedMemory(Order& order) : order_(&order), history_(order) {}
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
  Conflict check_write(const ByteHistory& b, std::int64_t at, const Accessor& who) const;

  Order* order_;
  History history_;
  std::int64_t bytes_ = 0;
  std::vector<std::byte> data_;
  std::vector<ByteHistory> shadow_;
};

}  // namespace tileweave::runtime::simt
