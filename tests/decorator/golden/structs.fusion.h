// Written by `tileweave fuse` from structs.cpp: edit that file, not this one.
#pragma once

#include <tileweave/dsl/decorated.h>
#include <tileweave/dsl/trace_cpp.h>

namespace tileweave::trace::bodies {

struct multiply_body {
  static constexpr std::string_view name = "multiply";
  using type = Results<float, float>(float, float, float, float);
  template <class T0, class T1>
  struct Fields { T0 re; T1 im; };
  template <class T0, class T1>
  static Fields<T0, T1> fields(const T0& v0, const T1& v1) { return {v0, v1}; }
#line 12 "structs.cpp"
  static void trace(Value<float> a_re, Value<float> a_im, Value<float> b_re, Value<float> b_im) {
    return_({a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re});
  }
};
#line 22 "structs.fusion.h"

struct norm_of_square_body {
  static constexpr std::string_view name = "norm_of_square";
  using type = float(float, float);
#line 15 "structs.cpp"
  static void trace(Value<float> z_re, Value<float> z_im) {
    const auto multiply_result = call<multiply_body>(z_re, z_im, z_re, z_im);
#line 16
    [[maybe_unused]] const Let<float> s_re = std::get<0>(multiply_result);
#line 16
    [[maybe_unused]] const Let<float> s_im = std::get<1>(multiply_result);
    return_(s_re * s_re + s_im * s_im);
  }
};
#line 37 "structs.fusion.h"

struct halfway_float_float_body {
  static constexpr std::string_view name = "halfway";
  using type = float(float, float);
#line 20 "structs.cpp"
  static void trace(Value<float> a, Value<float> b) {
    return_((a + b) / 2.0f);
  }
};
#line 47 "structs.fusion.h"

struct halfway_double_double_body {
  static constexpr std::string_view name = "halfway";
  using type = double(double, double);
#line 20 "structs.cpp"
  static void trace(Value<double> a, Value<double> b) {
    return_((a + b) / 2.0);
  }
};
#line 57 "structs.fusion.h"

struct halfway_int_int_body {
  static constexpr std::string_view name = "halfway";
  using type = int(int, int);
#line 20 "structs.cpp"
  static void trace(Value<int> a, Value<int> b) {
    return_((a + b) / 2);
  }
};
#line 67 "structs.fusion.h"

struct halfway_unsigned_unsigned_body {
  static constexpr std::string_view name = "halfway";
  using type = unsigned(unsigned, unsigned);
#line 20 "structs.cpp"
  static void trace(Value<unsigned> a, Value<unsigned> b) {
    return_((a + b) / 2u);
  }
};
#line 77 "structs.fusion.h"

struct halfway_stdint64_t_stdint64_t_body {
  static constexpr std::string_view name = "halfway";
  using type = std::int64_t(std::int64_t, std::int64_t);
#line 20 "structs.cpp"
  static void trace(Value<std::int64_t> a, Value<std::int64_t> b) {
    return_((a + b) / 2L);
  }
};
#line 87 "structs.fusion.h"

struct halfway_stduint64_t_stduint64_t_body {
  static constexpr std::string_view name = "halfway";
  using type = std::uint64_t(std::uint64_t, std::uint64_t);
#line 20 "structs.cpp"
  static void trace(Value<std::uint64_t> a, Value<std::uint64_t> b) {
    return_((a + b) / 2uL);
  }
};
#line 97 "structs.fusion.h"

}  // namespace tileweave::trace::bodies

namespace tileweave::fused {
// Results<float, float>(float, float, float, float)
inline constexpr Decorated<trace::Traced<trace::bodies::multiply_body>> multiply{};
}  // namespace tileweave::fused

namespace tileweave::fused {
// float(float, float)
inline constexpr Decorated<trace::Traced<trace::bodies::norm_of_square_body>> norm_of_square{};
}  // namespace tileweave::fused

namespace tileweave::fused {
// float(float, float); double(double, double); int(int, int); unsigned(unsigned, unsigned); std::int64_t(std::int64_t, std::int64_t); std::uint64_t(std::uint64_t, std::uint64_t)
inline constexpr Decorated<trace::Traced<trace::bodies::halfway_float_float_body>,
                        trace::Traced<trace::bodies::halfway_double_double_body>,
                        trace::Traced<trace::bodies::halfway_int_int_body>,
                        trace::Traced<trace::bodies::halfway_unsigned_unsigned_body>,
                        trace::Traced<trace::bodies::halfway_stdint64_t_stdint64_t_body>,
                        trace::Traced<trace::bodies::halfway_stduint64_t_stduint64_t_body>> halfway{};
}  // namespace tileweave::fused
