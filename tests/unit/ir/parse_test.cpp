// The printer and the parser: round trips, places, and text that is no function.
// Stands beside jit/ir/print.cpp, lex.cpp and parse.cpp.
#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/builder.h"

using namespace tileweave;
using namespace tileweave::ir;

namespace {

constexpr const char* everything =
    R"(func "all of it"(%0: view<const f32, 2> {unit_stride = 2, aligned_base = 1}, %1: view<f32, 2>, %2: i32 {constant = 7}, %3: ptr<const i8>) with {warps = 4, no_contract = 1} {
  %4 = program_id {axis = 0} : i64
  %5 = constant {value = 0} : i64
  %6 = load %0, %4, %5 {extents = [1, 8], pad = 0} : f32[1,8]
  %7 = inside %0, %4, %5 {extents = [1, 8]} : bool[1,8]
  %8 = reduce %6, %7 {axis = 1, masked = 1, combine = max} : f32[1]
  %9 = var %8 : f32[1]
  %10 = constant {value = 4} : i64
  %11 = constant {value = 1} : i64
  for %5, %10, %11 do {
  (%12: i64)
    %13 = var_get %9 : f32[1]
    %14 = add %13, %13 : f32[1]
    var_set %9, %14
    yield
  }
  %15, %16 = for %5, %10, %11, %6, %5 : f32[1,8], i64 do {
  (%17: i64, %18: f32[1,8], %19: i64)
    %20 = exp %18 : f32[1,8]
    yield %20, %17
  }
  %21 = lt %4, %10 : bool
  %22 = if %21 : f32[1,8] do {
    yield %15
  } do {
    yield %6
  }
  %23 = while %22 : f32[1,8] do {
  (%24: f32[1,8])
    %25 = lt %4, %5 : bool
    condition %25, %24
  } do {
  (%26: f32[1,8])
    yield %26
  }
  store %1, %4, %5, %23, %7 {masked = 1}
}
)";

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const CompileError& e) {
    return e.what();
  }
  return "no error";
}

std::string body(const std::string& ops) { return "func \"k\"(%0: view<f32, 1>) {\n" + ops + "}\n"; }

}  // namespace

TEST_CASE("canonical text is read back to equal text") {
  const Function f = parse(everything);
  CHECK(to_text(f) == everything);
  CHECK(f.options.warps == 4);
  CHECK_FALSE(f.options.contract);
  CHECK(f.params[0].facts.unit_stride == 2);
  CHECK(f.params[0].facts.aligned_base);
  CHECK(f.params[2].constant == 7);
  CHECK(to_text(f.clone()) == everything);
}

TEST_CASE("readable text keeps names and places, and is the same function") {
  Function f("named");
  f.place = Place("k.cpp", 1, 2);
  Value* y = f.add_param(Type::view(Dtype::f32, 1, false), "y");
  Builder b(f);
  Value* row = b.program_id(0, Place("k.cpp", 3, 5));
  row->name = "row";
  Value* x = b.constant(Type::tile(Dtype::f32, {4}), 1.5, Place("dir with space/k.cpp", 4, 7));
  Value* const offsets[] = {row};
  b.begin_if(b.elementwise(OpId::lt, {row, b.index(2)}), Place("k.cpp", 5, 1));
  b.store(y, offsets, x, nullptr, Place("k.cpp", 6, 9));
  b.end_if();

  const std::string text = to_readable(f);
  CHECK(text.find("%row.1 = program_id {axis = 0} : i64  ; at k.cpp:3:5\n") != std::string::npos);
  CHECK(text.find("; = 1.5  ; at dir with space/k.cpp:4:7\n") != std::string::npos);
  const Function g = parse(text);
  CHECK(to_readable(g) == text);
  CHECK(to_text(g) == to_text(f));
  CHECK(g.place.line == 1);
  std::ostringstream out;
  out << f;
  CHECK(out.str() == text);
}

TEST_CASE("numbers for people become bits") {
  const Function f =
      parse(body("%1 = constant {value = 1.5} : f16\n"
                 "%2 = constant {value = -1} : i8\n"
                 "%3 = constant {value = -inf} : f32\n"
                 "%4 = constant {value = nan} : f8e4m3\n"));
  const auto at = [&](std::size_t i) { return constant_of(f.body().ops[i]->result()).value(); };
  CHECK(at(0) == 0x3e00);
  CHECK(at(1) == 0xff);
  CHECK(at(2) == 0xff800000);
  CHECK(at(3) == 0x7f);
}

TEST_CASE("function names are any bytes") {
  Function f("a\"b\\c\n");
  const Function g = parse(to_text(f));
  CHECK(g.name == f.name);
  CHECK(to_text(g) == to_text(f));
}

TEST_CASE("malformed text says where") {
  CHECK(error_of("") == "tile IR:1: error: expected 'func', got the end of the text (column 1)");
  CHECK(error_of(body("  %1 = frobnicate : f32\n")) ==
        "tile IR:2: error: there is no operation 'frobnicate' (column 8)");
  CHECK(error_of(body("  %1 = exp %7 : f32\n")) == "tile IR:2: error: '%7' is not defined (column 12)");
  CHECK(error_of(body("  %1 = constant {value = 0} : f32\n  %1 = exp %1 : f32\n")) ==
        "tile IR:3: error: '%1' is defined twice (column 3)");
  CHECK(error_of(body("  %1 = constant {value = 0} : i32\n  %2 = exp %1 : i32\n")) ==
        "tile IR:3: error: exp: takes floating-point tiles, got i32 (column 8)");
  CHECK(error_of(body("  %1 = constant {value = 0} : f32\n  %2 = exp %1 : f64\n")) ==
        "tile IR:3: error: 'exp' gives f32, not f64 (column 8)");
  CHECK(error_of(body("  %1 = constant {value = 0} : f32[0]\n")) ==
        "tile IR:2: error: an extent must be at least 1, got 0 (column 34)");
  CHECK(error_of(body("  %1 = constant {value = 99999999999999999999} : i64\n")) ==
        "tile IR:2: error: '99999999999999999999' does not fit a signed 64-bit number (column 26)");
  CHECK(error_of(body("  yield\n")) ==
        "tile IR:1: error: malformed tile IR in 'k', op yield: a terminator ends a region");
  CHECK(error_of(body("  %1 = constant {value = 0} : f32[2097152]\n")) ==
        "tile IR:2: error: constant: the tile f32[2097152] has 2097152 elements, over the limit of 1048576 (column 8)");
}

TEST_CASE("hostile text ends in an error or a verified function, never worse") {
  const std::string good = everything;
  // Every prefix, and every single-byte change of a kind the lexer knows.
  for (std::size_t n = 0; n < good.size(); n += 3) CHECK(error_of(good.substr(0, n)) != "no error");
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char c : {'%', '{', '}', '0', '9', ',', '-', 'x', '\0', '"', '\n', '\xff'}) {
      std::string bad = good;
      bad[i] = c;
      const std::string message = error_of(bad);
      CHECK(!message.empty());
    }
  }
  std::string deep = "func \"k\"() {\n%c = constant {value = 1} : bool\n";
  for (int i = 0; i < 100000; ++i) deep += "if %c do {\n";
  CHECK(error_of(deep).find("nested more than 64 deep") != std::string::npos);
}
