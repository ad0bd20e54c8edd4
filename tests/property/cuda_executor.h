// Runs a program on the first CUDA device: compiled as a launch would, on a copy of its memory.
// A backend for compare_with_interpreter, for machines that have a GPU.
#pragma once

#include "tests/property/compare.h"

namespace tileweave::property {

// Each view's bytes are copied to the device and back; views that share memory there share it here.
Executor cuda_executor();

}  // namespace tileweave::property
