// Linear maps over GF(2), as one machine word a column: what layouts are made of.
// Under layout.h: plain algebra, no notion of a tile or a thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tileweave::ir {

// Column j is the image of input bit j; addition is xor. At most 64 rows.
class BitMatrix {
 public:
  BitMatrix() = default;
  BitMatrix(int rows, std::vector<std::uint64_t> columns) : rows_(rows), columns_(std::move(columns)) {}
  static BitMatrix identity(int n);

  int rows() const { return rows_; }
  int cols() const { return static_cast<int>(columns_.size()); }
  std::uint64_t column(int j) const { return columns_[static_cast<std::size_t>(j)]; }
  const std::vector<std::uint64_t>& columns() const { return columns_; }

  std::uint64_t apply(std::uint64_t x) const;
  // this after `first`: (a * b).apply(x) == a.apply(b.apply(x)).
  BitMatrix operator*(const BitMatrix& first) const;
  int rank() const;
  bool is_surjective() const { return rank() == rows_; }
  bool is_injective() const { return rank() == cols(); }
  // A basis of the inputs that go to 0.
  std::vector<std::uint64_t> kernel() const;
  // Some x with apply(x) == y, or nothing. Columns of low index are preferred: the columns that depend on lower ones
  // are never used.
  std::optional<std::uint64_t> solve(std::uint64_t y) const;
  // R with (*this * R) the identity on the image of *this and R * y using only independent columns (see solve); a
  // two-sided inverse where there is one. Rows of y outside the image give nothing useful.
  BitMatrix pseudo_inverse() const;
  friend bool operator==(const BitMatrix&, const BitMatrix&) = default;

 private:
  int rows_ = 0;
  std::vector<std::uint64_t> columns_;
};

// A subspace kept in echelon form: grows vector by vector.
class Subspace {
 public:
  // True where v was new (independent of what is there).
  bool add(std::uint64_t v);
  bool contains(std::uint64_t v) const { return reduce(v) == 0; }
  // The remainder of v modulo the subspace.
  std::uint64_t reduce(std::uint64_t v) const;
  int dimension() const { return static_cast<int>(basis_.size()); }

 private:
  std::vector<std::uint64_t> basis_;  // distinct leading bits, each reduced by the ones before
};

// A basis of span(a) intersected with span(b).
std::vector<std::uint64_t> intersect(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b);

}  // namespace tileweave::ir
