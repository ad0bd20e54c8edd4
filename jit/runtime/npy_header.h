// The text of a .npy header: a Python dictionary literal with three keys, parsed and written.
// A pure function of text, under load_npy and save_npy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tileweave/jit/runtime/tensor.h"

namespace tileweave::runtime::npy {

inline constexpr std::uint32_t max_header_bytes = 1 << 20;

struct Header {
  std::string wrong;  // empty: the rest holds
  Dtype dtype = Dtype::f32;
  bool is_big_endian = false;
  bool is_fortran_order = false;
  Dims extents;
};

// Total: any text gives a header or says what is wrong with it.
Header parse_header(std::string_view text);

// The whole start of a version 1 file, padded so that the data begins at a multiple of 64 bytes.
std::string make_header(const std::string& descr, const Dims& extents);

}  // namespace tileweave::runtime::npy
