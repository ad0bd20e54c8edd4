// Parses {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and nothing more of Python.
// Under load_npy and save_npy.
#include "tileweave/jit/runtime/npy_header.h"

#include <charconv>
#include <optional>

namespace tileweave::runtime::npy {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Header run() {
    if (!accept("{")) return wrong("it is no dictionary");
    bool seen[3] = {};
    while (!accept("}")) {
      const std::optional<std::string_view> key = string();
      if (!key || !accept(":")) return wrong("a key is malformed");
      const int which = *key == "descr" ? 0 : *key == "fortran_order" ? 1 : *key == "shape" ? 2 : -1;
      if (which < 0 || seen[which]) return wrong("key '" + std::string(*key) + "' is not known or comes twice");
      seen[which] = true;
      const bool ok = which == 0 ? descr() : which == 1 ? order() : shape();
      if (!ok) return wrong(why_.empty() ? "the value of '" + std::string(*key) + "' is malformed" : why_);
      if (!accept(",") && !rest_.starts_with('}')) return wrong("a comma is missing");
    }
    skip_blanks();
    if (!rest_.empty()) return wrong("text follows the dictionary");
    if (!seen[0] || !seen[1] || !seen[2]) return wrong("a key is missing");
    return header_;
  }

 private:
  Header wrong(const std::string& why) {
    Header h;
    h.wrong = why.starts_with("element type") || why.starts_with("a tensor") ? why : "its header is damaged: " + why;
    return h;
  }
  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  bool accept(std::string_view word) {
    skip_blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    skip_blanks();
    return true;
  }
  std::optional<std::string_view> string() {
    skip_blanks();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inside = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return inside;
  }
  bool descr() {
    const std::optional<std::string_view> s = string();
    if (!s) {
      why_ = "element type is a structure or no string: only plain arrays are read";
      return false;
    }
    // "<f4": byte order, kind, bytes.
    const std::string_view orders = "<>|=", d = *s;
    std::optional<Dtype> found;
    if (d.size() >= 3 && d.size() <= 4 && orders.find(d[0]) != std::string_view::npos) {
      for (int i = 0; i < dtype_count; ++i) {
        const auto t = static_cast<Dtype>(i);
        if (t == Dtype::bf16 || t == Dtype::f8e4m3 || t == Dtype::f8e5m2) continue;
        const char kind = is_bool(t) ? 'b' : is_float(t) ? 'f' : is_signed(t) ? 'i' : 'u';
        if (d[1] == kind && d.substr(2) == std::to_string(dtype_bytes(t))) found = t;
      }
    }
    if (!found) {
      why_ = "element type '" + std::string(d) + "' is not one of ours";
      return false;
    }
    header_.dtype = *found;
    header_.is_big_endian = d[0] == '>' && dtype_bytes(*found) > 1;
    return true;
  }
  bool order() {
    header_.is_fortran_order = accept("True");
    return header_.is_fortran_order || accept("False");
  }
  bool shape() {
    if (!accept("(")) return false;
    while (!accept(")")) {
      std::int64_t extent = 0;
      const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (code != std::errc() || extent < 0) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      if (rest_.starts_with('L')) rest_.remove_prefix(1);  // a long of Python 2
      header_.extents.push_back(extent);
      if (header_.extents.rank() > max_rank) {
        why_ = "a tensor has at most 6 axes";
        return false;
      }
      if (!accept(",") && !rest_.starts_with(')')) return false;
    }
    return true;
  }

  std::string_view rest_;
  Header header_;
  std::string why_;
};

}  // namespace

Header parse_header(std::string_view text) { return Parser(text).run(); }

std::string make_header(const std::string& descr, const Dims& extents) {
  std::string shape;
  for (const std::int64_t e : extents) shape += std::to_string(e) + ", ";
  if (extents.rank() > 1) shape.resize(shape.size() - 2);
  if (extents.rank() == 1) shape.resize(shape.size() - 1);
  std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr std::size_t before = 10;  // magic number, version, length
  while ((before + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(text.size() & 0xff);
  start += static_cast<char>(text.size() >> 8);
  return start + text;
}

}  // namespace tileweave::runtime::npy
