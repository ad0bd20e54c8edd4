// The interpreter on views and pointers: every access is checked against the view's own extents.
// Called by interpret.cpp for each op met.
#include <optional>
#include <source_location>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/ir/interpret_frame.h"

namespace tileweave::ir {
namespace {

// The address of lane `at` of a block at `offsets`, or nothing where it lies outside the view.
std::optional<std::uint64_t> address_of(const ViewValue& view, Dtype t, const std::vector<std::int64_t>& offsets,
                                        const std::array<std::int64_t, max_rank>& at) {
  std::uint64_t elements = 0;
  for (std::size_t k = 0; k < offsets.size(); ++k) {
    std::int64_t index = 0;
    if (__builtin_add_overflow(offsets[k], at[k], &index)) return std::nullopt;
    if (index < 0 || index >= view.extents[k]) return std::nullopt;
    elements += static_cast<std::uint64_t>(index) * static_cast<std::uint64_t>(view.strides[k]);
  }
  return view.base + elements * static_cast<std::uint64_t>(dtype_bytes(t));
}

std::vector<std::int64_t> offsets_of(Frame& f, const Op& op) {
  std::vector<std::int64_t> offsets;
  for (int k = 0; k < op.operands[0]->type.rank; ++k) {
    offsets.push_back(static_cast<std::int64_t>(f.decide(op.operands[1 + static_cast<std::size_t>(k)])));
  }
  return offsets;
}

[[noreturn]] void refuse_false_claim(const Op& op) {
  throw_internal_error(std::source_location::current(),
                       std::string(op_info(op.id).name) + " claims inbounds, but a lane lies outside its view" +
                           (op.place.known() ? ", recorded at " + to_string(op.place) : ""));
}

// Calls visit(lane, address) for each lane of the block; the address is empty outside the view.
template <class Visit>
void for_each_lane(Frame& f, const Op& op, const Type& block, Visit visit) {
  const ViewValue& view = f.views.at(op.operands[0]);
  const std::vector<std::int64_t> offsets = offsets_of(f, op);
  const bool claims = op.attrs.get_int(AttrKey::inbounds) != 0;
  std::int64_t outside = 0;
  for (std::int64_t i = 0; i < block.elements(); ++i) {
    const auto address = address_of(view, op.operands[0]->type.elem, offsets, coordinates(block, i));
    if (!address && claims) refuse_false_claim(op);
    outside += address ? 0 : 1;
    visit(static_cast<std::size_t>(i), address);
  }
  if (op.id != OpId::inside) f.count_clipped(op, outside);
}

}  // namespace

const TileValue* mask_of(const Frame& f, const Op& op) {
  return op.attrs.get_int(AttrKey::masked) != 0 ? &f.get(op.operands.back()) : nullptr;
}

bool is_masked_off(Frame& f, const TileValue* mask, std::size_t i) {
  if (mask == nullptr) return false;
  if (mask->error_at(i) != 0) f.undetermined();
  return mask->bits[i] == 0;
}

const Function& Frame::owner_function() const { return owner.function_; }

// Functions with raw pointer parameters are not checked: what those point to is not known.
bool is_reachable(Frame& f, const Op& op, std::uint64_t address, Dtype t) {
  if (!f.checked()) return true;
  for (const Param& p : f.owner_function().params) {
    if (p.value->type.is_pointer()) return true;
  }
  for (const auto& [value, view] : f.kernel_frame().views) {
    std::int64_t low = 0, high = 0;
    bool empty = false;
    for (std::size_t k = 0; k < view.extents.size(); ++k) {
      const std::int64_t reach = (view.extents[k] - 1) * view.strides[k];
      (reach < 0 ? low : high) += reach;
      empty = empty || view.extents[k] <= 0;
    }
    const auto bytes = dtype_bytes(value->type.elem);
    const std::uint64_t first = view.base + static_cast<std::uint64_t>(low * bytes);
    const std::uint64_t last = view.base + static_cast<std::uint64_t>(high * bytes);
    if (!empty && address >= first && address <= last) return true;
  }
  f.owner.note_failure("kernel '" + f.owner_function().name + "': " + std::string(op_info(op.id).name) +
                           ": a pointer to " + std::string(dtype_name(t)) + " lies in no view of this launch",
                       to_string(op.place), "mask off the lanes that have no element");
  return false;
}

void interpret_inside(Frame& f, const Op& op) {
  TileValue y;
  for_each_lane(f, op, op.results[0]->type, [&](std::size_t, auto address) { y.bits.push_back(address ? 1 : 0); });
  f.set(op.results[0], std::move(y));
}

void interpret_load(Frame& f, const Op& op) {
  const Type& t = op.results[0]->type;
  const TileValue* mask = mask_of(f, op);
  const auto n = static_cast<std::size_t>(t.elements());
  TileValue y{std::vector(n, static_cast<std::uint64_t>(op.attrs.get_int(AttrKey::pad))), {}};
  if (f.bounds()) y.error.resize(n);
  for_each_lane(f, op, t, [&](std::size_t i, auto address) {
    if (!address || is_masked_off(f, mask, i)) return;
    y.bits[i] = f.load(op, *address, t.elem);
    if (f.bounds()) y.error[i] = f.memory_error(*address);
  });
  f.set(op.results[0], std::move(y));
}

void interpret_store(Frame& f, const Op& op) {
  const Value* value = op.operands[1 + static_cast<std::size_t>(op.operands[0]->type.rank)];
  const TileValue& x = f.get(value);
  const TileValue* mask = mask_of(f, op);
  f.begin_store();
  for_each_lane(f, op, value->type, [&](std::size_t i, auto address) {
    if (!address || is_masked_off(f, mask, i)) return;
    f.store(op, *address, value->type.elem, x.bits[i]);
    f.set_memory_error(*address, x.error_at(i));
  });
}

void interpret_view_base(Frame& f, const Op& op) { f.set(op.results[0], {{f.views.at(op.operands[0]).base}, {}}); }

void interpret_ptr_add(Frame& f, const Op& op) {
  TileValue p = f.get(op.operands[0]);
  const TileValue& offset = f.get(op.operands[1]);
  const Dtype t = op.operands[1]->type.elem;
  const auto bytes = static_cast<std::uint64_t>(dtype_bytes(op.operands[0]->type.elem));
  for (std::size_t i = 0; i < p.bits.size(); ++i) {
    if (offset.error_at(i) != 0) f.undetermined();
    p.bits[i] += static_cast<std::uint64_t>(host::to_int64(offset.bits[i], t)) * bytes;
  }
  f.set(op.results[0], std::move(p));
}

void interpret_load_ptr(Frame& f, const Op& op) {
  const Dtype t = op.results[0]->type.elem;
  const TileValue& p = f.get(op.operands[0]);
  const TileValue* mask = mask_of(f, op);
  TileValue y{std::vector(p.bits.size(), static_cast<std::uint64_t>(op.attrs.get_int(AttrKey::pad))), {}};
  if (f.bounds()) y.error.resize(p.bits.size());
  for (std::size_t i = 0; i < p.bits.size(); ++i) {
    if (is_masked_off(f, mask, i)) continue;
    if (!is_reachable(f, op, p.bits[i], t)) continue;
    y.bits[i] = f.load(op, p.bits[i], t);
    if (f.bounds()) y.error[i] = f.memory_error(p.bits[i]);
  }
  f.set(op.results[0], std::move(y));
}

void interpret_store_ptr(Frame& f, const Op& op) {
  const Dtype t = op.operands[1]->type.elem;
  const TileValue &p = f.get(op.operands[0]), &x = f.get(op.operands[1]);
  const TileValue* mask = mask_of(f, op);
  f.begin_store();
  for (std::size_t i = 0; i < p.bits.size(); ++i) {
    if (is_masked_off(f, mask, i)) continue;
    if (!is_reachable(f, op, p.bits[i], t)) continue;
    f.store(op, p.bits[i], t, x.bits[i]);
    f.set_memory_error(p.bits[i], x.error_at(i));
  }
}

}  // namespace tileweave::ir
