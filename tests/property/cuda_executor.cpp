// The CUDA device as a backend of the property tests. See cuda_executor.h.
// Between host slots, which say where each view lies, and a launch on device memory.
#include "tests/property/cuda_executor.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/compile.h"
#include "tileweave/jit/runtime/device.h"
#include "tileweave/jit/runtime/launch.h"
#include "tileweave/jit/runtime/stream.h"
#include "tileweave/jit/runtime/tensor.h"

namespace tileweave::property {
namespace {

constexpr std::uint64_t page = 256;

// Host bytes that one piece of device memory stands for. Whole pages on both sides: alignment carries over.
struct Piece {
  std::uint64_t first = 0, last = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> views = {};  // between them lies memory of others
  runtime::AnyTensor memory = {};
  std::uint64_t begin() const { return first / page * page; }
};

// The bytes that a view with these slots can touch; nothing where it has no elements.
void add_piece(std::vector<Piece>& pieces, const ir::Type& t, const std::uint64_t* slots) {
  const int rank = t.rank;
  std::int64_t low = 0, high = 0;
  for (int a = 0; a < rank; ++a) {
    const auto extent = static_cast<std::int64_t>(slots[1 + a]);
    const auto stride = static_cast<std::int64_t>(slots[1 + rank + a]);
    if (extent <= 0) return;
    (stride < 0 ? low : high) += (extent - 1) * stride;
  }
  const std::int64_t bytes = dtype_bytes(t.elem);
  const std::uint64_t first = slots[0] + static_cast<std::uint64_t>(low * bytes);
  const std::uint64_t last = slots[0] + static_cast<std::uint64_t>((high + 1) * bytes);
  pieces.push_back({first, last, {{first, last}}});
}

// Pieces on one page become one.
std::vector<Piece> merged(std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.first < b.first; });
  std::vector<Piece> out;
  for (const Piece& p : pieces) {
    if (!out.empty() && p.begin() < out.back().last) {
      out.back().last = std::max(out.back().last, p.last);
      out.back().views.push_back(p.views.front());
    } else {
      out.push_back(p);
    }
  }
  return out;
}

void copy_in(Piece& p, const Device& device) {
  std::vector<std::byte> bytes(p.last - p.begin());
  for (const auto& [first, last] : p.views) {
    std::memcpy(bytes.data() + (first - p.begin()), reinterpret_cast<const void*>(first), last - first);
  }
  p.memory = runtime::AnyTensor::from_host(device, Dtype::u8, {static_cast<std::int64_t>(bytes.size())}, bytes);
}

void copy_out(const Piece& p) {
  std::vector<std::byte> bytes(p.last - p.begin());
  p.memory.to_host(bytes);
  for (const auto& [first, last] : p.views) {
    std::memcpy(reinterpret_cast<void*>(first), bytes.data() + (first - p.begin()), last - first);
  }
}

std::uint64_t on_device(const std::vector<Piece>& pieces, std::uint64_t host) {
  for (const Piece& p : pieces) {
    if (host >= p.first && host < p.last) {
      return reinterpret_cast<std::uintptr_t>(p.memory.data()) + (host - p.begin());
    }
  }
  return host;  // of a view without elements: never read
}

template <class F>
void for_each_view(const ir::Function& f, F&& visit) {
  std::size_t slot = 0;
  for (const ir::Param& p : f.params) {
    const ir::Type& t = p.value->type;
    if (t.is_view()) visit(t, slot);
    slot += t.is_view() ? 1 + 2 * static_cast<std::size_t>(t.rank) : 1;
  }
}

}  // namespace

Executor cuda_executor() {
  return [](const ir::Function& recorded, std::span<const std::uint64_t> host_slots, const ir::Grid& grid) {
    const Device device = Device::cuda(0);
    const Binary binary = jit::compile(recorded, device.target());
    const auto kernel = runtime::load_kernel(device, binary, recorded.name);
    std::vector<std::uint64_t> slots(host_slots.begin(), host_slots.end());
    std::vector<Piece> pieces;
    for_each_view(recorded, [&](const ir::Type& t, std::size_t slot) { add_piece(pieces, t, &slots[slot]); });
    pieces = merged(std::move(pieces));
    for (Piece& p : pieces) copy_in(p, device);
    for_each_view(recorded, [&](const ir::Type&, std::size_t slot) { slots[slot] = on_device(pieces, slots[slot]); });
    const Stream stream = device.stream();
    for (const Piece& p : pieces) p.memory.use_on(stream.state(), {});
    kernel->launch(stream.state(), grid.data(), slots.data(), static_cast<int>(slots.size()));
    stream.synchronize();
    for (const Piece& p : pieces) copy_out(p);
  };
}

}  // namespace tileweave::property
