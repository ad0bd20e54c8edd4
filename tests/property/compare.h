// Runs one program two ways on equal memory and says where they differ; and makes a failing program smaller.
// The backends' tests give their executors to it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tests/property/program.h"

namespace tileweave::property {

// Runs a recorded function on launch slots: the interpreter, the passes and the interpreter, a backend.
using Executor = std::function<void(const ir::Function& f, std::span<const std::uint64_t> slots, const ir::Grid& grid)>;

// The interpreter on the function as it is.
Executor interpreter();
// The interpreter after these passes, in order; each result is verified.
Executor after(std::vector<std::function<void(ir::Function&)>> passes, ir::Stage stage);

// Nothing where both leave the same: every byte outside the outputs, and every output element bit for bit (two NaNs are
// the same). Otherwise the first difference. An exception is a difference too, unless both throw.
std::optional<std::string> compare(const Program& p, const Executor& a, const Executor& b);

// The interpreter, after `prepare`, against a backend: elements that hang on a reduction may differ by as much as
// another order of summation allows (Interpreter::bound_at). `prepare` is what the backend does up to contract_fma:
// expansion changes no bit, but the bounds are carried through a composed function as a whole and not through the bit
// arithmetic that it is made of.
// With `short_forms` a backend may also be off by as much as those it has (ir/short_forms.h).
std::optional<std::string> compare_with_interpreter(const Program& p, const std::function<void(ir::Function&)>& prepare,
                                                    const Executor& backend, bool short_forms = false);

// The smallest program found that still fails: ops dropped, replaced by an operand or a constant, ifs by a branch.
using Check = std::function<std::optional<std::string>(const Program&)>;
Program shrink(Program p, const Check& check);

// Checks the programs of these seeds; at the first failure gives a report with the seed, the difference and the
// shrunken program's text.
std::optional<std::string> check_seeds(std::uint64_t first, std::uint64_t count,
                                       const std::function<Program(std::uint64_t)>& make, const Check& check);

}  // namespace tileweave::property
