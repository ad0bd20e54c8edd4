// What an op accepts and what it gives: every type and shape rule of tile IR.
// Called by the builder for each op it makes (a user's mistake becomes a RecordError) and again by the verifier.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/ir/limits.h"

namespace tileweave::ir {

// An op about to be made. `results` holds the types asked for, where they do not follow from the operands.
struct OpShape {
  OpId id;
  std::span<Value* const> operands;
  const Attrs& attrs;
  std::span<const Type> results;
  Place place;
};

// The result types, or a RecordError at the op's place that names the op, both types and the way out.
std::vector<Type> infer(const OpShape& s);

// One for each structural row; the dispatch in infer.cpp names a missing one.
#define TILEWEAVE_STRUCTURAL_OP(id, mnemonic, effects, legal, text) std::vector<Type> infer_##id(const OpShape& s);
#include "tileweave/jit/ir/structural_ops.def"

// --- for the infer_ functions
// Throws RecordError "<op>: <message>".
[[noreturn]] void refuse(const OpShape& s, const std::string& message, const std::string& help = {});
void require_operands(const OpShape& s, std::size_t least, std::size_t most);
void require_tile(const OpShape& s, const Value* v, std::string_view what);
void require_scalar_i64(const OpShape& s, const Value* v, std::string_view what);
// A bool tile of exactly this shape.
void require_mask(const OpShape& s, const Value* mask, const Type& of);
// The axis attribute, inside [0, rank).
int require_axis(const OpShape& s, int rank);
// The one result type the caller asked for.
const Type& asked_type(const OpShape& s);
// Extents in an attribute: at most max_rank, each at least 1.
const std::vector<std::int64_t>& require_extents(const OpShape& s);

}  // namespace tileweave::ir
