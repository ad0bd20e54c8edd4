// Reads tile IR text, canonical or readable, back into a function: recursive descent over lex.h's tokens.
// Takes text of any origin: malformed text is a CompileError with its line, and what comes out is verified.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/builder.h"
#include "tileweave/jit/ir/function.h"
#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/ir/lex.h"
#include "tileweave/jit/ir/limits.h"

namespace tileweave::ir {
namespace {

[[noreturn]] void fail_at(const Token& t, const std::string& message) {
  throw_compile_error(Place("tile IR", t.line, t.column), message + " (column " + std::to_string(t.column) + ")");
}

std::string shown(const Token& t) {
  if (t.kind == Token::Kind::end) return "the end of the text";
  return "'" + std::string(t.kind == Token::Kind::value ? "%" : "") + std::string(t.text.substr(0, 40)) + "'";
}

// An attribute as written: reals and negative integers get their bits once the op's element type is known.
struct RawAttr {
  AttrKey key;
  AttrValue value;
  std::optional<double> real;
};

enum class AttrKind { integer, bits, list, word };
AttrKind kind_of(AttrKey k) {
  switch (k) {
    case AttrKey::extents:
    case AttrKey::perm:
    case AttrKey::starts:
      return AttrKind::list;
    case AttrKey::combine:
    case AttrKey::precision:
    case AttrKey::hint:
    case AttrKey::text:
    case AttrKey::place:
    case AttrKey::name:
    case AttrKey::constraints:
    case AttrKey::order:
    case AttrKey::scope:
      return AttrKind::word;
    case AttrKey::value:
    case AttrKey::pad:
      return AttrKind::bits;
    default:
      return AttrKind::integer;
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text), token_(lexer_.next()) {}

  // Functions that are called come first, the kernel last.
  Function parse() {
    std::vector<Function> all;
    do {
      all.push_back(function());
    } while (is("func"));
    if (token_.kind != Token::Kind::end) fail_at(token_, "expected the end of the text, got " + shown(token_));
    if (tile_param_) {
      fail_at(*tile_param_,
              "a parameter is a view or a scalar, not " + to_string(all.back().params[tile_number_].value->type));
    }
    Function kernel = std::move(all.back());
    all.pop_back();
    kernel.callees = std::move(all);
    return kernel;
  }
  std::size_t largest_block() const { return largest_block_; }

 private:
  Function function() {
    expect_word("func");
    Function f(string_text());
    function_ = &f;
    values_.clear();
    tile_param_.reset();
    Builder builder(f);
    builder_ = &builder;
    params();
    if (accept_word("with")) options(f.options);
    expect("{");
    f.place = lexer_.take_place();
    ops(0);
    expect("}");
    return f;
  }

  // --- tokens
  Token take() {
    const Token t = token_;
    token_ = lexer_.next();
    return t;
  }
  bool is(std::string_view text) const {
    return (token_.kind == Token::Kind::punctuation || token_.kind == Token::Kind::word) && token_.text == text;
  }
  bool accept(std::string_view p) {
    if (!is(p)) return false;
    take();
    return true;
  }
  bool accept_word(std::string_view w) { return accept(w); }
  void expect(std::string_view p) {
    if (!accept(p)) fail_at(token_, "expected '" + std::string(p) + "', got " + shown(token_));
  }
  void expect_word(std::string_view w) { expect(w); }
  Token expect_kind(Token::Kind kind, std::string_view what) {
    if (token_.kind != kind) fail_at(token_, "expected " + std::string(what) + ", got " + shown(token_));
    return take();
  }

  std::int64_t integer() {
    const Token t = expect_kind(Token::Kind::integer, "a whole number");
    std::int64_t v = 0;
    const auto r = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
    if (r.ec != std::errc() || r.ptr != t.text.data() + t.text.size()) {
      fail_at(t, shown(t) + " does not fit a signed 64-bit number");
    }
    return v;
  }

  double real() {
    const Token t = expect_kind(Token::Kind::real, "a number");
    double v = 0;
    const auto r = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
    if (r.ec == std::errc::invalid_argument || r.ptr != t.text.data() + t.text.size()) {
      fail_at(t, shown(t) + " is no number");
    }
    return v;
  }

  std::string string_text() {
    const Token t = expect_kind(Token::Kind::string, "a quoted name");
    std::string out;
    for (std::size_t i = 1; i + 1 < t.text.size(); ++i) {
      if (t.text[i] != '\\') {
        out += t.text[i];
        continue;
      }
      unsigned code = 0;
      const char* p = t.text.data() + i + 1;
      if (i + 3 >= t.text.size() || std::from_chars(p, p + 2, code, 16).ptr != p + 2) {
        fail_at(t, "a backslash is followed by two hexadecimal digits");
      }
      out += static_cast<char>(code);
      i += 2;
    }
    return out;
  }

  // --- types
  Dtype elem() {
    const Token t = expect_kind(Token::Kind::word, "an element type");
    const auto d = dtype_from_name(t.text);
    if (!d) fail_at(t, "there is no element type " + shown(t));
    return *d;
  }

  std::vector<std::int64_t> integers() {
    std::vector<std::int64_t> e;
    expect("[");
    if (accept("]")) return e;
    do {
      if (e.size() == max_rank) fail_at(token_, "more than " + std::to_string(max_rank) + " axes");
      e.push_back(integer());
    } while (accept(","));
    expect("]");
    return e;
  }

  std::vector<std::int64_t> tile_extents() {
    const Token at = token_;
    if (!is("[")) return {};
    const std::vector<std::int64_t> e = integers();
    for (const std::int64_t n : e) {
      if (n < 1) fail_at(at, "an extent must be at least 1, got " + std::to_string(n));
    }
    if (e.empty()) fail_at(at, "a scalar is written without extents");
    return e;
  }

  Type type() {
    if (accept_word("view")) {
      expect("<");
      const bool is_const = accept_word("const");
      const Dtype t = elem();
      expect(",");
      const Token at = token_;
      const std::int64_t rank = integer();
      if (rank < 0 || rank > max_rank) fail_at(at, "a view has 0 to " + std::to_string(max_rank) + " axes");
      expect(">");
      return Type::view(t, static_cast<int>(rank), is_const);
    }
    if (accept_word("ptr")) {
      expect("<");
      const bool is_const = accept_word("const");
      const Dtype t = elem();
      expect(">");
      return Type::pointer(t, is_const, tile_extents());
    }
    const Dtype t = elem();
    return Type::tile(t, tile_extents());
  }

  // --- values
  void define(const Token& t, Value* v) {
    if (t.text.empty()) fail_at(t, "a value needs a name after %");
    if (!values_.emplace(t.text, v).second) fail_at(t, shown(t) + " is defined twice");
    // "%row.3" is the user's name and a number, "%3" the number alone.
    const std::size_t dot = t.text.rfind('.');
    if (dot != std::string_view::npos && dot > 0) v->name = std::string(t.text.substr(0, dot));
  }

  Value* use() {
    const Token t = expect_kind(Token::Kind::value, "a value");
    const auto at = values_.find(t.text);
    if (at == values_.end()) fail_at(t, shown(t) + " is not defined");
    return at->second;
  }

  // --- the head
  // "{name = integer, ...}"
  template <class Set>
  void items(Set set) {
    expect("{");
    do {
      const Token key = expect_kind(Token::Kind::word, "a name");
      expect("=");
      const Token at = token_;
      if (!set(key.text, integer(), at)) fail_at(key, "there is no " + shown(key) + " here");
    } while (accept(","));
    expect("}");
  }

  static std::int64_t in_range(std::int64_t v, std::int64_t most, const Token& at) {
    if (v < 0 || v > most) fail_at(at, std::to_string(v) + " is outside 0 to " + std::to_string(most));
    return v;
  }

  void options(Options& o) {
    items([&](std::string_view key, std::int64_t v, const Token& at) {
      if (key == "warps")
        o.warps = static_cast<int>(in_range(v, 1024, at));
      else if (key == "stages")
        o.stages = static_cast<int>(in_range(v, 1024, at));
      else if (key == "fast_math")
        o.fast_math = in_range(v, 1, at) != 0;
      else if (key == "no_contract")
        o.contract = in_range(v, 1, at) == 0;
      else if (key == "checked")
        o.checked = in_range(v, 1, at) != 0;
      else if (key == "overflow")
        o.overflow = in_range(v, 1, at) != 0;
      else if (key == "debug")
        o.debug = static_cast<int>(in_range(v, 2, at));
      else
        return false;
      return true;
    });
  }

  void params() {
    expect("(");
    if (accept(")")) return;
    do {
      const Token name = expect_kind(Token::Kind::value, "a parameter");
      expect(":");
      const Type t = type();
      if (!t.is_view() && t.rank != 0 && !tile_param_) {
        tile_param_ = name;
        tile_number_ = function_->params.size();
      }
      define(name, function_->add_param(t, ""));
      if (is("{")) facts(function_->params.back());
    } while (accept(","));
    expect(")");
  }

  void facts(Param& p) {
    const std::int64_t axes = (std::int64_t{1} << p.value->type.rank) - 1;
    const bool view = p.value->type.is_view();
    ViewFacts& f = p.facts;
    items([&](std::string_view key, std::int64_t v, const Token& at) {
      if (!view && key == "constant")
        p.constant = static_cast<std::uint64_t>(v);
      else if (!view)
        return false;
      else if (key == "unit_stride")
        f.unit_stride = static_cast<std::uint8_t>(in_range(v, axes, at));
      else if (key == "zero_stride")
        f.zero_stride = static_cast<std::uint8_t>(in_range(v, axes, at));
      else if (key == "aligned_stride")
        f.aligned_stride = static_cast<std::uint8_t>(in_range(v, axes, at));
      else if (key == "aligned_base")
        f.aligned_base = in_range(v, 1, at) != 0;
      else if (key == "offsets_fit_32")
        f.offsets_fit_32 = in_range(v, 1, at) != 0;
      else if (key == "may_alias")
        f.may_alias = in_range(v, 1, at) != 0;
      else
        return false;
      return true;
    });
  }

  // --- ops
  void ops(int depth) {
    std::size_t count = 0;
    while (!is("}")) {
      if (token_.kind == Token::Kind::end) fail_at(token_, "expected an operation or '}', got " + shown(token_));
      op(depth);
      ++count;
    }
    largest_block_ = std::max(largest_block_, count);
  }

  std::vector<Token> result_names() {
    std::vector<Token> names;
    if (token_.kind != Token::Kind::value) return names;
    do names.push_back(expect_kind(Token::Kind::value, "a result"));
    while (accept(","));
    expect("=");
    return names;
  }

  void op(int depth) {
    const std::vector<Token> names = result_names();
    const Token mnemonic = expect_kind(Token::Kind::word, "an operation");
    const auto id = op_from_name(mnemonic.text);
    if (!id) fail_at(mnemonic, "there is no operation " + shown(mnemonic));
    std::vector<Value*> operands;
    if (token_.kind == Token::Kind::value && token_.line == mnemonic.line) {
      do operands.push_back(use());
      while (accept(","));
    }
    std::vector<RawAttr> raw;
    if (is("{")) raw = attrs();
    std::vector<Type> types;
    if (accept(":")) {
      do types.push_back(type());
      while (accept(","));
    }
    Op* made = make(mnemonic, *id, std::move(operands), attrs_of(raw, types, mnemonic), types);
    if (made->results.size() != names.size() || types.size() != names.size()) {
      fail_at(mnemonic, shown(mnemonic) + " gives " + std::to_string(made->results.size()) + " results, " +
                            std::to_string(names.size()) + " are named and " + std::to_string(types.size()) + " typed");
    }
    made->place = lexer_.take_place();
    regions(made, depth);
    for (std::size_t i = 0; i < names.size(); ++i) define(names[i], made->results[i]);
  }

  Op* make(const Token& at, OpId id, std::vector<Value*> operands, Attrs attributes, const std::vector<Type>& types) {
    try {
      Op* made = builder_->insert(id, std::move(operands), std::move(attributes), types, {});
      for (std::size_t i = 0; i < std::min(types.size(), made->results.size()); ++i) {
        if (made->results[i]->type == types[i]) continue;
        fail_at(at, shown(at) + " gives " + to_string(made->results[i]->type) + ", not " + to_string(types[i]));
      }
      return made;
    } catch (const RecordError& e) {
      fail_at(at, e.diagnostic().message);
    }
  }

  std::vector<RawAttr> attrs() {
    std::vector<RawAttr> list;
    expect("{");
    do {
      const Token name = expect_kind(Token::Kind::word, "an attribute");
      const auto key = attr_from_name(name.text);
      if (!key) fail_at(name, "there is no attribute " + shown(name));
      for (const RawAttr& r : list) {
        if (r.key == *key) fail_at(name, "attribute " + shown(name) + " is given twice");
      }
      expect("=");
      list.push_back(attr_value(*key));
    } while (accept(","));
    expect("}");
    return list;
  }

  RawAttr attr_value(AttrKey key) {
    switch (kind_of(key)) {
      case AttrKind::list:
        return {key, integers(), {}};
      case AttrKind::word:
        if (token_.kind == Token::Kind::string) return {key, string_text(), {}};
        return {key, std::string(expect_kind(Token::Kind::word, "a word").text), {}};
      case AttrKind::bits:
        if (accept_word("inf")) return {key, std::int64_t{0}, HUGE_VAL};
        if (accept_word("nan")) return {key, std::int64_t{0}, std::nan("")};
        if (token_.kind == Token::Kind::real) return {key, std::int64_t{0}, real()};
        return {key, integer(), {}};
      case AttrKind::integer:
        break;
    }
    return {key, integer(), {}};
  }

  // Canonical text holds bits; for people, 1.5 and -1 are understood by the op's element type.
  static Attrs attrs_of(const std::vector<RawAttr>& raw, const std::vector<Type>& types, const Token& at) {
    Attrs out;
    for (const RawAttr& r : raw) {
      AttrValue value = r.value;
      if (kind_of(r.key) == AttrKind::bits) {
        if (types.size() != 1) fail_at(at, shown(at) + " needs one result type");
        value = static_cast<std::int64_t>(bits_of(r, types[0].elem));
      }
      out.set(r.key, std::move(value));
    }
    return out;
  }

  static std::uint64_t bits_of(const RawAttr& r, Dtype t) {
    if (r.real) return host::from_double(*r.real, t);
    const std::int64_t v = std::get<std::int64_t>(r.value);
    if (v < 0 && is_signed(t) && host::to_int64(host::from_int(v, t), t) == v) return host::from_int(v, t);
    return static_cast<std::uint64_t>(v);
  }

  void regions(Op* owner, int depth) {
    while (is("do")) {
      const Token at = take();
      if (depth == max_region_depth) {
        fail_at(at, "regions are nested more than " + std::to_string(max_region_depth) + " deep");
      }
      if (owner->regions.size() == 2) fail_at(at, "an operation has at most two regions");
      expect("{");
      const Place p = lexer_.take_place();
      if (p.known()) owner->place = p;
      std::vector<Token> names;
      std::vector<Type> types;
      if (accept("(")) {
        do {
          names.push_back(expect_kind(Token::Kind::value, "an argument"));
          expect(":");
          types.push_back(type());
        } while (accept(","));
        expect(")");
      }
      Region* r = builder_->add_region(owner, types);
      for (std::size_t i = 0; i < names.size(); ++i) define(names[i], r->args[i]);
      builder_->enter(r);
      ops(depth + 1);
      builder_->leave();
      expect("}");
    }
  }

  Lexer lexer_;
  Token token_;
  Function* function_ = nullptr;
  Builder* builder_ = nullptr;
  std::unordered_map<std::string_view, Value*> values_;
  std::size_t largest_block_ = 0;
  std::optional<Token> tile_param_;  // of the function being read: only one that is called may have it
  std::size_t tile_number_ = 0;
};

}  // namespace

Function parse(std::string_view text) {
  Parser parser(text);
  Function f = parser.parse();
  try {
    // Only an expanded function may hold so large a block; the stage is not part of the text.
    verify(f, parser.largest_block() > max_block_ops ? Stage::expanded : Stage::recorded);
  } catch (const Error& e) {
    // Said by the verifier as a mistake of ours; here it is one of the text's.
    std::string m = e.diagnostic().message;
    const std::size_t begin = m.find("malformed tile IR");
    if (begin != std::string::npos) m = m.substr(begin, m.rfind(" (") - begin);
    throw_compile_error(Place("tile IR", 1, 1), m);
  }
  return f;
}

}  // namespace tileweave::ir
