// Written by `tileweave fuse` from branches.cpp: edit that file, not this one.
#pragma once

#include <tileweave/dsl/decorated.h>
#include <tileweave/dsl/trace_cpp.h>

namespace tileweave::trace::bodies {

struct soft_clip_body {
  static constexpr std::string_view name = "soft_clip";
  using type = float(float, float, float);
#line 9 "branches.cpp"
  static void trace(Value<float> x, Value<float> lo, Value<float> hi) {
    if_(x < lo, [&] { return_(lo + 0.1f * (x - lo)); });
    if_(x > hi, [&] { return_(hi + 0.1f * (x - hi)); });
    return_(x);
  }
};
#line 20 "branches.fusion.h"

struct geometry_pick_body {
  static constexpr std::string_view name = "geometry::pick";
  using type = int(float, int);
#line 17 "branches.cpp"
  static void trace(Value<float> x, Value<int> side) {
    Local<int> score(0);
    if_((x > 1.0f) & (side != 0 /* left */), [&] {
      score += 2;
    }, [&] {
#line 21
      if_((x < -1.0f) | !(x == x), [&] {
        score -= 1;
      });
    });
#line 24
    {
      const Let<int> chosen = side;
      if_(chosen == 0 /* left */, [&] {
#line 26
        return_(score);
      }, [&] {
        if_(chosen == 5 /* right */, [&] {
#line 28
          score += int(1);
        }, [&] {
#line 31
          score *= 3;
        });
      });
    }
#line 33
    return_(where(x > 0.0f, score, -score));
  }
};
#line 56 "branches.fusion.h"

}  // namespace tileweave::trace::bodies

namespace tileweave::fused {
// float(float, float, float)
inline constexpr Decorated<trace::Traced<trace::bodies::soft_clip_body>> soft_clip{};
}  // namespace tileweave::fused

namespace tileweave::fused::geometry {
// int(float, int)
inline constexpr Decorated<trace::Traced<trace::bodies::geometry_pick_body>> pick{};
}  // namespace tileweave::fused::geometry
