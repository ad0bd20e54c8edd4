// The facts of every op, expanded from the two tables.
// Asked by every stage; nothing else holds a list of ops.
#include "tileweave/jit/ir/ops.h"

#include <array>
#include <unordered_map>

namespace tileweave::ir {
namespace {

// What the words of a row mean here: whether the op is composed, and its algebra.
#define native(e) false
#define composed(e) true
constexpr std::array<OpInfo, op_count> make_table() {
  using namespace algebra;
  return {{
#define TILEWEAVE_OP(id, arity, types, algebra_, meaning, llvm, gradient, ulp, text) \
  OpInfo{#id, arity, OpTypes::types, algebra_, meaning, ulp, Effects::pure, Legal::always, text},
#include "tileweave/jit/ir/ops.def"
#define TILEWEAVE_STRUCTURAL_OP(id, mnemonic, effects, legal, text) \
  OpInfo{mnemonic, -1, OpTypes::structural, none, false, 0, Effects::effects, Legal::legal, text},
#include "tileweave/jit/ir/structural_ops.def"
  }};
}
#undef native
#undef composed

constexpr std::array<OpInfo, op_count> table = make_table();

}  // namespace

const OpInfo& op_info(OpId id) { return table[static_cast<std::size_t>(id)]; }

std::optional<OpId> op_from_name(std::string_view name) {
  static const auto& names = *new std::unordered_map<std::string_view, OpId>([] {
    std::unordered_map<std::string_view, OpId> m;
    for (int i = 0; i < op_count; ++i) m.emplace(table[static_cast<std::size_t>(i)].name, static_cast<OpId>(i));
    return m;
  }());
  const auto at = names.find(name);
  return at == names.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace tileweave::ir
