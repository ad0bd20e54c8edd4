// A small parser of expressions that looks each operator up among the recorded ops. See debug_match.h.
#include "tileweave/dsl/debug_match.h"

#include <algorithm>
#include <optional>

namespace tileweave::record {
namespace {

using ir::OpId;
using ir::Value;

struct Binary {
  std::string_view text;
  int level;
  OpId op;
};
constexpr Binary binaries[] = {
    {"|", 1, OpId::bit_or}, {"^", 2, OpId::bit_xor}, {"&", 3, OpId::bit_and}, {"==", 4, OpId::eq},
    {"!=", 4, OpId::ne},    {"<", 5, OpId::lt},      {"<=", 5, OpId::le},     {">", 5, OpId::gt},
    {">=", 5, OpId::ge},    {"<<", 6, OpId::shl},    {">>", 6, OpId::shr},    {"+", 7, OpId::add},
    {"-", 7, OpId::sub},    {"*", 8, OpId::mul},     {"/", 8, OpId::div},     {"%", 8, OpId::rem}};

bool is_transparent(const Value* v) {
  if (v->def == nullptr) return false;
  const OpId id = v->def->id;
  return id == OpId::broadcast || id == OpId::expand_dims || id == OpId::convert || id == OpId::var_get;
}

}  // namespace

ExpressionMatcher::ExpressionMatcher(ir::Function& f, const std::vector<RecordedResult>& results,
                                     const KernelSource& source)
    : results_(results), s_(source) {
  each_op(f.body(), [&](ir::Op& op) {
    if (!op.results.empty()) by_id_[op.id].push_back(&op);
  });
}

Candidates ExpressionMatcher::anchored(std::size_t begin, std::size_t end) const {
  Candidates found;
  if (begin >= end) return found;
  const auto &first = s_.tokens[begin], &last = s_.tokens[end - 1];
  const auto inside = [&](const Place& p) {
    const bool after = p.line > first.line || (p.line == first.line && (p.column == 0 || p.column >= first.column));
    const bool before = p.line < last.line ||
                        (p.line == last.line && p.column <= last.column + static_cast<std::uint32_t>(last.text.size()));
    return after && before;
  };
  // Of nested calls the outermost begins first.
  const Place* outermost = nullptr;
  for (const RecordedResult& r : results_) {
    const Place& p = r.place;
    if (!p.known() || !inside(p)) continue;
    const bool before =
        outermost == nullptr || p.line < outermost->line || (p.line == outermost->line && p.column < outermost->column);
    if (before) outermost = &p;
  }
  if (outermost == nullptr) return found;
  const auto is_there = [&](const Place& p) { return p.line == outermost->line && p.column == outermost->column; };
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const bool is_last = i + 1 == results_.size() || !is_there(results_[i + 1].place);
    if (!is_there(results_[i].place) || !is_last) continue;
    if (std::ranges::find(found, results_[i].value) == found.end()) found.push_back(results_[i].value);
  }
  return found;
}

Candidates ExpressionMatcher::match(std::size_t begin, std::size_t end) {
  at_ = begin;
  end_ = end;
  const Operand o = binary(0);
  return at_ == end_ ? o.values : Candidates{};
}

ExpressionMatcher::Operand ExpressionMatcher::binary(int least) {
  Operand left = unary();
  while (at_ < end_) {
    const auto* b = std::ranges::find_if(binaries, [&](const Binary& x) { return is(x.text) && x.level > least; });
    if (b == std::end(binaries)) break;
    ++at_;
    const Operand right = binary(b->level);
    left = left.is_constant && right.is_constant ? left : find(b->op, {left, right});
  }
  return left;
}

ExpressionMatcher::Operand ExpressionMatcher::unary() {
  if (is("-") || is("~") || is("!")) {
    const OpId op = is("-") ? OpId::neg : OpId::bit_not;
    ++at_;
    const Operand x = unary();
    return x.is_constant ? x : find(op, {x});
  }
  return postfix();
}

// `.to<T>()` and other members.
ExpressionMatcher::Operand ExpressionMatcher::postfix() {
  Operand x = primary();
  while (is(".") || is("->")) {
    ++at_;
    const bool converts = is("to");
    ++at_;
    while (at_ < end_ && !is("(") && !is(".")) ++at_;
    if (is("(")) at_ = s_.tokens[at_].partner + 1;
    if (!converts) return {};
    Candidates converted;
    for (ir::Op* op : by_id_[OpId::convert]) {
      if (std::ranges::find(x.values, op->operands[0]) != x.values.end()) converted.push_back(op->results[0]);
    }
    if (!converted.empty()) x.values = std::move(converted);
  }
  return x;
}

ExpressionMatcher::Operand ExpressionMatcher::primary() {
  if (at_ >= end_) return {};
  const SourceToken& t = s_.tokens[at_];
  if (t.kind == SourceToken::Kind::number) {
    ++at_;
    return {{}, true};
  }
  if (is("(")) {
    const std::size_t close = t.partner, end = end_;
    ++at_;
    end_ = close;
    const Operand x = binary(0);
    const bool whole = at_ == close;
    end_ = end;
    at_ = close + 1;
    return whole ? x : Operand{};
  }
  if (t.kind == SourceToken::Kind::word) return name();
  at_ = end_;
  return {};
}

ExpressionMatcher::Operand ExpressionMatcher::name() {
  const std::size_t from = at_;
  std::string last(s_.tokens[at_++].text);
  bool qualified = false;
  while (is("::")) {
    ++at_;
    if (at_ < end_) last = s_.tokens[at_++].text;
    qualified = true;
  }
  if (is("<") && qualified) {
    // Template arguments, where a call follows them.
    int depth = 0;
    std::size_t i = at_;
    for (; i < end_; ++i) {
      if (s_.tokens[i].text == "<") ++depth;
      if (s_.tokens[i].text == ">" && --depth == 0) break;
    }
    if (i + 1 < end_ && s_.tokens[i + 1].text == "(") at_ = i + 1;
  }
  if (is("(")) return call(last, from);
  const auto at = names_.find(last);
  if (at != names_.end()) return {at->second, false};
  return {{}, true};
}

// An element-wise function is looked up by its operands, anything else by its place.
ExpressionMatcher::Operand ExpressionMatcher::call(const std::string& function, std::size_t from) {
  const std::size_t close = s_.tokens[at_].partner;
  const auto op = ir::op_from_name(function);
  Operand result;
  if (op && ir::is_elementwise(*op)) {
    result = find(*op, arguments(at_));
  } else {
    result.values = anchored(from, close + 1);
  }
  at_ = close + 1;
  return result;
}

std::vector<ExpressionMatcher::Operand> ExpressionMatcher::arguments(std::size_t open) {
  std::vector<Operand> list;
  const std::size_t close = s_.tokens[open].partner, outer = end_;
  for (std::size_t begin = open + 1; begin < close;) {
    std::size_t end = begin;
    while (end < close && s_.tokens[end].text != ",") end = std::max(s_.tokens[end].partner, end) + 1;
    at_ = begin;
    end_ = end;
    Operand x = binary(0);
    list.push_back(at_ == end ? std::move(x) : Operand{});
    begin = end + 1;
  }
  end_ = outer;
  return list;
}

bool ExpressionMatcher::fits(const Value* v, const Operand& o) {
  for (;;) {
    if (std::ranges::find(o.values, v) != o.values.end()) return true;
    // Two readings of one variable between its assignments are different ops with one value.
    if (v->def != nullptr && v->def->id == OpId::var_get &&
        std::ranges::find(o.values, v->def->operands[0]) != o.values.end()) {
      return true;
    }
    if (o.is_constant && v->def != nullptr && v->def->id == OpId::constant) return true;
    if (!is_transparent(v)) return false;
    v = v->def->operands[0];
  }
}

ExpressionMatcher::Operand ExpressionMatcher::find(OpId id, const std::vector<Operand>& operands) const {
  Operand found;
  const auto at = by_id_.find(id);
  if (at == by_id_.end() || !std::ranges::all_of(operands, [](const Operand& o) { return o.known(); })) return found;
  for (const ir::Op* op : at->second) {
    if (op->operands.size() != operands.size()) continue;
    bool all = true;
    for (std::size_t i = 0; i < operands.size() && all; ++i) all = fits(op->operands[i], operands[i]);
    if (all) found.values.push_back(op->results[0]);
  }
  return found;
}

}  // namespace tileweave::record
