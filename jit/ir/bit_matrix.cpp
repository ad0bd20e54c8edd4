// Gaussian elimination over GF(2): rank, kernel, solving, pseudo-inverse, intersections.
// Used by layouts and by the planning of layout conversions.
#include "tileweave/jit/ir/bit_matrix.h"

#include <bit>

namespace tileweave::ir {
namespace {

std::uint64_t leading_bit(std::uint64_t v) { return std::uint64_t{1} << (63 - std::countl_zero(v)); }

// Rows of an elimination: a vector of the column space and the combination of columns that makes it.
struct Pivot {
  std::uint64_t value, combination;
};

// Reduces `value` by the pivots, noting what was added.
Pivot reduce_by(const std::vector<Pivot>& pivots, std::uint64_t value, std::uint64_t combination) {
  for (const Pivot& p : pivots) {
    if ((value & leading_bit(p.value)) != 0) {
      value ^= p.value;
      combination ^= p.combination;
    }
  }
  return {value, combination};
}

std::vector<Pivot> eliminate(const BitMatrix& m, std::vector<std::uint64_t>* kernel) {
  std::vector<Pivot> pivots;
  for (int j = 0; j < m.cols(); ++j) {
    const Pivot p = reduce_by(pivots, m.column(j), std::uint64_t{1} << j);
    if (p.value != 0) {
      pivots.push_back(p);
    } else if (kernel != nullptr) {
      kernel->push_back(p.combination);
    }
  }
  return pivots;
}

}  // namespace

BitMatrix BitMatrix::identity(int n) {
  std::vector<std::uint64_t> columns;
  for (int i = 0; i < n; ++i) columns.push_back(std::uint64_t{1} << i);
  return BitMatrix(n, std::move(columns));
}

std::uint64_t BitMatrix::apply(std::uint64_t x) const {
  std::uint64_t y = 0;
  for (std::size_t j = 0; j < columns_.size(); ++j) {
    if ((x >> j & 1) != 0) y ^= columns_[j];
  }
  return y;
}

BitMatrix BitMatrix::operator*(const BitMatrix& first) const {
  std::vector<std::uint64_t> columns;
  for (std::uint64_t c : first.columns_) columns.push_back(apply(c));
  return BitMatrix(rows_, std::move(columns));
}

int BitMatrix::rank() const { return static_cast<int>(eliminate(*this, nullptr).size()); }

std::vector<std::uint64_t> BitMatrix::kernel() const {
  std::vector<std::uint64_t> basis;
  eliminate(*this, &basis);
  return basis;
}

std::optional<std::uint64_t> BitMatrix::solve(std::uint64_t y) const {
  const Pivot p = reduce_by(eliminate(*this, nullptr), y, 0);
  if (p.value != 0) return std::nullopt;
  return p.combination;
}

BitMatrix BitMatrix::pseudo_inverse() const {
  const std::vector<Pivot> pivots = eliminate(*this, nullptr);
  // The image of a unit vector outside the column space is the solution of its remainder's complement: what is left
  // over is dropped, which is harmless on the image and keeps the map linear.
  std::vector<std::uint64_t> columns;
  for (int i = 0; i < rows_; ++i) columns.push_back(reduce_by(pivots, std::uint64_t{1} << i, 0).combination);
  return BitMatrix(cols(), std::move(columns));
}

std::uint64_t Subspace::reduce(std::uint64_t v) const {
  for (std::uint64_t b : basis_) {
    if ((v & leading_bit(b)) != 0) v ^= b;
  }
  return v;
}

bool Subspace::add(std::uint64_t v) {
  v = reduce(v);
  if (v == 0) return false;
  basis_.push_back(v);
  return true;
}

std::vector<std::uint64_t> intersect(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  // Each vector of the kernel of [a b] is a sum of a's that equals a sum of b's.
  std::vector<std::uint64_t> both = a;
  both.insert(both.end(), b.begin(), b.end());
  const BitMatrix m(64, both);
  const std::uint64_t a_mask = a.size() >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << a.size()) - 1;
  Subspace found;
  std::vector<std::uint64_t> basis;
  for (std::uint64_t k : m.kernel()) {
    const std::uint64_t v = m.apply(k & a_mask);
    if (found.add(v)) basis.push_back(v);
  }
  return basis;
}

}  // namespace tileweave::ir
