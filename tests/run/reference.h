// What the run tests share: the device, tensors from numbers, and the largest error against a reference in double.
// Used by every file of this folder.
#pragma once

#include <tileweave/tileweave.h>

#include <cmath>
#include <vector>

namespace tw = tileweave;

inline tw::Device device() { return tw::Device::best(); }

template <class T>
tw::Tensor<T> tensor(const tw::Shape& extents, const std::vector<double>& values) {
  std::vector<T> v;
  for (const double x : values) v.push_back(static_cast<T>(x));
  return tw::Tensor<T>::from_host(device(), extents, v);
}

// 0, 1, 2, ...
inline std::vector<double> counting(std::size_t n) {
  std::vector<double> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<double>(i);
  return v;
}

template <class T>
std::vector<double> doubles(const tw::Tensor<T>& t) {
  std::vector<double> out;
  for (const T x : t.to_host()) out.push_back(static_cast<double>(x));
  return out;
}

// The largest |got - expected| / max(1, |expected|); infinite where sizes differ or one alone is NaN.
inline double error(const std::vector<double>& got, const std::vector<double>& expected) {
  if (got.size() != expected.size()) return HUGE_VAL;
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    if (got[i] == expected[i]) continue;
    const double e = std::fabs(got[i] - expected[i]) / std::fmax(1.0, std::fabs(expected[i]));
    worst = std::isnan(e) ? HUGE_VAL : std::fmax(worst, e);
  }
  return worst;
}

// What rounding to T once may cost, relative.
template <class T>
double rounding() {
  return static_cast<double>(static_cast<float>(std::numeric_limits<T>::epsilon()));
}
