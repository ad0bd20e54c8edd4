// Finds the recorded value of a C++ expression of the user's: `e / tw::sum(e, 1)` by its operators, names and calls.
// Between debug_source.h (the text) and debug_names.cpp (the debug_value ops).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tileweave/dsl/debug_names.h"
#include "tileweave/dsl/debug_source.h"

namespace tileweave::record {

// Calls visit(op) for every op, outer before inner.
template <class F>
void each_op(ir::Region& r, const F& visit) {
  for (const auto& op : r.ops) {
    visit(*op);
    for (const auto& inner : op->regions) each_op(*inner, visit);
  }
}

// The values that an expression stands for: one, or several where a C++ loop unrolled its statement.
using Candidates = std::vector<ir::Value*>;

class ExpressionMatcher {
 public:
  ExpressionMatcher(ir::Function& f, const std::vector<RecordedResult>& results, const KernelSource& source);

  void define(const std::string& name, Candidates values) { names_[name] = std::move(values); }
  // The values of tokens [begin, end), empty where they cannot be told.
  Candidates match(std::size_t begin, std::size_t end);
  // What was recorded by calls that stand in tokens [begin, end): the last result of each place.
  Candidates anchored(std::size_t begin, std::size_t end) const;

 private:
  struct Operand {
    Candidates values;
    bool is_constant = false;  // a number, or a name that only C++ knows
    bool known() const { return is_constant || !values.empty(); }
  };
  Operand binary(int least);
  Operand unary();
  Operand postfix();
  Operand primary();
  Operand name();
  Operand call(const std::string& function, std::size_t from);
  std::vector<Operand> arguments(std::size_t open);
  Operand find(ir::OpId op, const std::vector<Operand>& operands) const;
  static bool fits(const ir::Value* v, const Operand& o);
  bool is(std::string_view text) const { return at_ < end_ && s_.tokens[at_].text == text; }

  const std::vector<RecordedResult>& results_;
  const KernelSource& s_;
  std::map<ir::OpId, std::vector<ir::Op*>> by_id_;
  std::map<std::string, Candidates> names_;
  std::size_t at_ = 0, end_ = 0;
};

}  // namespace tileweave::record
