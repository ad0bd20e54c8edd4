// Products of matrices as users write them: every element type, order of operands, edge and chain.
// Run under SIMT emulation against the interpreter (matmul_test.cpp) and assembled (matmul_ptx_test.cpp).
#pragma once

#include <string>
#include <vector>

#include "tests/property/sweep.h"

namespace tileweave::property {

struct MatmulShape {
  std::int64_t m = 64, n = 64, k = 64, batch = 0;         // of the matrices; 0: no batch axis
  std::int64_t block_m = 64, block_n = 64, block_k = 32;  // of a program
  bool a_columns = false, b_columns = false;              // neighbours in memory along m; along k
  bool trans_a = false, trans_b = false;                  // loaded as [k, m], [n, k] and transposed
  std::int64_t pitch = 0;                                 // elements between rows beyond their length
  std::int64_t first = 0;                                 // where the loop over k begins: may lie before the view
  bool tf32 = false;                                      // f32 alone
  int warps = 0, stages = 0;
};
// c[m, n] = a . b in a loop over k.
SweepCase matmul(Dtype t, const MatmulShape& s);
// The name that the case has.
std::string name_of(Dtype t, const MatmulShape& s);

// gelu-like epilogue with a bias and a residual, rounded to f16.
SweepCase linear_epilogue(const MatmulShape& s);
// Two chained products with a softmax over the scores between them, by blocks of keys (attention).
SweepCase attention(Dtype t, std::int64_t queries, std::int64_t keys, std::int64_t depth, int stages);
// One product of whole tiles that were computed, not loaded.
SweepCase product_of_values(Dtype t);
// Rows of a are gathered through pointers.
SweepCase gathered_product(std::int64_t rows, std::int64_t n, std::int64_t k);

// Tiles of 64 rows and more over whole warp groups: wgmma on sm_90a, mma.sync elsewhere.
std::vector<SweepCase> warp_group_kernels();

// Any block sizes, orders, edges, numbers of warps and stages.
SweepCase random_matmul(std::uint64_t seed);

// All of the above in sizes that the emulation runs in seconds.
std::vector<SweepCase> matmul_kernels();

}  // namespace tileweave::property
