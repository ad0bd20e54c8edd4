// wgmma: products of a warp group (128 threads) with operands described in shared memory, or A in registers.
// Results are there at once; the reads of shared memory last until the group of products is waited for.
#include <array>
#include <bit>
#include <vector>

#include "tileweave/jit/base/float_types.h"
#include "tileweave/jit/runtime/simt_call.h"
#include "tileweave/jit/runtime/simt_tensor_map.h"

namespace tileweave::runtime::simt {
namespace {

constexpr int step_bytes = 32;  // K of one instruction, in bytes of a row

// One thread's part of a product.
struct Product {
  std::uint32_t* accumulators = nullptr;
  int count = 0;  // N / 2
  std::uint64_t a = 0, b = 0;
  U32x4 a_registers{};
  bool a_in_registers = false, keep = false, a_transposed = false, b_transposed = false;
};
Product& product_of(const Thread& t) { return *static_cast<Product*>(t.data); }
Thread& group_thread(Block& b, int group, int i) {
  return *b.warps[static_cast<std::size_t>(group * 4 + i / warp_size)].lanes[static_cast<std::size_t>(i % warp_size)];
}

// --- Operands in shared memory.
struct Descriptor {
  std::int64_t start, leading, stride;
  std::uint32_t swizzle_bytes;
  explicit Descriptor(std::uint64_t d)
      : start(static_cast<std::int64_t>(d & 0x3fff) << 4),
        leading(static_cast<std::int64_t>(d >> 16 & 0x3fff) << 4),
        stride(static_cast<std::int64_t>(d >> 32 & 0x3fff) << 4),
        swizzle_bytes((d >> 62) == 0 ? 0 : 256u >> (d >> 62)) {}

  // Where the 16 bytes lie that hold elements k.. of row `row` (K-major: `unit` counts 16 bytes along K).
  std::int64_t k_major(int row, int unit) const {
    const std::int64_t group = row / 8 * stride;
    if (swizzle_bytes == 0) return start + group + unit * leading + row % 8 * 16;
    return swizzled(start + group + row % 8 * swizzle_bytes + unit * 16, swizzle_bytes);
  }
  // MN-major: the 16 bytes that hold 8 rows from 8 `unit` on, of column `k`. Without swizzling: not emulated.
  std::int64_t mn_major(int unit, int k) const {
    const int units = static_cast<int>(swizzle_bytes) / 16;
    return swizzled(start + unit / units * leading + k / 8 * stride + k % 8 * swizzle_bytes + unit % units * 16,
                    swizzle_bytes);
  }
};

// Sixteen bytes read by the group's tensor core, with the knowledge of thread `t`.
const std::byte* read_unit(Block& b, int group, Thread& t, std::int64_t at) {
  Cluster& c = *b.cluster;
  WarpGroup& g = b.groups[static_cast<std::size_t>(group)];
  Conflict conflict = b.shared.check_place(at, 16, 16);
  if (!conflict) conflict = b.shared.read(at, 16, {g.agent, t.number, t.call.site, false, true, 0});
  if (conflict) {
    c.fail(t, word_conflict(c, conflict, c.who(t.number), "multiplies", at, 16));
    c.leave();
  }
  return b.shared.at(at);
}

template <class E>
double value_at(const std::byte* p) {
  if constexpr (std::is_integral_v<E>) {
    E x;
    std::memcpy(&x, p, sizeof x);
    return static_cast<double>(x);
  } else {
    typename E::Storage bits;
    std::memcpy(&bits, p, sizeof bits);
    return static_cast<double>(static_cast<float>(E::from_bits(bits)));
  }
}

struct Tf32 {
  using Storage = std::uint32_t;
  std::uint32_t bits;
  static Tf32 from_bits(std::uint32_t b) { return {b & ~0x1fffu}; }
  operator float() const { return std::bit_cast<float>(bits); }
};

// Kept between calls, so that a fibre that faults here owns nothing.
using Matrix = std::vector<double>;  // row-major, rows x depth
Matrix& scratch_a() {
  thread_local Matrix m;
  return m;
}
Matrix& scratch_b() {
  thread_local Matrix m;
  return m;
}

template <class E>
void read_operand(Block& b, int group, Thread& t, std::uint64_t descriptor, bool transposed, int first, int rows,
                  Matrix& into) {
  constexpr int depth = step_bytes / static_cast<int>(sizeof(E)), per_unit = 16 / static_cast<int>(sizeof(E));
  const Descriptor d(descriptor);
  if (transposed && (sizeof(E) != 2 || d.swizzle_bytes == 0)) {
    fail(t, "wgmma: a transposed operand must be of 16-bit elements and swizzled");
  }
  const auto put = [&](int row, int k, const std::byte* p) {
    into[static_cast<std::size_t>(row * depth + k)] = value_at<E>(p);
  };
  if (!transposed) {
    for (int row = first; row < first + rows; ++row) {
      for (int unit = 0; unit < 2; ++unit) {
        const std::byte* p = read_unit(b, group, t, d.k_major(row, unit));
        for (int i = 0; i < per_unit; ++i) put(row, unit * per_unit + i, p + i * static_cast<int>(sizeof(E)));
      }
    }
    return;
  }
  for (int k = 0; k < depth; ++k) {
    for (int unit = first / 8; unit < (first + rows) / 8; ++unit) {
      const std::byte* p = read_unit(b, group, t, d.mn_major(unit, k));
      for (int i = 0; i < 8; ++i) put(unit * 8 + i, k, p + i * static_cast<int>(sizeof(E)));
    }
  }
}

// A's fragment of a warp: as for mma.sync, rows 16 w to 16 w + 15.
template <class E>
void take_registers(Block& b, int group, Matrix& a) {
  constexpr int depth = step_bytes / static_cast<int>(sizeof(E)), per = 4 / static_cast<int>(sizeof(E));
  for (int i = 0; i < 128; ++i) {
    const int lane = i % warp_size;
    const U32x4 words = product_of(group_thread(b, group, i)).a_registers;
    for (int r = 0; r < 4; ++r) {
      const std::uint32_t word = words[r];
      for (int e = 0; e < per; ++e) {
        const int row = i / warp_size * 16 + lane / 4 + r % 2 * 8, k = r / 2 * 4 * per + lane % 4 * per + e;
        std::byte bytes[4];
        std::memcpy(bytes, &word, 4);
        a[static_cast<std::size_t>(row * depth + k)] = value_at<E>(bytes + e * static_cast<int>(sizeof(E)));
      }
    }
  }
}

template <class E>
void accumulate(Block& b, int group, const Matrix& x, const Matrix& y) {
  constexpr int depth = step_bytes / static_cast<int>(sizeof(E));
  for (int i = 0; i < 128; ++i) {
    Product& p = product_of(group_thread(b, group, i));
    const int lane = i % warp_size;
    for (int n = 0; n < p.count; ++n) {
      const int row = i / warp_size * 16 + lane / 4 + n % 4 / 2 * 8, column = n / 4 * 8 + lane % 4 * 2 + n % 2;
      double sum = 0;
      for (int k = 0; k < depth; ++k) {
        sum += x[static_cast<std::size_t>(row * depth + k)] * y[static_cast<std::size_t>(column * depth + k)];
      }
      std::uint32_t& c = p.accumulators[n];
      if constexpr (std::is_integral_v<E>) {
        c = (p.keep ? c : 0u) + static_cast<std::uint32_t>(static_cast<std::int64_t>(sum));
      } else {
        c = std::bit_cast<std::uint32_t>(
            static_cast<float>((p.keep ? static_cast<double>(std::bit_cast<float>(c)) : 0.0) + sum));
      }
    }
  }
}

template <class E>
void multiply(Block& b, int group) {
  constexpr std::size_t depth = step_bytes / sizeof(E);
  WarpGroup& g = b.groups[static_cast<std::size_t>(group)];
  Thread& leader = group_thread(b, group, 0);
  const Product& p = product_of(leader);
  const int columns = 2 * p.count;
  if (g.agent < 0) g.agent = b.cluster->order().new_agent();
  if (!g.is_fenced) fail(leader, "wgmma without wgmma_fence before it");
  if (columns % 8 != 0 || columns > 256) fail(leader, "wgmma: N is not a multiple of 8 up to 256");
  scratch_a().assign(64 * depth, 0.0);
  scratch_b().assign(static_cast<std::size_t>(columns) * depth, 0.0);
  for (int w = 0; w < 4; ++w) {
    Thread& t = group_thread(b, group, w * warp_size);
    if (!p.a_in_registers) read_operand<E>(b, group, t, product_of(t).a, p.a_transposed, 16 * w, 16, scratch_a());
    read_operand<E>(b, group, t, product_of(t).b, p.b_transposed, 0, columns, scratch_b());
  }
  if (p.a_in_registers) take_registers<E>(b, group, scratch_a());
  g.is_open = true;
  accumulate<E>(b, group, scratch_a(), scratch_b());
}

template <class E>
void run(Thread& t, Product& p) {
  t.data = &p;
  cluster_of(t).converge(t, [](Warp& w) { w.block->cluster->arrive_at_group(w, multiply<E>); });
}

template <class E>
void wgmma_ss(std::uint32_t* accumulators, std::uint32_t count, std::uint64_t a, std::uint64_t b, std::uint32_t scale_d,
              std::uint32_t a_transposed, std::uint32_t b_transposed, std::uint32_t site) {
  Product p{accumulators, static_cast<int>(count), a, b, {}, false, scale_d != 0, a_transposed != 0, b_transposed != 0};
  run<E>(enter("wgmma_ss", site), p);
}
template <class E>
void wgmma_rs(std::uint32_t* accumulators, std::uint32_t count, U32x4 a, std::uint64_t b, std::uint32_t scale_d,
              std::uint32_t b_transposed, std::uint32_t site) {
  Product p{accumulators, static_cast<int>(count), 0, b, a, true, scale_d != 0, false, b_transposed != 0};
  run<E>(enter("wgmma_rs", site), p);
}

// --- Groups of products.
void group_action(Thread& t, void (*action)(Block&, int)) {
  using Action = void (*)(Block&, int);
  struct Holder {
    Action action;
  } holder{action};
  t.data = &holder;
  cluster_of(t).converge(
      t, [](Warp& w) { w.block->cluster->arrive_at_group(w, static_cast<Holder*>(w.lanes[0]->data)->action); });
}

void wgmma_fence(std::uint32_t site) {
  group_action(enter("wgmma_fence", site),
               [](Block& b, int group) { b.groups[static_cast<std::size_t>(group)].is_fenced = true; });
}

void wgmma_commit(std::uint32_t site) {
  group_action(enter("wgmma_commit", site), [](Block& b, int group) {
    WarpGroup& g = b.groups[static_cast<std::size_t>(group)];
    Order& order = b.cluster->order();
    if (g.agent < 0) g.agent = order.new_agent();
    g.groups.push_back(order.clock(g.agent));
    order.tick(g.agent);
    g.is_open = false;
  });
}

// Every thread of the group learns that all but the last n groups have read what they read.
void wait(Thread& t, std::uint32_t n) {
  struct Data {
    void (*action)(Block&, int);
    std::uint32_t n;
  } data{[](Block& b, int group) {
           WarpGroup& g = b.groups[static_cast<std::size_t>(group)];
           const std::uint32_t keep = static_cast<const Data*>(group_thread(b, group, 0).data)->n;
           if (g.groups.size() <= keep) return;
           const auto done = static_cast<std::ptrdiff_t>(g.groups.size() - keep);
           for (int i = 0; i < 128; ++i) {
             b.cluster->order().learn(group_thread(b, group, i).number, g.agent,
                                      g.groups[static_cast<std::size_t>(done - 1)]);
           }
           g.groups.erase(g.groups.begin(), g.groups.begin() + done);
         },
         n};
  t.data = &data;
  cluster_of(t).converge(
      t, [](Warp& w) { w.block->cluster->arrive_at_group(w, static_cast<const Data*>(w.lanes[0]->data)->action); });
}
void wgmma_wait(std::uint32_t n, std::uint32_t site) { wait(enter("wgmma_wait", site), n); }
void wgmma_wait_tied(std::uint32_t*, std::uint32_t, std::uint32_t n, std::uint32_t site) {
  wait(enter("wgmma_wait_tied", site), n);
}

template <class E>
void add_rows_of(Rows& rows, const std::string& element) {
  rows.push_back(row(("wgmma_ss." + element).c_str(), wgmma_ss<E>));
  rows.push_back(row(("wgmma_rs." + element).c_str(), wgmma_rs<E>));
}

}  // namespace

void add_wgmma_rows(Rows& rows) {
  add_rows_of<f16>(rows, "f16");
  add_rows_of<bf16>(rows, "bf16");
  add_rows_of<Tf32>(rows, "tf32");
  add_rows_of<f8e4m3>(rows, "e4m3");
  add_rows_of<f8e5m2>(rows, "e5m2");
  add_rows_of<std::int8_t>(rows, "s8");
  rows.push_back(row("wgmma_fence", wgmma_fence));
  rows.push_back(row("wgmma_commit", wgmma_commit));
  rows.push_back(row("wgmma_wait", wgmma_wait));
  rows.push_back(row("wgmma_wait_tied.f32", wgmma_wait_tied));
  rows.push_back(row("wgmma_wait_tied.s8", wgmma_wait_tied));
}

}  // namespace tileweave::runtime::simt
