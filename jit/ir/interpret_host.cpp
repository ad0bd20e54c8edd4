// The interpreter on ops that talk to the host, on atomics and on the user's own functions.
// Called by interpret.cpp for each op met. Programs run one after another, so an atomic is a load and a store.
#include <cmath>
#include <cstdio>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/host_function.h"
#include "tileweave/jit/base/print_text.h"
#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/ir/interpret_frame.h"

namespace tileweave::ir {
namespace {

std::uint64_t combined(const std::string& how, Dtype t, std::uint64_t old, std::uint64_t x) {
  if (how == "xchg") return x;
  const OpId id = how == "sum"   ? OpId::add
                  : how == "min" ? OpId::minimum
                  : how == "max" ? OpId::maximum
                  : how == "and" ? OpId::bit_and
                  : how == "or"  ? OpId::bit_or
                                 : OpId::bit_xor;
  const std::uint64_t operands[] = {old, x};
  return host::eval_elementwise(id, t, operands);
}

// put(old, lane) gives what the memory holds afterwards.
template <class F>
void interpret_atomic(Frame& f, const Op& op, F put) {
  const Type& t = op.results[0]->type;
  const TileValue& p = f.get(op.operands[0]);
  const TileValue* mask = op.attrs.get_int(AttrKey::masked) != 0 ? &f.get(op.operands.back()) : nullptr;
  TileValue old{std::vector<std::uint64_t>(p.bits.size(), 0), {}};
  for (std::size_t i = 0; i < p.bits.size(); ++i) {
    if (mask != nullptr && mask->bits[i] == 0) continue;
    if (!is_reachable(f, op, p.bits[i], t.elem)) continue;
    old.bits[i] = f.value_at(p.bits[i], t.elem);
    f.atomic(op, p.bits[i], t.elem, old.bits[i], put(old.bits[i], i));
    // Another order of the programs may leave another sum.
    if (is_float(t.elem)) f.set_memory_error(p.bits[i], HUGE_VAL);
  }
  f.set(op.results[0], std::move(old));
}

}  // namespace

void interpret_atomic_rmw(Frame& f, const Op& op) {
  const std::string& how = op.attrs.get_text(AttrKey::combine);
  const Dtype t = op.results[0]->type.elem;
  const TileValue x = f.get(op.operands[1]);
  interpret_atomic(f, op, [&](std::uint64_t old, std::size_t i) { return combined(how, t, old, x.bits[i]); });
}

void interpret_atomic_cas(Frame& f, const Op& op) {
  const TileValue expected = f.get(op.operands[1]), x = f.get(op.operands[2]);
  interpret_atomic(f, op, [&](std::uint64_t old, std::size_t i) { return old == expected.bits[i] ? x.bits[i] : old; });
}

void interpret_print(Frame& f, const Op& op) {
  const TileValue& x = f.get(op.operands[0]);
  std::string line = print_prefix(op.attrs.get_text(AttrKey::place), f.owner_function().name, f.linear_program(),
                                  op.attrs.get_text(AttrKey::text));
  for (const std::uint64_t bits : x.bits) line += " " + element_text(op.operands[0]->type.elem, bits);
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stdout);
}

void interpret_assert_(Frame& f, const Op& op) {
  if (f.scalar(op.operands[0]) != 0) return;
  const std::string &name = f.owner_function().name, &text = op.attrs.get_text(AttrKey::text);
  const auto at = [&](std::size_t i) { return static_cast<std::int64_t>(f.scalar(op.operands[i])); };
  f.owner.note_failure(op.operands.size() == 1 ? assert_text(name, f.linear_program(), text)
                                               : check_text(name, f.linear_program(), text, at(1), at(2)),
                       op.attrs.get_text(AttrKey::place));
}

void interpret_debug_value(Frame&, const Op&) {}

void interpret_external(Frame& f, const Op& op) {
  const std::string& name = op.attrs.get_text(AttrKey::name);
  const HostFunction twin = find_host_function(name);
  if (twin == nullptr) {
    const std::string shown = name.substr(std::min(name.size(), host_function_prefix.size()));
    throw_launch_error(op.place,
                       "device function '" + shown.substr(0, shown.rfind('_')) +
                           "' has no host twin, so only a GPU can run this kernel",
                       "give tw::cuda_function or tw::inline_ptx a C++ function that does the same");
  }
  const Type& t = op.results[0]->type;
  TileValue y{std::vector<std::uint64_t>(static_cast<std::size_t>(t.elements()), 0), {}};
  for (std::size_t i = 0; i < y.bits.size(); ++i) {
    std::array<const void*, 8> operands{};
    for (std::size_t k = 0; k < op.operands.size(); ++k) operands[k] = &f.get(op.operands[k]).bits[i];
    twin(&y.bits[i], operands.data(), 1);
  }
  f.set(op.results[0], std::move(y));
}

}  // namespace tileweave::ir
