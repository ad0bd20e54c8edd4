// Written by `tileweave fuse` from math.cpp: edit that file, not this one.
#pragma once

#include <tileweave/dsl/decorated.h>
#include <tileweave/dsl/trace_cpp.h>

namespace tileweave::trace::bodies {

struct mixed_body {
  static constexpr std::string_view name = "mixed";
  using type = double(float, std::uint8_t, bool);
#line 10 "math.cpp"
  static void trace(Value<float> x, Value<std::uint8_t> code, Value<bool> flag) {
    [[maybe_unused]] const Let<float> a = cpp::clamp(op::abs(x), 0.0f, 10.0f);
    [[maybe_unused]] const Let<unsigned> bits = bit_cast<unsigned>(a) >> to<unsigned>(to<int>(code) & 3);
    Local<double> r(op::pow(to<double>(a), 1.5) + 3.1415926535897931 /* pi */ * to<double>(to<int>(code)));
    if_(flag, [&] {
#line 14
      r = cpp::max(r, op::sin(r));
    });
#line 15
    return_(r + to<double>(bits % 7u) + to<double>(to<int>(op::is_nan(x))));
  }
};
#line 26 "math.fusion.h"

}  // namespace tileweave::trace::bodies

namespace tileweave::fused {
// double(float, std::uint8_t, bool)
inline constexpr Decorated<trace::Traced<trace::bodies::mixed_body>> mixed{};
}  // namespace tileweave::fused
