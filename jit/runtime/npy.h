// NumPy's .npy files in and out, for every element type NumPy shares with us.
// At the edge of the flow: users' own arrays come in and results go out here.
#pragma once

#include <string>

#include "tileweave/jit/runtime/tensor.h"

namespace tileweave::runtime {

// Reads a .npy file (format 1, 2 or 3, either byte order, C or Fortran order) into a row-major tensor.
// Errors: LaunchError that names the file and what is wrong with it (an element type we lack, objects, a damaged
// header, too few bytes).
AnyTensor load_npy(const std::string& path, const Device& device, Memory memory = Memory::device,
                   const Place& place = std::source_location::current());

// Writes the tensor as a row-major .npy file (format 1, little-endian), replacing an old file whole or not at all.
// bf16 is written as its bits in u2, f8 in u1: NumPy has no such types. load_npy gives these back as u16 and u8; use
// view_as to see them as what they were.
void save_npy(const std::string& path, const AnyTensor& tensor, const Place& place = std::source_location::current());

}  // namespace tileweave::runtime
