// See gpu_kernels.h. Every kernel is built with the IR's builder, as the language would record it.
// Beside sweep.cpp.
#include "tests/property/gpu_kernels.h"

#include <string>
#include <utility>

#include "tests/property/kernel_builder.h"

namespace tileweave::property {
namespace {

using namespace ir;

// z = x * y + x, flat, the last block ragged.
SweepCase flat(Dtype t, std::int64_t n) {
  Kernel k("flat " + std::string(dtype_name(t)));
  Value *x = k.input(t, {n}), *y = k.input(t, {n}), *z = k.output(t, {n});
  Value* at = k.program(0, 1024);
  Value *a = k.load(x, {at}, {1024}), *b = k.load(y, {at}, {1024});
  k.store(z, {at}, k.b.elementwise(OpId::add, {k.b.elementwise(OpId::mul, {a, b}), a}));
  return k.take({(n + 1023) / 1024, 1, 1});
}

// z = (x / 3) * (y / 3) + x, whose product is no f32.
SweepCase inexact_product(std::int64_t n) {
  Kernel k("inexact product");
  Value *x = k.input(Dtype::f32, {n}), *y = k.input(Dtype::f32, {n}), *z = k.output(Dtype::f32, {n});
  Value *zero = k.b.index(0), *a = k.load(x, {zero}, {n}), *b = k.load(y, {zero}, {n}),
        *third = k.number(a->type, 1.0 / 3);
  Value *p = k.b.elementwise(OpId::mul, {a, third}), *q = k.b.elementwise(OpId::mul, {b, third});
  k.store(z, {zero}, k.b.elementwise(OpId::fma, {p, q, a}));
  return k.take({1, 1, 1});
}

SweepCase softmax(Dtype t, std::int64_t rows, std::int64_t columns, std::int64_t block) {
  Kernel k("softmax " + std::string(dtype_name(t)) + " " + std::to_string(columns));
  Value *x = k.input(t, {rows, columns}), *y = k.output(t, {rows, columns});
  const std::vector<Value*> at{k.b.program_id(0), k.b.index(0)};
  const auto [v, valid] = k.load_valid(x, at, {1, block});
  Value* top = k.b.reduce(v, 1, Combine::max, valid);
  Value* e = k.b.elementwise(OpId::exp, {k.b.elementwise(OpId::sub, {v, k.over(top, v)})});
  Value* sum = k.b.reduce(e, 1, Combine::sum, valid);
  k.store(y, at, k.b.elementwise(OpId::div, {e, k.over(sum, e)}));
  return k.take({rows, 1, 1});
}

SweepCase layer_norm(std::int64_t rows, std::int64_t columns, std::int64_t block, std::int64_t per_program) {
  Kernel k("layer_norm " + std::to_string(columns));
  Value *x = k.input(Dtype::f32, {rows, columns}), *g = k.input(Dtype::f32, {columns});
  Value* y = k.output(Dtype::f32, {rows, columns});
  const std::vector<Value*> at{k.program(0, per_program), k.b.index(0)};
  const auto [v, valid] = k.load_valid(x, at, {per_program, block});
  const auto mean_of = [&](Value* what) {
    Value* sum = k.b.reduce(what, 1, Combine::sum, valid);
    return k.over(k.b.elementwise(OpId::mul, {sum, k.number(sum->type, 1.0 / static_cast<double>(columns))}), v);
  };
  Value* d = k.b.elementwise(OpId::sub, {v, mean_of(v)});
  Value* variance = mean_of(k.b.elementwise(OpId::mul, {d, d}));
  Value* scale = k.b.elementwise(OpId::rsqrt, {k.b.elementwise(OpId::add, {variance, k.number(variance->type, 1e-5)})});
  Value* weight = k.load(g, {k.b.index(0)}, {block});
  weight = k.b.broadcast(k.b.expand_dims(weight, 0), v->type.shape());
  k.store(y, at, k.b.elementwise(OpId::mul, {k.b.elementwise(OpId::mul, {d, scale}), weight}));
  return k.take({(rows + per_program - 1) / per_program, 1, 1});
}

// Rows of any pitch in a narrow type: centred, scaled, weighted, gelu, rounded; the whole row in one block. `far`: the
// mean is a thousand times the deviation.
SweepCase norm_gelu(Dtype t, std::int64_t rows, std::int64_t columns, bool far) {
  Kernel k("norm_gelu " + std::string(dtype_name(t)) + " " + std::to_string(columns) + (far ? " far" : ""));
  Value *g = k.input(t, {columns}), *c = k.input(t, {columns}), *x = k.input(t, {rows, columns});
  if (far) k.fill([](std::int64_t i) { return 128 + i % 2; });
  Value* y = k.output(t, {rows, columns});
  const auto wide = [&](Value* v) { return t == Dtype::f32 ? v : k.b.convert(v, Dtype::f32); };
  const std::vector<Value*> at{k.b.program_id(0), k.b.index(0)};
  const auto [loaded, valid] = k.load_valid(x, at, {1, columns});
  Value* v = wide(loaded);
  const auto mean_of = [&](Value* what) {
    Value* sum = k.b.reduce(what, 1, Combine::sum, valid);
    return k.b.elementwise(OpId::mul, {sum, k.number(sum->type, 1.0 / static_cast<double>(columns))});
  };
  const auto weight = [&](Value* view) {
    Value* w = wide(k.load(view, {k.b.index(0)}, {columns}));
    return k.b.broadcast(k.b.expand_dims(w, 0), v->type.shape());
  };
  Value* d = k.b.elementwise(OpId::sub, {v, k.over(mean_of(v), v)});
  Value* variance = mean_of(k.b.elementwise(OpId::mul, {d, d}));
  Value* scale = k.b.elementwise(OpId::rsqrt, {k.b.elementwise(OpId::add, {variance, k.number(variance->type, 1e-5)})});
  Value* z = k.b.elementwise(OpId::mul, {d, k.over(scale, d)});
  z = k.b.elementwise(OpId::gelu, {k.b.elementwise(OpId::fma, {z, weight(g), weight(c)})});
  k.store(y, at, t == Dtype::f32 ? z : k.b.convert(z, t));
  return k.take({rows, 1, 1});
}

// y = x^T in blocks, both edges ragged.
SweepCase transpose(Dtype t, std::int64_t m, std::int64_t n, std::int64_t block) {
  Kernel k("transpose " + std::string(dtype_name(t)));
  Value *x = k.input(t, {m, n}), *y = k.output(t, {n, m});
  Value *row = k.program(0, block), *column = k.program(1, block);
  const int perm[] = {1, 0};
  Value* v = k.b.trans(k.load(x, {row, column}, {block, block}), perm);
  k.store(y, {column, row}, v);
  return k.take({(m + block - 1) / block, (n + block - 1) / block, 1});
}

// z = x^T + y: one operand changes its layout through shared memory.
SweepCase add_transposed(Dtype t, std::int64_t n) {
  Kernel k("add transposed " + std::string(dtype_name(t)));
  Value *x = k.input(t, {n, n}), *y = k.input(t, {n, n}), *z = k.output(t, {n, n});
  Value *row = k.program(0, 64), *column = k.program(1, 64);
  const int perm[] = {1, 0};
  Value* v = k.b.trans(k.load(x, {column, row}, {64, 64}), perm);
  k.store(z, {row, column}, k.b.elementwise(OpId::add, {v, k.load(y, {row, column}, {64, 64})}));
  return k.take({(n + 63) / 64, (n + 63) / 64, 1});
}

// Down the columns, and the result used along the rows.
SweepCase column_sums(std::int64_t m, std::int64_t n) {
  Kernel k("column sums");
  Value *x = k.input(Dtype::f32, {m, n}), *y = k.output(Dtype::f32, {n}), *z = k.output(Dtype::f32, {m, n});
  const Extents e{m, n};
  Value* v = k.load(x, {k.b.index(0), k.b.index(0)}, e);
  Value* sum = k.b.reduce(v, 0, Combine::sum, nullptr);
  k.store(y, {k.b.index(0)}, sum);
  Value* spread = k.b.broadcast(k.b.expand_dims(sum, 0), e);
  k.store(z, {k.b.index(0), k.b.index(0)}, k.b.elementwise(OpId::sub, {v, spread}));
  return k.take({1, 1, 1});
}

SweepCase arg_max(std::int64_t rows, std::int64_t columns, std::int64_t block) {
  Kernel k("arg max " + std::to_string(columns));
  Value *x = k.input(Dtype::f16, {rows, columns}), *y = k.output(Dtype::i32, {rows});
  const std::vector<Value*> at{k.b.program_id(0), k.b.index(0)};
  const auto [v, valid] = k.load_valid(x, at, {1, block});
  k.store(y, {k.b.program_id(0)}, k.b.arg_reduce(v, 1, Combine::max, valid));
  return k.take({rows, 1, 1});
}

// c = a b in blocks of k, the last ones ragged.
SweepCase product(Dtype t, std::int64_t m, std::int64_t n, std::int64_t depth) {
  Kernel k("product " + std::string(dtype_name(t)));
  Value *a = k.input(t, {m, depth}), *b = k.input(t, {depth, n}), *c = k.output(Dtype::f32, {m, n});
  Value *row = k.program(0, 32), *column = k.program(1, 32);
  Value* sum = k.b.var(k.b.constant(Type::tile(Dtype::f32, {32, 32}), 0.0));
  Value* at = k.b.begin_for(k.b.index(0), k.b.index(depth), k.b.index(16));
  Value *x = k.load(a, {row, at}, {32, 16}), *y = k.load(b, {at, column}, {16, 32});
  k.b.var_set(sum, k.b.dot(x, y, k.b.var_get(sum), ""));
  k.b.end_for();
  k.store(c, {row, column}, k.b.var_get(sum));
  return k.take({(m + 31) / 32, (n + 31) / 32, 1});
}

// y[i] = x[index[i]], through pointers.
SweepCase gather(std::int64_t n, std::int64_t from) {
  Kernel k("gather");
  Value* x = k.input(Dtype::f32, {from});
  Value* index = k.input(Dtype::i64, {n});
  k.fill([&](std::int64_t i) { return (i * 7919) % from; });
  Value* y = k.output(Dtype::f32, {n});
  Value* at = k.program(0, 256);
  const auto [i, valid] = k.load_valid(index, {at}, {256});
  const Extents e{256};
  Value* p = k.b.ptr_add(k.b.broadcast(k.b.view_base(x), e), i);
  k.store(y, {at}, k.b.load_ptr(p, valid, 0));
  return k.take({(n + 255) / 256, 1, 1});
}

// One row in pieces, kept in a variable across a loop.
SweepCase long_rows(std::int64_t rows, std::int64_t columns) {
  Kernel k("long rows");
  Value *x = k.input(Dtype::f32, {rows, columns}), *y = k.output(Dtype::f32, {rows});
  Value* row = k.b.program_id(0);
  Value* sum = k.b.var(k.b.constant(Type::tile(Dtype::f32, {1, 256}), 0.0));
  Value* at = k.b.begin_for(k.b.index(0), k.b.extent(x, 1), k.b.index(256));
  k.b.var_set(sum, k.b.elementwise(OpId::add, {k.b.var_get(sum), k.load(x, {row, at}, {1, 256})}));
  k.b.end_for();
  k.store(y, {row}, k.b.reduce(k.b.var_get(sum), 1, Combine::sum, nullptr));
  return k.take({rows, 1, 1});
}

// A reduction in every turn of a loop: shared memory is used again and again.
SweepCase repeated_sums(std::int64_t turns, std::int64_t rows, std::int64_t columns) {
  Kernel k("repeated sums " + std::to_string(columns));
  Value *x = k.input(Dtype::f32, {turns * rows, columns}), *y = k.output(Dtype::f32, {turns * rows});
  Value* at = k.b.begin_for(k.b.index(0), k.b.index(turns * rows), k.b.index(rows));
  Value* v = k.load(x, {at, k.b.index(0)}, {rows, columns});
  Value* top = k.b.reduce(v, 1, Combine::max, nullptr);
  Value* d = k.b.elementwise(OpId::sub, {v, k.over(top, v)});
  k.store(y, {at}, k.b.reduce(d, 1, Combine::sum, nullptr));
  k.b.end_for();
  return k.take({1, 1, 1});
}

// Columns reversed and rows pitched; the shape changes on the way.
SweepCase odd_views(Dtype t) {
  Kernel k("odd views " + std::string(dtype_name(t)));
  Value *x = k.input(t, {30, 50}, {64, -1}), *y = k.output(t, {50, 30}, {1, 50});
  Value *row = k.program(0, 16), *column = k.program(1, 32);
  const int perm[] = {1, 0};
  k.store(y, {column, row}, k.b.trans(k.load(x, {row, column}, {16, 32}), perm));
  return k.take({2, 2, 1});
}

SweepCase reshaped() {
  Kernel k("reshaped");
  Value *x = k.input(Dtype::f16, {64, 32}), *y = k.output(Dtype::f32, {16, 128});
  const Extents e{16, 128};
  Value* v = k.b.reshape(k.load(x, {k.b.index(0), k.b.index(0)}, {64, 32}), e);
  k.store(y, {k.b.index(0), k.b.index(0)}, k.b.convert(v, Dtype::f32));
  return k.take({1, 1, 1});
}

// In place: what is read must be read before another thread writes it.
SweepCase reversed_in_place() {
  Kernel k("shift in place");
  Value* x = k.output(Dtype::f32, {512});
  Value* v = k.load(x, {k.b.index(0)}, {256});
  k.store(x, {k.b.index(1)}, v);
  Value* again = k.load(x, {k.b.index(0)}, {256});
  k.store(x, {k.b.index(256)}, again);
  return k.take({1, 1, 1});
}

}  // namespace

std::vector<SweepCase> gpu_kernels() {
  std::vector<SweepCase> all;
  all.push_back(flat(Dtype::f32, 5000));
  all.push_back(flat(Dtype::f16, 4099));
  all.push_back(inexact_product(512));
  all.push_back(flat(Dtype::i8, 3001));
  all.push_back(softmax(Dtype::f32, 3, 1000, 1024));
  all.push_back(softmax(Dtype::f16, 3, 100, 128));
  all.push_back(layer_norm(5, 600, 1024, 1));
  all.push_back(layer_norm(7, 96, 128, 4));
  all.push_back(transpose(Dtype::f32, 100, 70, 64));
  all.push_back(transpose(Dtype::f16, 100, 72, 64));
  all.push_back(transpose(Dtype::i8, 33, 65, 32));
  all.push_back(add_transposed(Dtype::f32, 96));
  all.push_back(add_transposed(Dtype::f16, 64));
  all.push_back(column_sums(64, 32));
  all.push_back(arg_max(3, 777, 1024));
  all.push_back(arg_max(3, 40, 64));
  all.push_back(product(Dtype::f32, 40, 70, 50));
  all.push_back(product(Dtype::f16, 64, 32, 48));
  all.push_back(gather(600, 90));
  all.push_back(long_rows(3, 1111));
  all.push_back(repeated_sums(5, 8, 512));
  all.push_back(repeated_sums(4, 1, 1024));
  all.push_back(odd_views(Dtype::f32));
  all.push_back(odd_views(Dtype::bf16));
  all.push_back(reshaped());
  all.push_back(reversed_in_place());
  for (const Dtype t : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
    all.push_back(softmax(t, 3, 1003, 1003));
    all.push_back(norm_gelu(t, 5, 1003, false));
    all.push_back(norm_gelu(t, 2, 1024, false));
    all.push_back(norm_gelu(t, 2, 1001, true));
  }
  all.push_back(norm_gelu(Dtype::f32, 2, 4097, false));
  return all;
}

}  // namespace tileweave::property
