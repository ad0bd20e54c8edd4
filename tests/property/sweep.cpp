// Builds the programs of the sweep from the op table: a new row is swept without another line here.
// Beside random_program.cpp; run by sweep_test.cpp and by the backends' tests.
#include "tests/property/sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tileweave/jit/base/env.h"
#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::property {
namespace {

using namespace ir;
using Elements = std::vector<std::uint64_t>;

bool is_nan(std::uint64_t bits, Dtype t) { return is_float(t) && std::isnan(host::to_double(bits, t)); }

// The sign and payload of a NaN are not promised, so ops that show them see 1 instead.
Elements without_nan(Elements e, Dtype t) {
  for (std::uint64_t& bits : e) {
    if (is_nan(bits, t)) bits = host::from_double(1.0, t);
  }
  return e;
}

class Case {
 public:
  explicit Case(std::string name) : b_(c_.program.function) { c_.name = std::move(name); }

  // A tile of these elements, loaded whole.
  Value* input(Dtype t, Elements elements) {
    const Extents e{static_cast<std::int64_t>(elements.size())};
    Value* view = add_view(t, e, false);
    c_.program.arguments.back().elements = std::move(elements);
    Value* const offsets[] = {b_.index(0)};
    return b_.load(view, offsets, e, nullptr, 0);
  }
  void output(Value* v) {
    if (v->type.rank == 0) v = b_.broadcast(v, Extents{1});
    Value* view = add_view(v->type.elem, v->type.shape(), true);
    const std::vector<Value*> offsets(static_cast<std::size_t>(v->type.rank), b_.index(0));
    b_.store(view, offsets, v, nullptr);
  }
  Builder& builder() { return b_; }
  SweepCase take() {
    return {std::move(c_.name), {0, std::move(c_.program.function), std::move(c_.program.arguments), c_.program.grid}};
  }

 private:
  Value* add_view(Dtype t, const Extents& e, bool is_output) {
    Argument a;
    a.extents = e;
    a.strides.assign(e.size(), 1);
    for (std::size_t k = e.size(); k-- > 1;) a.strides[k - 1] = a.strides[k] * e[k];
    a.is_output = is_output;
    c_.program.arguments.push_back(std::move(a));
    return c_.program.function.add_param(Type::view(t, static_cast<int>(e.size()), !is_output), "");
  }

  SweepCase c_;
  Builder b_;
};

// Operand k of all combinations of the `arity` lists.
std::vector<Elements> combinations(const std::vector<Elements>& lists) {
  std::size_t total = 1;
  for (const Elements& l : lists) total *= l.size();
  std::vector<Elements> out(lists.size());
  for (std::size_t i = 0; i < total; ++i) {
    std::size_t rest = i;
    for (std::size_t k = 0; k < lists.size(); ++k) {
      out[k].push_back(lists[k][rest % lists[k].size()]);
      rest /= lists[k].size();
    }
  }
  return out;
}

Elements every_third(const Elements& e, std::size_t from) {
  Elements out;
  for (std::size_t i = from; i < e.size(); i += 3) out.push_back(e[i]);
  return out;
}

SweepCase elementwise_case(OpId id, Dtype t) {
  const OpInfo& info = op_info(id);
  const Elements edges = edge_values(t);
  std::vector<Elements> lists;
  for (int k = 0; k < info.arity; ++k) {
    const bool many = info.arity == 3 && edges.size() > 6;
    Elements e = many ? every_third(edges, static_cast<std::size_t>(k)) : edges;
    if (id == OpId::signbit || (id == OpId::copysign && k == 1)) e = without_nan(std::move(e), t);
    if (info.types == OpTypes::Select && k == 0) e = {0, 1};
    lists.push_back(std::move(e));
  }
  Case c(std::string(info.name) + " " + std::string(dtype_name(t)));
  std::vector<Value*> operands;
  for (const Elements& e : combinations(lists)) {
    const bool condition = info.types == OpTypes::Select && operands.empty();
    operands.push_back(c.input(condition ? Dtype::boolean : t, e));
  }
  c.output(c.builder().elementwise(id, operands));
  return c.take();
}

bool can_bitcast(Dtype from, Dtype to) {
  return from != to && !is_bool(from) && !is_bool(to) && dtype_info(from).bits == dtype_info(to).bits;
}

template <class Visit>
void for_each_dtype(Visit visit) {
  for (int d = 0; d < dtype_count; ++d) visit(static_cast<Dtype>(d));
}

// Rows of edge values, each row turned by one, so that every value stands in every column.
Elements turned_rows(const Elements& e, std::size_t rows) {
  Elements out;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < e.size(); ++k) out.push_back(e[(k + r) % e.size()]);
  }
  return out;
}

SweepCase reduction_case(const std::string& how, Dtype t, bool masked) {
  const Elements edges = edge_values(t);
  const std::size_t rows = 7;
  const Extents shape{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(edges.size())};
  Case c((how + " ") + std::string(dtype_name(t)) + (masked ? " masked" : ""));
  Builder& b = c.builder();
  Value* x = b.reshape(c.input(t, turned_rows(edges, rows)), shape);
  Value* mask = nullptr;
  if (masked) {
    Elements m;
    // Row 3 and column 2 are masked off entirely.
    for (std::size_t i = 0; i < rows * edges.size(); ++i) {
      m.push_back(i / edges.size() != 3 && i % edges.size() != 2 && i % 3 != 0 ? 1 : 0);
    }
    mask = b.reshape(c.input(Dtype::boolean, m), shape);
  }
  for (const int axis : {0, 1}) {
    const auto combine = combine_from_name(how.starts_with("arg") ? how.substr(3) : how).value();
    c.output(how.starts_with("arg") ? b.arg_reduce(x, axis, combine, mask) : b.reduce(x, axis, combine, mask));
  }
  return c.take();
}

// Rows of edge values, and a mask with a row and a column of nothing.
struct Matrix {
  Value* values = nullptr;
  Value* mask = nullptr;
};
Matrix edge_matrix(Case& c, Dtype t, bool masked) {
  const Elements edges = edge_values(t);
  const std::size_t rows = 5;
  const Extents shape{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(edges.size())};
  Builder& b = c.builder();
  Matrix m{b.reshape(c.input(t, turned_rows(edges, rows)), shape), nullptr};
  if (!masked) return m;
  Elements flags;
  for (std::size_t i = 0; i < rows * edges.size(); ++i) {
    flags.push_back(i / edges.size() != 3 && i % edges.size() != 2 && i % 3 != 0 ? 1 : 0);
  }
  m.mask = b.reshape(c.input(Dtype::boolean, flags), shape);
  return m;
}

SweepCase order_case(Dtype t, bool masked, bool descending) {
  Case c("sort " + std::string(dtype_name(t)) + (masked ? " masked" : "") + (descending ? " descending" : ""));
  const Matrix m = edge_matrix(c, t, masked);
  for (const int axis : {0, 1}) {
    c.output(c.builder().sort(m.values, axis, descending, m.mask));
    c.output(c.builder().argsort(m.values, axis, descending, m.mask));
  }
  return c.take();
}

SweepCase combine_case(Dtype t, OpId id, bool masked) {
  Case c("scan " + std::string(op_info(id).name) + " " + std::string(dtype_name(t)) + (masked ? " masked" : ""));
  const Matrix m = edge_matrix(c, t, masked);
  Builder& b = c.builder();
  Value* const values[] = {m.values};
  for (const int axis : {0, 1}) {
    for (const int how : {0, 1, 2}) {
      const Op* op = how == 2 ? b.begin_fold(values, axis, m.mask) : b.begin_scan(values, axis, how == 1, m.mask);
      const auto a = op->regions[0]->args;
      Value* const given[] = {b.elementwise(id, {a[0], a[1]})};
      b.end_combine(given);
      c.output(op->results[0]);
    }
  }
  return c.take();
}

SweepCase move_case(Dtype t) {
  Case c("move " + std::string(dtype_name(t)));
  const Matrix m = edge_matrix(c, t, false);
  Builder& b = c.builder();
  const Extents e = m.values->type.shape();
  Elements places;
  for (std::int64_t i = 0; i < e[0] * e[1]; ++i) places.push_back(host::from_int(i * 7 % (e[1] + 3) - 1, Dtype::i16));
  Value* index = b.reshape(c.input(Dtype::i16, places), e);
  for (const int axis : {0, 1}) {
    c.output(b.flip(m.values, axis));
    c.output(b.cat(m.values, m.values, axis));
    c.output(b.gather(m.values, index, axis));
  }
  c.output(b.slice(m.values, Extents{1, 1}, Extents{e[0] - 2, e[1] - 1}));
  if (is_int(t)) c.output(b.histogram(b.reshape(m.values, Extents{e[0] * e[1]}), 9, nullptr));
  return c.take();
}

}  // namespace

std::vector<std::uint64_t> edge_values(Dtype t) {
  Elements e;
  const auto add = [&](std::uint64_t bits) {
    if (std::find(e.begin(), e.end(), bits) == e.end()) e.push_back(bits);
  };
  if (is_bool(t)) return {0, 1};
  if (is_int(t)) {
    for (const std::int64_t v : {0, 1, -1, 2, 3, -3, 7, -7, 8, 31, 32, 63, 64, 100, -128, 127, 255}) {
      add(host::from_int(v, t));
    }
    const std::uint64_t low = host::from_double(-HUGE_VAL, t), high = host::from_double(HUGE_VAL, t);
    for (const std::uint64_t end : {low, high}) {
      add(end);
      add(host::lane_function(OpId::add, t)(end, 1, 0));
      add(host::lane_function(OpId::sub, t)(end, 1, 0));
    }
    return e;
  }
  visit_dtype(t, [&](auto tag) {
    using L = std::numeric_limits<typename decltype(tag)::type>;
    if constexpr (!L::is_integer) {
      for (const auto v : {L::max(), L::lowest(), L::min(), L::denorm_min(), L::infinity(), L::epsilon()}) {
        add(host::from_double(static_cast<double>(v), t));
        add(host::from_double(-static_cast<double>(v), t));
      }
      if (t == Dtype::f8e5m2) add(0x7c);  // conversions saturate; the infinity itself is a value all the same
      add(host::from_double(std::nan(""), t));
    }
  });
  for (const double v : {0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.141592653589793, 10.0, 88.5, 127.5, 1000.0,
                         16777217.0, 1e9, 1e19, 1e-3, 1e-20}) {
    add(host::from_double(v, t));
    add(host::from_double(-v, t));
  }
  return e;
}

std::vector<SweepCase> elementwise_sweep() {
  std::vector<SweepCase> cases;
  for (int i = 0; i < elementwise_op_count; ++i) {
    const auto id = static_cast<OpId>(i);
    for_each_dtype([&](Dtype t) {
      if (host::lane_function(id, t) != nullptr) cases.push_back(elementwise_case(id, t));
    });
  }
  return cases;
}

std::vector<SweepCase> conversion_sweep() {
  std::vector<SweepCase> cases;
  for_each_dtype([&](Dtype from) {
    for_each_dtype([&](Dtype to) {
      if (from == to) return;
      Case c("convert " + std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)));
      Value* x = c.input(from, edge_values(from));
      c.output(c.builder().convert(x, to));
      if (is_int(from) && is_int(to)) c.output(c.builder().convert(x, to, {}, true));
      if (can_bitcast(from, to)) {
        c.output(c.builder().bitcast(c.input(from, without_nan(edge_values(from), from)), to));
      }
      cases.push_back(c.take());
    });
  });
  return cases;
}

std::vector<SweepCase> lanes_sweep() {
  std::vector<SweepCase> cases;
  for_each_dtype([&](Dtype t) {
    cases.push_back(move_case(t));
    std::vector<OpId> ids;
    if (!is_bool(t)) ids = {OpId::add, OpId::mul, OpId::minimum, OpId::fmax};
    if (!is_float(t)) ids.push_back(OpId::bit_xor);
    for (const bool masked : {false, true}) {
      for (const bool descending : {false, true}) cases.push_back(order_case(t, masked, descending));
      for (const OpId id : ids) cases.push_back(combine_case(t, id, masked));
    }
  });
  return cases;
}

std::vector<SweepCase> reduction_sweep() {
  std::vector<SweepCase> cases;
  for_each_dtype([&](Dtype t) {
    std::vector<std::string> ways;
    if (!is_bool(t)) ways = {"sum", "prod", "min", "max", "fmin", "fmax", "argmin", "argmax"};
    if (!is_float(t)) ways.insert(ways.end(), {"and", "or", "xor"});
    for (const std::string& how : ways) {
      cases.push_back(reduction_case(how, t, false));
      cases.push_back(reduction_case(how, t, true));
    }
  });
  return cases;
}

}  // namespace tileweave::property
