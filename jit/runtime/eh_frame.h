// A check of unwind data (.eh_frame) before it is given to the unwinder, which trusts it.
// Used by the ELF loader after relocation.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tileweave::runtime {

// Empty where every record of `frames` lies inside it, has the form that our code generator writes (augmentation "zR",
// pc-relative addresses) and describes code inside `code`; else what is wrong.
std::string why_unusable_eh_frame(std::span<const std::byte> frames, std::span<const std::byte> code);

}  // namespace tileweave::runtime
