// Tensor-core primitives of a warp: ldmatrix, stmatrix and mma.sync, with the fragment layouts of the PTX manual.
// Products are exact and summed in double, then rounded once: the hardware's own order and width are not specified.
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "tileweave/jit/base/float_types.h"
#include "tileweave/jit/runtime/simt_call.h"

namespace tileweave::runtime::simt {
namespace {

// --- 8x8 matrices of 16 bits in shared memory. Lane l holds row l / 4, columns 2 (l % 4) and the next; its register k
// is of matrix k, whose row r starts at the offset that lane 8 k + r gives.
struct Matrices {
  std::uint32_t offset = 0;
  int count = 0;
  bool transposed = false;
  std::array<std::uint32_t, 4> registers{};
};

Matrices& matrices_of(Warp& w, int lane) {
  return *static_cast<Matrices*>(w.lanes[static_cast<std::size_t>(lane)]->data);
}

// Who holds element (row, column) of a matrix, and in which half of its register.
struct Holder {
  int lane, half;
};
Holder holder_of(int row, int column, bool transposed) {
  if (transposed) std::swap(row, column);
  return {row * 4 + column / 2, column % 2};
}

// f(element's bytes, the register that holds it, its shift there). The access is the holder's: the lane that gives a
// row's address may be another.
template <class F>
void for_each_element(Warp& w, Act act, F&& f) {
  const Matrices first = matrices_of(w, 0);
  for (int k = 0; k < first.count; ++k) {
    for (int r = 0; r < 8; ++r) {
      const std::uint32_t row = matrices_of(w, 8 * k + r).offset;
      check_shared_place(*w.lanes[static_cast<std::size_t>(8 * k + r)], *w.block, row, 16, 16, act);
      for (int column = 0; column < 8; ++column) {
        const Holder h = holder_of(r, column, first.transposed);
        Thread& t = *w.lanes[static_cast<std::size_t>(h.lane)];
        f(shared_access(t, *w.block, row + 2 * column, 2, 2, act),
          matrices_of(w, h.lane).registers[static_cast<std::size_t>(k)], 16 * h.half);
      }
    }
  }
}

void load_matrices(Warp& w) {
  for_each_element(w, Act::read, [](const std::byte* element, std::uint32_t& in, int shift) {
    std::uint16_t bits;
    std::memcpy(&bits, element, sizeof bits);
    in = (in & ~(0xffffu << shift)) | static_cast<std::uint32_t>(bits) << shift;
  });
}
void store_matrices(Warp& w) {
  for_each_element(w, Act::write, [](std::byte* element, const std::uint32_t& out, int shift) {
    const auto bits = static_cast<std::uint16_t>(out >> shift);
    std::memcpy(element, &bits, sizeof bits);
  });
}

template <class T, bool transposed>
T ldmatrix(std::uint32_t offset, std::uint32_t site) {
  Thread& t = enter("ldmatrix", site);
  Matrices m{offset, sizeof(T) / 4, transposed, {}};
  t.data = &m;
  cluster_of(t).converge(t, load_matrices);
  T result;
  std::memcpy(&result, m.registers.data(), sizeof result);
  return result;
}
template <class T, bool transposed>
void stmatrix(std::uint32_t offset, T value, std::uint32_t site) {
  Thread& t = enter("stmatrix", site);
  Matrices m{offset, sizeof(T) / 4, transposed, {}};
  std::memcpy(m.registers.data(), &value, sizeof value);
  t.data = &m;
  cluster_of(t).converge(t, store_matrices);
}

// --- mma.sync. Fragments as register words a lane: a 4, b 2, c and d 4.
struct Fragments {
  std::array<std::uint32_t, 4> a{}, c{};
  std::array<std::uint32_t, 2> b{};
};
Fragments& fragments_of(Warp& w, int lane) {
  return *static_cast<Fragments*>(w.lanes[static_cast<std::size_t>(lane)]->data);
}

template <class E>
E element_at(std::uint32_t word, int i) {
  constexpr int bits = 8 * static_cast<int>(sizeof(E));
  if constexpr (std::is_integral_v<E>) {
    return static_cast<E>(word >> (bits * i));
  } else {
    return E::from_bits(static_cast<typename E::Storage>(word >> (bits * i)));
  }
}
// tf32: an f32 whose 13 low bits are not looked at.
struct Tf32 {
  std::uint32_t bits;
  using Storage = std::uint32_t;
  static Tf32 from_bits(std::uint32_t b) { return {b & ~0x1fffu}; }
  operator float() const { return std::bit_cast<float>(bits); }
};

// With `per` elements a 32-bit word: A is 16 x 8 per (register r: rows +8 for r & 1, columns + 4 per for r & 2), B is
// 8 per x 8 (register r: rows + 4 per r). Lane = 4 group + member.
template <class E>
auto a_element(Warp& w, int row, int k) {
  constexpr int per = 4 / static_cast<int>(sizeof(E));
  const int half = k / (4 * per), inner = k % (4 * per);
  const int lane = row % 8 * 4 + inner / per, r = row / 8 + 2 * half;
  return element_at<E>(fragments_of(w, lane).a[static_cast<std::size_t>(r)], inner % per);
}
template <class E>
auto b_element(Warp& w, int k, int column) {
  constexpr int per = 4 / static_cast<int>(sizeof(E));
  const int half = k / (4 * per), inner = k % (4 * per);
  const int lane = column * 4 + inner / per;
  return element_at<E>(fragments_of(w, lane).b[static_cast<std::size_t>(half)], inner % per);
}

template <class A, class B>
void multiply(Warp& w) {
  constexpr int depth = 8 * (4 / static_cast<int>(sizeof(A)));
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      const int lane = row % 8 * 4 + column / 2;
      std::uint32_t& c = fragments_of(w, lane).c[static_cast<std::size_t>(row / 8 * 2 + column % 2)];
      if constexpr (std::is_integral_v<A>) {
        for (int k = 0; k < depth; ++k) {
          c += static_cast<std::uint32_t>(a_element<A>(w, row, k) * b_element<B>(w, k, column));
        }
      } else {
        double sum = static_cast<double>(std::bit_cast<float>(c));
        for (int k = 0; k < depth; ++k) {
          sum += static_cast<double>(static_cast<float>(a_element<A>(w, row, k))) *
                 static_cast<double>(static_cast<float>(b_element<B>(w, k, column)));
        }
        c = std::bit_cast<std::uint32_t>(static_cast<float>(sum));
      }
    }
  }
}

template <class C, class A, class B>
C mma(U32x4 a, U32x2 b, C c, std::uint32_t site) {
  Thread& t = enter("mma", site);
  Fragments f;
  std::memcpy(f.a.data(), &a, sizeof a);
  std::memcpy(f.b.data(), &b, sizeof b);
  std::memcpy(f.c.data(), &c, sizeof c);
  t.data = &f;
  cluster_of(t).converge(t, multiply<A, B>);
  std::memcpy(&c, f.c.data(), sizeof c);
  return c;
}

// m8n8k4: a is row lane / 4, k lane % 4; b is k lane % 4, column lane / 4; c is row lane / 4, columns 2 (lane % 4) + i.
struct Doubles {
  double a, b;
  F64x2 c;
};
F64x2 mma_f64(double a, double b, F64x2 c, std::uint32_t site) {
  Thread& t = enter("mma_f64", site);
  Doubles d{a, b, c};
  t.data = &d;
  cluster_of(t).converge(t, [](Warp& w) {
    const auto at = [&](int lane) -> Doubles& {
      return *static_cast<Doubles*>(w.lanes[static_cast<std::size_t>(lane)]->data);
    };
    for (int lane = 0; lane < warp_size; ++lane) {
      for (int i = 0; i < 2; ++i) {
        const int row = lane / 4, column = 2 * (lane % 4) + i;
        for (int k = 0; k < 4; ++k) at(lane).c[i] = std::fma(at(4 * row + k).a, at(4 * column + k).b, at(lane).c[i]);
      }
    }
  });
  return d.c;
}

template <class T>
void add_matrix_rows(Rows& rows, const std::string& element) {
  rows.push_back(row(("ldmatrix." + element).c_str(), ldmatrix<T, false>));
  rows.push_back(row(("ldmatrix_trans." + element).c_str(), ldmatrix<T, true>));
  rows.push_back(row(("stmatrix." + element).c_str(), stmatrix<T, false>));
  rows.push_back(row(("stmatrix_trans." + element).c_str(), stmatrix<T, true>));
}

}  // namespace

void add_mma_rows(Rows& rows) {
  add_matrix_rows<std::uint32_t>(rows, "i32");
  add_matrix_rows<U32x2>(rows, "v2i32");
  add_matrix_rows<U32x4>(rows, "v4i32");
  rows.push_back(row("mma_f16", mma<F32x4, f16, f16>));
  rows.push_back(row("mma_bf16", mma<F32x4, bf16, bf16>));
  rows.push_back(row("mma_tf32", mma<F32x4, Tf32, Tf32>));
  rows.push_back(row("mma_s8", mma<U32x4, std::int8_t, std::int8_t>));
  rows.push_back(row("mma_u8", mma<U32x4, std::uint8_t, std::uint8_t>));
  rows.push_back(row("mma_fp8.e4m3_e4m3", mma<F32x4, f8e4m3, f8e4m3>));
  rows.push_back(row("mma_fp8.e4m3_e5m2", mma<F32x4, f8e4m3, f8e5m2>));
  rows.push_back(row("mma_fp8.e5m2_e4m3", mma<F32x4, f8e5m2, f8e4m3>));
  rows.push_back(row("mma_fp8.e5m2_e5m2", mma<F32x4, f8e5m2, f8e5m2>));
  rows.push_back(row("mma_f64", mma_f64));
}

}  // namespace tileweave::runtime::simt
