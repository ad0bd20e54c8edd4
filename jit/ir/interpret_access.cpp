// The interpreter's accesses to memory, one element at a time, with the check for races between programs.
// Under interpret_memory.cpp (views, pointers) and interpret_host.cpp (atomics).
#include <cstring>

#include "tileweave/jit/ir/interpret_frame.h"

namespace tileweave::ir {
namespace {

void put(std::uint64_t address, Dtype t, std::uint64_t bits) {
  std::memcpy(reinterpret_cast<void*>(address), &bits, static_cast<std::size_t>(dtype_bytes(t)));
}

// "element 3 of view 'y'", counted from its base; the address where it lies in no view.
std::string place_of(const Frame& kernel, std::uint64_t address, Dtype t) {
  const Value* best = nullptr;
  std::uint64_t distance = 0;
  for (const auto& [view, slots] : kernel.views) {
    if (address < slots.base || (best != nullptr && address - slots.base >= distance)) continue;
    best = view;
    distance = address - slots.base;
  }
  if (best == nullptr) return "the element at address " + std::to_string(address);
  const std::string name =
      best->name.empty() ? "parameter " + std::to_string(best->index + 1) : "view '" + best->name + "'";
  return "element " + std::to_string(distance / static_cast<std::uint64_t>(dtype_bytes(t))) + " of " + name;
}

}  // namespace

std::int64_t Frame::linear_program() const { return program[0] + grid[0] * (program[1] + grid[1] * program[2]); }

std::uint64_t Frame::value_at(std::uint64_t address, Dtype t) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, reinterpret_cast<const void*>(address), static_cast<std::size_t>(dtype_bytes(t)));
  return is_bool(t) ? (bits != 0 ? 1 : 0) : bits;
}

std::uint64_t Frame::load(const Op& op, std::uint64_t address, Dtype t) {
  if (owner.races_) note_race(owner.races_->load(op, address), op, address, t);
  return value_at(address, t);
}

void Frame::store(const Op& op, std::uint64_t address, Dtype t, std::uint64_t bits) {
  if (owner.races_) note_race(owner.races_->store(op, address, value_at(address, t), bits), op, address, t);
  put(address, t, bits);
}

void Frame::atomic(const Op& op, std::uint64_t address, Dtype t, std::uint64_t old, std::uint64_t bits) {
  if (owner.races_) note_race(owner.races_->atomic(op, address, old, bits), op, address, t);
  put(address, t, bits);
}

void Frame::begin_store() {
  if (owner.races_) owner.races_->begin_store();
}

void Frame::note_race(const std::optional<Race>& race, const Op& op, std::uint64_t address, Dtype t) {
  if (!race) return;
  owner.note_failure("kernel '" + owner_function().name + "': race: " + describe(*race, op, linear_program()) + " " +
                         place_of(kernel_frame(), address, t),
                     to_string(op.place),
                     race->kind == Race::Kind::two_lanes ? "mask off all but one of the lanes, or use an atomic"
                                                         : "give each program elements of its own, or use atomics");
}

}  // namespace tileweave::ir
