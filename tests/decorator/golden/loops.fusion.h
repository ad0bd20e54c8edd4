// Written by `tileweave fuse` from loops.cpp: edit that file, not this one.
#pragma once

#include <tileweave/dsl/decorated.h>
#include <tileweave/dsl/trace_cpp.h>

namespace tileweave::trace::bodies {

struct series_body {
  static constexpr std::string_view name = "series";
  using type = float(float, int);
#line 11 "loops.cpp"
  static void trace(Value<float> x, Value<int> n_in) {
#line 11
    Local<int> n(n_in);
    Local<float> sum(0.0f);
#line 12
    Local<float> power(1.0f);
    {
#line 13
      Counter<int> i(0);
#line 13
      for_([&] { return Value<bool>(i < 3); }, [&] {
        sum += table<float>({1.0f, 0.5f, 0.25f}, i) * power;
        power *= x;
      }, [&] { i += int(1); });
    }
#line 17
    while_([&] { return Value<bool>(n > 0); }, [&] {
      if_(sum > 100.0f, [&] { break_(); });
      sum = sum * x + 1.0f;
      n.postfix(int(-1));
    });
    do_while([&] {
      sum *= 0.5f;
    }, [&] { return Value<bool>(sum > 1.0f); });
    return_(sum);
  }
};
#line 41 "loops.fusion.h"

}  // namespace tileweave::trace::bodies

namespace tileweave::fused {
// float(float, int)
inline constexpr Decorated<trace::Traced<trace::bodies::series_body>> series{};
}  // namespace tileweave::fused
