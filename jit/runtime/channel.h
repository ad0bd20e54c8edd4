// Reads what a kernel wrote into its channel (jit/base/channel.h): prints lines, gives the failure to report.
// Used by the CUDA stream when the host waits for it, and by the SIMT emulation after a launch.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tileweave/jit/base/channel.h"
#include "tileweave/jit/base/place.h"

namespace tileweave::runtime {

struct ChannelFailure {
  Place place;
  std::string message;
};

// Prints what was printed, whole lines in the order of programs as far as each thread's order allows, and gives the
// failure of the lowest program. `buffer` has channel::bytes bytes.
std::optional<ChannelFailure> deliver(const char* kernel, const std::vector<ChannelText>& texts,
                                      std::span<const std::byte> buffer);

}  // namespace tileweave::runtime
