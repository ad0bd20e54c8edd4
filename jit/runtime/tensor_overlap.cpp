// Whether two strided views can touch one byte in common: exact for what programs do, cautious beyond a bounded search.
// Read by dsl at every launch (aliasing facts) and by copies.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "tileweave/jit/runtime/tensor.h"
#include "tileweave/jit/runtime/tensor_math.h"

namespace tileweave::runtime {
namespace {

// Sums of products of 64-bit numbers.
__extension__ typedef __int128 Wide;

// One term i * stride with low <= i <= high, stride > 0.
struct Term {
  std::int64_t stride, low, high;
};

// Whether sum(i_k * stride_k) can lie in [first, last], by trying the few i of the largest stride that leave a rest the
// others can reach.
class Search {
 public:
  void add(std::int64_t stride, std::int64_t low, std::int64_t high) {
    if (stride == 0 || low == high) {
      offset_ += low == high ? static_cast<Wide>(low) * stride : 0;
      return;
    }
    if (stride < 0) {
      stride = -stride;
      std::swap(low, high);
      low = -low;
      high = -high;
    }
    for (int k = 0; k < count_; ++k) {
      if (terms_[k].stride != stride) continue;
      terms_[k].low += low;
      terms_[k].high += high;
      return;
    }
    terms_[count_++] = {stride, low, high};
  }
  bool reaches(std::int64_t first, std::int64_t last) {
    std::sort(terms_.begin(), terms_.begin() + count_,
              [](const Term& a, const Term& b) { return a.stride > b.stride; });
    Wide low = 0, high = 0;
    for (int k = count_ - 1; k >= 0; --k) {
      low += static_cast<Wide>(terms_[k].low) * terms_[k].stride;
      high += static_cast<Wide>(terms_[k].high) * terms_[k].stride;
      reach_[k] = {low, high};
    }
    reach_[count_] = {0, 0};
    return reaches(0, first - offset_, last - offset_);
  }

 private:
  struct Interval {
    Wide low, high;
  };

  static Wide floor_div(Wide a, Wide b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

  bool reaches(int k, Wide first, Wide last) {
    if (last < reach_[k].low || first > reach_[k].high) return false;
    if (k == count_ || --budget_ < 0) return true;
    // i * stride must lie in [first - rest.high, last - rest.low].
    const Interval rest = reach_[k + 1];
    const Wide stride = terms_[k].stride;
    const Wide low = std::max<Wide>(terms_[k].low, -floor_div(-(first - rest.high), stride));
    const Wide high = std::min<Wide>(terms_[k].high, floor_div(last - rest.low, stride));
    if (k + 1 == count_) return low <= high;
    if (high - low > budget_) return true;
    for (Wide i = low; i <= high; ++i) {
      if (reaches(k + 1, first - i * stride, last - i * stride)) return true;
    }
    return false;
  }

  std::array<Term, 2 * max_rank> terms_{};
  std::array<Interval, 2 * max_rank + 1> reach_{};
  int count_ = 0;
  int budget_ = 4096;  // beyond it the answer is "may"
  Wide offset_ = 0;
};

bool share_an_address_space(const AnyTensor& a, const AnyTensor& b) {
  if (a.device() == b.device()) return true;
  return a.storage()->is_host_readable() && b.storage()->is_host_readable();
}

}  // namespace

ByteInterval bytes_touched(const AnyTensor& t) {
  return t.size() == 0 ? ByteInterval{} : checked_interval(t.extents(), t.strides(), t.dtype(), {});
}

bool may_overlap(const AnyTensor& a, const AnyTensor& b) {
  if (a.size() == 0 || b.size() == 0 || !share_an_address_space(a, b)) return false;
  const ByteInterval in_a = bytes_touched(a), in_b = bytes_touched(b);
  const auto at_a = static_cast<std::byte*>(a.data()), at_b = static_cast<std::byte*>(b.data());
  if (at_a + in_a.last <= at_b + in_b.first || at_b + in_b.last <= at_a + in_a.first) return false;
  // An element of a at sum(i * s), one of b at distance + sum(j * t): they meet where the difference of the sums is
  // within distance + (-bytes of a, bytes of b).
  Search search;
  const std::int64_t bytes_a = dtype_bytes(a.dtype()), bytes_b = dtype_bytes(b.dtype());
  for (int i = 0; i < a.rank(); ++i) search.add(a.stride(i) * bytes_a, 0, a.extent(i) - 1);
  for (int i = 0; i < b.rank(); ++i) search.add(b.stride(i) * bytes_b, 1 - b.extent(i), 0);
  const std::int64_t distance = at_b - at_a;
  return search.reaches(distance - bytes_a + 1, distance + bytes_b - 1);
}

bool may_overlap_itself(const AnyTensor& t) {
  if (t.size() <= 1) return false;
  struct Axis {
    std::int64_t step, extent;
  };
  std::array<Axis, max_rank> axes;
  axes.fill({INT64_MAX, 1});  // axes that do not exist sort behind those that do
  int count = 0;
  for (int i = 0; i < t.rank(); ++i) {
    if (t.extent(i) > 1) axes[count++] = {std::abs(t.stride(i)), t.extent(i)};
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.step < b.step; });
  std::int64_t span = 1;  // elements that the axes so far stretch over
  for (int i = 0; i < count; ++i) {
    if (axes[i].step < span) return true;
    span += axes[i].step * (axes[i].extent - 1);
  }
  return false;
}

bool is_same_view(const AnyTensor& a, const AnyTensor& b) {
  if (a.data() != b.data() || a.extents() != b.extents() || dtype_bytes(a.dtype()) != dtype_bytes(b.dtype())) {
    return false;
  }
  for (int i = 0; i < a.rank(); ++i) {
    if (a.extent(i) > 1 && a.stride(i) != b.stride(i)) return false;
  }
  return true;
}

}  // namespace tileweave::runtime
