// Tile IR as text: canonical (hashed, compared) and readable (with names and places). parse.cpp reads both back.
// Called by dumps, keys, errors and tests.
#include <cstdio>
#include <ostream>
#include <unordered_map>

#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::ir {
namespace {

bool is_word(const std::string& s) {
  for (const char c : s) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(c >= '0' && c <= '9')) return false;
  }
  return !s.empty();
}

std::string quoted(const std::string& s) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || c == '"' || c == '\\') {
      out += {'\\', hex[u >> 4], hex[u & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

class Printer {
 public:
  explicit Printer(bool readable) : readable_(readable) {}

  std::string print(const Function& f) {
    for (const Function& callee : f.callees) {
      print_function(callee);
      out_ += "\n";
      names_.clear();
      next_ = 0;
    }
    print_function(f);
    return std::move(out_);
  }

 private:
  void print_function(const Function& f) {
    out_ += "func " + quoted(f.name) + "(";
    for (const Param& p : f.params) {
      if (&p != &f.params.front()) out_ += ", ";
      print_param(p);
    }
    out_ += ")";
    print_options(f.options);
    out_ += " {";
    print_place(f.place);
    out_ += "\n";
    print_ops(f.body(), 1);
    out_ += "}\n";
  }

  // "{a = 1, b = 2}" of the items that are not zero.
  void print_items(std::string_view before, std::initializer_list<std::pair<std::string_view, std::int64_t>> items) {
    bool first = true;
    for (const auto& [name, value] : items) {
      if (value == 0) continue;
      out_ += (first ? std::string(before) + " {" : ", ") + std::string(name) + " = " + std::to_string(value);
      first = false;
    }
    if (!first) out_ += "}";
  }

  void print_options(const Options& o) {
    print_items(" with", {{"warps", o.warps},
                          {"stages", o.stages},
                          {"fast_math", o.fast_math},
                          {"no_contract", !o.contract},
                          {"checked", o.checked},
                          {"overflow", o.overflow},
                          {"debug", o.debug}});
  }

  void print_param(const Param& p) {
    define(p.value);
    out_ += ": " + to_string(p.value->type);
    const ViewFacts& f = p.facts;
    print_items("", {{"unit_stride", f.unit_stride},
                     {"zero_stride", f.zero_stride},
                     {"aligned_stride", f.aligned_stride},
                     {"aligned_base", f.aligned_base},
                     {"offsets_fit_32", f.offsets_fit_32},
                     {"may_alias", f.may_alias}});
    if (p.constant) out_ += " {constant = " + std::to_string(static_cast<std::int64_t>(*p.constant)) + "}";
  }

  void define(const Value* v) {
    std::string& name = names_[v];
    name = std::to_string(next_++);
    if (readable_ && is_word(v->name)) name = v->name + "." + name;
    out_ += "%" + name;
  }

  void use(const Value* v) {
    const auto at = names_.find(v);
    out_ += "%" + (at == names_.end() ? "?" : at->second);  // "?": a broken function, printed to be looked at
  }

  void print_attr(const AttrValue& v) {
    if (const auto* i = std::get_if<std::int64_t>(&v)) {
      out_ += std::to_string(*i);
    } else if (const auto* s = std::get_if<std::string>(&v)) {
      out_ += is_word(*s) ? *s : quoted(*s);
    } else {
      out_ += "[";
      bool first = true;
      for (const std::int64_t i : std::get<std::vector<std::int64_t>>(v)) {
        out_ += (first ? "" : ", ") + std::to_string(i);
        first = false;
      }
      out_ += "]";
    }
  }

  void print_attrs(const Attrs& attrs) {
    bool first = true;
    for (const auto& [key, value] : attrs.items()) {
      out_ += (first ? " {" : ", ") + std::string(attr_name(key)) + " = ";
      print_attr(value);
      first = false;
    }
    if (!first) out_ += "}";
  }

  void print_ops(const Region& r, int depth) {
    for (const auto& op : r.ops) print_op(*op, depth);
  }

  void print_op(const Op& op, int depth) {
    out_.append(static_cast<std::size_t>(2 * depth), ' ');
    for (const Value* v : op.results) {
      if (v != op.results.front()) out_ += ", ";
      define(v);
    }
    if (!op.results.empty()) out_ += " = ";
    out_ += op_info(op.id).name;
    for (Value* const& v : op.operands) {
      out_ += &v == &op.operands.front() ? " " : ", ";
      use(v);
    }
    print_attrs(op.attrs);
    for (const Value* v : op.results) out_ += (v == op.results.front() ? " : " : ", ") + to_string(v->type);
    for (const auto& r : op.regions) print_region(*r, depth, r == op.regions.front() ? op.place : Place{});
    if (op.regions.empty()) {
      print_value(op);
      print_place(op.place);
    }
    out_ += "\n";
  }

  void print_region(const Region& r, int depth, const Place& p) {
    out_ += " do {";
    print_place(p);
    out_ += "\n";
    if (!r.args.empty()) {
      out_.append(static_cast<std::size_t>(2 * depth), ' ');
      for (const Value* v : r.args) {
        out_ += v == r.args.front() ? "(" : ", ";
        define(v);
        out_ += ": " + to_string(v->type);
      }
      out_ += ")\n";
    }
    print_ops(r, depth + 1);
    out_.append(static_cast<std::size_t>(2 * depth), ' ');
    out_ += "}";
  }

  // What a constant's bits mean, for readers.
  void print_value(const Op& op) {
    if (!readable_ || op.id != OpId::constant || op.results.empty()) return;
    const Dtype t = op.results[0]->type.elem;
    const auto bits = static_cast<std::uint64_t>(op.attrs.get_int(AttrKey::value));
    char text[40];
    if (is_float(t)) {
      std::snprintf(text, sizeof text, "  ; = %.9g", host::to_double(bits, t));
    } else {
      std::snprintf(text, sizeof text, "  ; = %lld", static_cast<long long>(host::to_int64(bits, t)));
    }
    out_ += text;
  }

  void print_place(const Place& p) {
    if (!readable_ || !p.known()) return;
    out_ += "  ; at " + to_string(p) + ":" + std::to_string(p.column);
  }

  bool readable_;
  std::string out_;
  std::unordered_map<const Value*, std::string> names_;
  int next_ = 0;
};

}  // namespace

std::string to_text(const Function& f) { return Printer(false).print(f); }
std::string to_readable(const Function& f) { return Printer(true).print(f); }
std::ostream& operator<<(std::ostream& out, const Function& f) { return out << to_readable(f); }

}  // namespace tileweave::ir
