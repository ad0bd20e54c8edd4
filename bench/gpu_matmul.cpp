// The matmul that gpu_matmul.py times beside cuBLAS: one C function on memory and a stream of the caller's.
// A library of its own, so that both run in one process, in turn.
#include <tileweave/tileweave.h>

#include <exception>
#include <string>

namespace tw = tileweave;

namespace {

struct Blocks {
  int m, n, k;
};

// c = a . b, b as [k, n] or (nt) [n, k].
template <class T>
const auto product = tw::kernel("product", [](tw::View<const T, 2> a, tw::View<const T, 2> b, tw::View<T, 2> c,
                                              tw::Const<bool> nt, tw::Const<Blocks> block) {
  auto [m, n] = tw::tile_id(c, block->m, block->n);
  tw::Var acc = tw::zeros<float>(block->m, block->n);
  for (auto k : tw::range(0, a.extent(1), block->k)) {
    auto x = tw::load(a, {m, k}, {block->m, block->k});
    if (nt) {
      acc = tw::dot(x, tw::trans(tw::load(b, {n, k}, {block->n, block->k})), acc);
    } else {
      acc = tw::dot(x, tw::load(b, {k, n}, {block->k, block->n}), acc);
    }
  }
  tw::store(c, {m, n}, acc.template to<T>());
});

template <class T>
void multiply(const tw::Stream& stream, const tw::Device& device, void* a, void* b, void* c, tw::index_t m,
              tw::index_t n, tw::index_t k, bool nt, const Blocks& block, const tw::Options& options) {
  const auto matrix = [&](void* at, tw::index_t rows, tw::index_t columns) {
    return tw::wrap(static_cast<T*>(at), {rows, columns}, {columns, 1}, device);
  };
  product<T>.launch(stream, {tw::cdiv(m, block.m) * tw::cdiv(n, block.n)}, matrix(a, m, k),
                    nt ? matrix(b, n, k) : matrix(b, k, n), matrix(c, m, n), nt, block, options);
}

}  // namespace

// Null, or what went wrong. `bf16`: else f16. The text lives until the thread's next call.
extern "C" [[gnu::visibility("default")]] const char* tileweave_matmul(void* stream, int bf16, void* a, void* b,
                                                                       void* c, std::int64_t m, std::int64_t n,
                                                                       std::int64_t k, int nt, int block_m, int block_n,
                                                                       int block_k, int warps, int stages) {
  thread_local std::string text;
  try {
    const tw::Device device = tw::Device::cuda(0);
    const tw::Stream s = tw::Stream::wrap(stream, device);
    const Blocks block{block_m, block_n, block_k};
    const tw::Options options{.warps = warps, .stages = stages};
    if (bf16 != 0) {
      multiply<tw::bf16>(s, device, a, b, c, m, n, k, nt != 0, block, options);
    } else {
      multiply<tw::f16>(s, device, a, b, c, m, n, k, nt != 0, block, options);
    }
    return nullptr;
  } catch (const std::exception& e) {
    text = e.what();
    return text.c_str();
  }
}
