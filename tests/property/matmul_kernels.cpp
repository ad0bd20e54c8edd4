// See matmul_kernels.h.
// Beside gpu_kernels.cpp.
#include "tests/property/matmul_kernels.h"

#include "tests/property/kernel_builder.h"

namespace tileweave::property {
namespace {

using namespace ir;

Dtype accumulator_of(Dtype t) { return t == Dtype::f64 ? t : is_float(t) ? Dtype::f32 : Dtype::i32; }

constexpr int swapped[] = {1, 0};

// A matrix with rows along axis 0, whose neighbours in memory are along axis 1, or along axis 0 where `columns`.
Value* matrix(Kernel& k, Dtype t, std::int64_t rows, std::int64_t columns, bool by_columns, std::int64_t pitch) {
  const std::int64_t line = (by_columns ? rows : columns) + pitch;
  return k.input(t, {rows, columns}, by_columns ? Extents{1, line} : Extents{line, 1});
}

Value* block(Kernel& k, Value* view, Value* row, Value* column, std::int64_t rows, std::int64_t columns, bool trans) {
  if (!trans) return k.load(view, {row, column}, {rows, columns});
  return k.b.trans(k.load(view, {column, row}, {columns, rows}), swapped);
}

// The loop over k, for blocks at row, column: the sum.
Value* multiply(Kernel& k, Value* a, Value* b, Value* row, Value* column, const MatmulShape& s, Dtype t) {
  Value* sum = k.b.var(k.b.constant(Type::tile(accumulator_of(t), {s.block_m, s.block_n}), 0.0));
  Value* at = k.b.begin_for(k.b.index(s.first), k.b.index(s.k), k.b.index(s.block_k));
  Value* x = block(k, a, row, at, s.block_m, s.block_k, s.trans_a);
  Value* y = block(k, b, at, column, s.block_k, s.block_n, s.trans_b);
  k.b.var_set(sum, k.b.dot(x, y, k.b.var_get(sum), s.tf32 ? "tf32" : ""));
  k.b.end_for();
  return k.b.var_get(sum);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void set_options(Kernel& k, const MatmulShape& s) {
  k.options().warps = s.warps;
  k.options().stages = s.stages;
}

SweepCase batched(Dtype t, const MatmulShape& s) {
  Kernel k(name_of(t, s));
  set_options(k, s);
  Value *a = k.input(t, {s.batch, s.m, s.k}), *b = k.input(t, {s.batch, s.k, s.n});
  Value* c = k.output(accumulator_of(t), {s.batch, s.m, s.n});
  Value *row = k.program(0, s.block_m), *column = k.program(1, s.block_n), *first = k.program(2, 2);
  Value* sum = k.b.var(k.b.constant(Type::tile(accumulator_of(t), {2, s.block_m, s.block_n}), 0.0));
  Value* at = k.b.begin_for(k.b.index(0), k.b.index(s.k), k.b.index(s.block_k));
  Value* x = k.load(a, {first, row, at}, {2, s.block_m, s.block_k});
  Value* y = k.load(b, {first, at, column}, {2, s.block_k, s.block_n});
  k.b.var_set(sum, k.b.dot(x, y, k.b.var_get(sum), ""));
  k.b.end_for();
  k.store(c, {first, row, column}, k.b.var_get(sum));
  return k.take({ceil_div(s.m, s.block_m), ceil_div(s.n, s.block_n), ceil_div(s.batch, 2)});
}

}  // namespace

std::string name_of(Dtype t, const MatmulShape& s) {
  std::string name = "matmul " + std::string(dtype_name(t)) + (s.tf32 ? " tf32 " : " ");
  if (s.batch > 0) name += std::to_string(s.batch) + " of ";
  name += std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + " by " +
          std::to_string(s.block_m) + "x" + std::to_string(s.block_n) + "x" + std::to_string(s.block_k);
  if (s.a_columns) name += " a by columns";
  if (s.b_columns) name += " b by columns";
  if (s.trans_a) name += " a transposed";
  if (s.trans_b) name += " b transposed";
  if (s.pitch > 0) name += " pitch +" + std::to_string(s.pitch);
  if (s.first != 0) name += " from " + std::to_string(s.first);
  if (s.warps > 0) name += " warps " + std::to_string(s.warps);
  if (s.stages > 0) name += " stages " + std::to_string(s.stages);
  return name;
}

SweepCase matmul(Dtype t, const MatmulShape& s) {
  if (s.batch > 0) return batched(t, s);
  Kernel k(name_of(t, s));
  set_options(k, s);
  const auto view = [&](std::int64_t rows, std::int64_t columns, bool by_columns, bool trans) {
    return trans ? matrix(k, t, columns, rows, !by_columns, s.pitch) : matrix(k, t, rows, columns, by_columns, s.pitch);
  };
  Value *a = view(s.m, s.k, s.a_columns, s.trans_a), *b = view(s.k, s.n, s.b_columns, s.trans_b);
  Value* c = k.output(accumulator_of(t), {s.m, s.n});
  Value *row = k.program(0, s.block_m), *column = k.program(1, s.block_n);
  k.store(c, {row, column}, multiply(k, a, b, row, column, s, t));
  return k.take({ceil_div(s.m, s.block_m), ceil_div(s.n, s.block_n), 1});
}

SweepCase linear_epilogue(const MatmulShape& s) {
  constexpr Dtype t = Dtype::f16;
  Kernel k("linear " + name_of(t, s));
  set_options(k, s);
  Value *x = matrix(k, t, s.m, s.k, false, s.pitch), *w = matrix(k, t, s.n, s.k, false, s.pitch);
  Value *bias = k.input(t, {s.n}), *residual = k.input(t, {s.m, s.n}), *y = k.output(t, {s.m, s.n});
  Value *row = k.program(0, s.block_m), *column = k.program(1, s.block_n);
  MatmulShape inner = s;
  inner.trans_b = true;
  Value* sum = multiply(k, x, w, row, column, inner, t);
  const auto [loaded, valid] = k.load_valid(bias, {column}, {s.block_n});
  Value* added = k.b.broadcast(k.b.expand_dims(k.b.convert(loaded, Dtype::f32), 0), sum->type.shape());
  Value* mask = k.b.broadcast(k.b.expand_dims(valid, 0), sum->type.shape());
  Value* old = k.b.convert(k.load(residual, {row, column}, {s.block_m, s.block_n}), Dtype::f32);
  Value* z = k.b.elementwise(OpId::add, {k.b.elementwise(OpId::gelu, {k.b.elementwise(OpId::add, {sum, added})}), old});
  k.b.store(y, std::vector<Value*>{row, column}, k.b.convert(z, t), mask);
  return k.take({ceil_div(s.m, s.block_m), ceil_div(s.n, s.block_n), 1});
}

SweepCase attention(Dtype t, std::int64_t queries, std::int64_t keys, std::int64_t depth, int stages) {
  constexpr std::int64_t block_q = 64, block_k = 32;
  Kernel k("attention " + std::string(dtype_name(t)) + " " + std::to_string(keys) + " stages " +
           std::to_string(stages));
  k.options().stages = stages;
  k.options().warps = 4;
  Value *q = k.input(t, {queries, depth}), *key = k.input(t, {keys, depth}), *value = k.input(t, {keys, depth});
  Value* out = k.output(Dtype::f32, {queries, depth});
  Value *row = k.program(0, block_q), *zero = k.b.index(0);
  const Type scores = Type::tile(Dtype::f32, {block_q, block_k}), column = Type::tile(Dtype::f32, {block_q}),
             sums = Type::tile(Dtype::f32, {block_q, depth});
  Value* x = k.load(q, {row, zero}, {block_q, depth});
  Value *top = k.b.var(k.number(column, -1e30)), *norm = k.b.var(k.number(column, 0)),
        *acc = k.b.var(k.number(sums, 0));
  Value* at = k.b.begin_for(zero, k.b.index(keys), k.b.index(block_k));
  Value* y = k.b.trans(k.load(key, {at, zero}, {block_k, depth}), swapped);
  Value* s = k.b.dot(x, y, k.number(scores, 0), "");
  s = k.b.elementwise(OpId::mul, {s, k.number(scores, 1.0 / 32)});
  // Keys past the end weigh nothing.
  Value* number = k.b.elementwise(OpId::add, {k.b.broadcast(at, Extents{block_k}), k.b.iota(block_k, Dtype::i64, 0)});
  Value* exists = k.b.elementwise(OpId::lt, {number, k.b.broadcast(k.b.index(keys), Extents{block_k})});
  exists = k.b.broadcast(k.b.expand_dims(exists, 0), scores.shape());
  s = k.b.elementwise(OpId::where, {exists, s, k.number(scores, -1e30)});
  Value* old = k.b.var_get(top);
  Value* now = k.b.elementwise(OpId::maximum, {old, k.b.reduce(s, 1, Combine::max, nullptr)});
  Value* p = k.b.elementwise(OpId::exp, {k.b.elementwise(OpId::sub, {s, k.over(now, s)})});
  Value* scale = k.b.elementwise(OpId::exp, {k.b.elementwise(OpId::sub, {old, now})});
  k.b.var_set(top, now);
  Value* total = k.b.reduce(p, 1, Combine::sum, nullptr);
  k.b.var_set(norm, k.b.elementwise(OpId::add, {k.b.elementwise(OpId::mul, {k.b.var_get(norm), scale}), total}));
  Value* kept = k.b.elementwise(OpId::mul, {k.b.var_get(acc), k.over(scale, k.b.var_get(acc))});
  Value* v = k.load(value, {at, zero}, {block_k, depth});
  k.b.var_set(acc, k.b.dot(k.b.convert(p, t), v, kept, ""));
  k.b.end_for();
  Value* sum = k.b.var_get(acc);
  k.store(out, {row, zero}, k.b.elementwise(OpId::div, {sum, k.over(k.b.var_get(norm), sum)}));
  return k.take({ceil_div(queries, block_q), 1, 1});
}

SweepCase product_of_values(Dtype t) {
  Kernel k("product of values " + std::string(dtype_name(t)));
  Value *a = k.input(t, {40, 48}), *b = k.input(t, {48, 24}), *c = k.output(accumulator_of(t), {40, 24});
  Value* zero = k.b.index(0);
  Value *x = k.load(a, {zero, zero}, {40, 48}), *y = k.load(b, {zero, zero}, {48, 24});
  x = k.b.elementwise(OpId::add, {x, x});
  k.store(c, {zero, zero}, k.b.dot(x, y, k.number(Type::tile(accumulator_of(t), {40, 24}), 1), ""));
  return k.take({1, 1, 1});
}

SweepCase gathered_product(std::int64_t rows, std::int64_t n, std::int64_t depth) {
  Kernel k("gathered product " + std::to_string(rows));
  Value* a = k.input(Dtype::f16, {rows, depth});
  Value* index = k.input(Dtype::i64, {32});
  k.fill([&](std::int64_t i) { return (i * 7) % rows; });
  Value *b = k.input(Dtype::f16, {depth, n}), *c = k.output(Dtype::f32, {32, n});
  Value *zero = k.b.index(0), *column = k.program(0, 32);
  Value* sum = k.b.var(k.number(Type::tile(Dtype::f32, {32, 32}), 0));
  Value* start = k.b.elementwise(
      OpId::mul, {k.load(index, {zero}, {32}), k.number(Type::tile(Dtype::i64, {32}), static_cast<double>(depth))});
  const Extents e{32, 16};
  Value* row_start = k.b.broadcast(k.b.expand_dims(start, 1), e);
  Value* at = k.b.begin_for(zero, k.b.index(depth), k.b.index(16));
  Value* inner = k.b.elementwise(OpId::add, {k.b.broadcast(at, Extents{16}), k.b.iota(16, Dtype::i64, 0)});
  Value* offset = k.b.elementwise(OpId::add, {row_start, k.b.broadcast(k.b.expand_dims(inner, 0), e)});
  Value* inside = k.b.elementwise(OpId::lt, {inner, k.b.broadcast(k.b.index(depth), Extents{16})});
  inside = k.b.broadcast(k.b.expand_dims(inside, 0), e);
  Value* x = k.b.load_ptr(k.b.ptr_add(k.b.broadcast(k.b.view_base(a), e), offset), inside, 0);
  Value* y = k.load(b, {at, column}, {16, 32});
  k.b.var_set(sum, k.b.dot(x, y, k.b.var_get(sum), ""));
  k.b.end_for();
  k.store(c, {zero, column}, k.b.var_get(sum));
  return k.take({ceil_div(n, 32), 1, 1});
}

std::vector<SweepCase> warp_group_kernels() {
  std::vector<SweepCase> all;
  for (int order = 0; order < 4; ++order) {
    MatmulShape s{.m = 72, .n = 72, .k = 80, .block_m = 64, .block_n = 64, .block_k = 32, .warps = 4};
    s.a_columns = (order & 1) != 0, s.b_columns = (order & 2) != 0;
    all.push_back(matmul(Dtype::f16, s));
    s.block_k = 64, s.stages = 1;
    all.push_back(matmul(Dtype::bf16, s));
  }
  for (const Dtype t : {Dtype::f8e4m3, Dtype::f8e5m2, Dtype::i8}) {
    for (const bool b_columns : {true, false}) {
      all.push_back(matmul(t, {.m = 64,
                               .n = 40,
                               .k = 144,
                               .block_m = 64,
                               .block_n = 32,
                               .block_k = 64,
                               .b_columns = b_columns,
                               .warps = 4}));
    }
  }
  // Two warp groups along m, along n; several instructions a group; extents that are no powers of two; long k.
  all.push_back(
      matmul(Dtype::f16, {.m = 128, .n = 64, .k = 64, .block_m = 128, .block_n = 64, .block_k = 64, .warps = 8}));
  all.push_back(
      matmul(Dtype::f16, {.m = 64, .n = 256, .k = 64, .block_m = 64, .block_n = 256, .block_k = 32, .warps = 8}));
  all.push_back(
      matmul(Dtype::f16, {.m = 256, .n = 32, .k = 32, .block_m = 256, .block_n = 32, .block_k = 32, .warps = 4}));
  all.push_back(matmul(
      Dtype::f16,
      {.m = 70, .n = 100, .k = 130, .block_m = 80, .block_n = 96, .block_k = 128, .b_columns = true, .warps = 4}));
  all.push_back(matmul(
      Dtype::f16, {.m = 61, .n = 33, .k = 51, .block_m = 64, .block_n = 48, .block_k = 48, .pitch = 1, .warps = 4}));
  all.push_back(
      matmul(Dtype::f16, {.m = 64, .n = 16, .k = 0, .block_m = 64, .block_n = 16, .block_k = 64, .warps = 4}));
  all.push_back(matmul(
      Dtype::f16, {.m = 64, .n = 40, .k = 40, .batch = 2, .block_m = 64, .block_n = 32, .block_k = 32, .warps = 4}));
  all.push_back(matmul(Dtype::f16, {.m = 64,
                                    .n = 64,
                                    .k = 192,
                                    .block_m = 64,
                                    .block_n = 64,
                                    .block_k = 64,
                                    .b_columns = true,
                                    .warps = 4,
                                    .stages = 2}));
  for (const int stages : {3, 4}) {
    all.push_back(matmul(Dtype::f16, {.m = 128,
                                      .n = 64,
                                      .k = 330,
                                      .block_m = 64,
                                      .block_n = 64,
                                      .block_k = 32,
                                      .b_columns = true,
                                      .warps = 4,
                                      .stages = stages}));
    all.push_back(matmul(
        Dtype::f8e4m3,
        {.m = 64, .n = 64, .k = 200, .block_m = 64, .block_n = 64, .block_k = 32, .warps = 4, .stages = stages}));
  }
  return all;
}

SweepCase random_matmul(std::uint64_t seed) {
  Dice dice(seed);
  const Dtype t = dice.pick(std::vector<Dtype>{Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::i8, Dtype::u8, Dtype::f64,
                                               Dtype::f8e4m3, Dtype::f8e5m2});
  const auto extent = [&](std::int64_t most) {
    return dice.chance(70) ? std::int64_t{1} << dice.between(4, most)
                           : 8 * dice.between(2, std::int64_t{1} << (most - 3));
  };
  MatmulShape s;
  s.block_m = extent(7), s.block_n = extent(6), s.block_k = extent(6);
  s.m = dice.between(1, s.block_m + 20), s.n = dice.between(1, s.block_n + 20), s.k = dice.between(0, 4 * s.block_k);
  s.a_columns = dice.chance(40), s.b_columns = dice.chance(50), s.trans_a = dice.chance(30),
  s.trans_b = dice.chance(50);
  s.pitch = dice.chance(30) ? dice.between(1, 16) : 0;
  s.first = dice.chance(20) ? dice.between(-9, 9) : 0;
  s.tf32 = t == Dtype::f32 && dice.chance(70);
  s.warps = dice.chance(60) ? 1 << dice.between(0, 3) : 0;
  // Accumulators of a large tile are too many for few warps.
  if (s.block_m * s.block_n > 2048 * std::max(1, s.warps)) s.warps = 8;
  s.stages = static_cast<int>(dice.chance(60) ? dice.between(1, 5) : 0);
  // Padded to powers of two, at most twice as many along each axis; 99 KiB are the least that a device has.
  const std::int64_t stage_bytes = 4 * (s.block_m + s.block_n) * s.block_k * dtype_bytes(t);
  if (s.stages * stage_bytes > 99 * 1024) s.stages = 0;
  return matmul(t, s);
}

std::vector<SweepCase> matmul_kernels() {
  std::vector<SweepCase> all;
  const std::vector<Dtype> types{Dtype::f16, Dtype::bf16, Dtype::f32,    Dtype::i8,
                                 Dtype::u8,  Dtype::f64,  Dtype::f8e4m3, Dtype::f8e5m2};
  for (const Dtype t : types) {
    const bool tf32 = t == Dtype::f32;
    for (int order = 0; order < 4; ++order) {
      MatmulShape s{.m = 72, .n = 88, .k = 80, .block_m = 32, .block_n = 32, .block_k = 32};
      s.a_columns = (order & 1) != 0, s.b_columns = (order & 2) != 0, s.tf32 = tf32;
      all.push_back(matmul(t, s));
      s.trans_a = s.trans_b = true;
      all.push_back(matmul(t, s));
    }
    // Odd everything: rows that no vector fits, edges inside a fragment.
    all.push_back(
        matmul(t, {.m = 37, .n = 43, .k = 51, .block_m = 32, .block_n = 32, .block_k = 32, .pitch = 2, .tf32 = tf32}));
    all.push_back(matmul(t, {.m = 16, .n = 24, .k = 0, .block_m = 16, .block_n = 16, .block_k = 32, .tf32 = tf32}));
    if (!tf32)
      all.push_back(matmul(t, {.m = 20, .n = 40, .k = 40, .batch = 3, .block_m = 32, .block_n = 32, .block_k = 32}));
    if (!tf32) all.push_back(product_of_values(t));
  }
  all.push_back(matmul(Dtype::f32, {.m = 40, .n = 40, .k = 33, .block_m = 32, .block_n = 32, .block_k = 16}));
  all.push_back(matmul(Dtype::f16, {.m = 128, .n = 128, .k = 192, .block_m = 128, .block_n = 128, .block_k = 64}));
  all.push_back(matmul(Dtype::bf16, {.m = 100, .n = 70, .k = 200, .block_m = 48, .block_n = 80, .block_k = 48}));
  for (const int stages : {1, 2, 3, 5}) {
    all.push_back(matmul(Dtype::f16,
                         {.m = 40, .n = 72, .k = 136, .block_m = 32, .block_n = 64, .block_k = 16, .stages = stages}));
  }
  for (const int warps : {1, 2, 8}) {
    all.push_back(matmul(
        Dtype::f16,
        {.m = 64, .n = 64, .k = 96, .block_m = 64, .block_n = 64, .block_k = 32, .trans_b = true, .warps = warps}));
  }
  all.push_back(linear_epilogue({.m = 72, .n = 80, .k = 64, .block_m = 64, .block_n = 64, .block_k = 32}));
  all.push_back(linear_epilogue({.m = 35, .n = 45, .k = 50, .block_m = 32, .block_n = 32, .block_k = 32}));
  for (const int stages : {1, 3}) all.push_back(attention(Dtype::f16, 70, 100, 64, stages));
  all.push_back(attention(Dtype::bf16, 64, 64, 32, 2));
  all.push_back(gathered_product(50, 40, 72));
  for (SweepCase& c : warp_group_kernels()) all.push_back(std::move(c));
  return all;
}

}  // namespace tileweave::property
