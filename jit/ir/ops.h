// The ops as an enum with their facts, expanded from ops.def and structural_ops.def.
// Everything that asks "what kind of op is this" asks here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tileweave::ir {

enum class OpId : std::uint16_t {
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) id,
#include "tileweave/jit/ir/ops.def"
#define TILEWEAVE_STRUCTURAL_OP(id, mnemonic, effects, legal, text) id,
#include "tileweave/jit/ir/structural_ops.def"
};

inline constexpr int elementwise_op_count = 0
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) +1
#include "tileweave/jit/ir/ops.def"
    ;
inline constexpr int op_count = elementwise_op_count
#define TILEWEAVE_STRUCTURAL_OP(id, mnemonic, effects, legal, text) +1
#include "tileweave/jit/ir/structural_ops.def"
    ;

// Which element types an element-wise op takes and gives.
enum class OpTypes : std::uint8_t { Num, Float, Int, Bits, Compare, Test, Select, structural };
// host: talks to the host (prints, checks, debuggers): kept, in program order, and touches no memory of a kernel.
enum class Effects : std::uint8_t { pure, reads, writes, variable, control, host };
enum class Legal : std::uint8_t { always, until_promoted };

namespace algebra {
inline constexpr unsigned none = 0, commutative = 1, associative = 2, idempotent = 4;
}

struct OpInfo {
  std::string_view name;
  int arity;  // -1: structural, see the text
  OpTypes types;
  unsigned algebra;
  bool composed;  // expanded by a pass, never lowered
  double ulp;     // at f32
  Effects effects;
  Legal legal;
  std::string_view text;
};

const OpInfo& op_info(OpId id);
std::optional<OpId> op_from_name(std::string_view name);
constexpr bool is_elementwise(OpId id) { return static_cast<int>(id) < elementwise_op_count; }

}  // namespace tileweave::ir
