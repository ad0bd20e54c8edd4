// A compiled kernel as bytes, with the facts a launch needs: what codegen makes and the cache keeps.
// Between codegen (which fills it), the cache (which stores its serialised form) and load_kernel (which loads it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tileweave::runtime {

struct Binary {
  enum class Kind : std::uint8_t { elf_object, cubin, ptx };

  Kind kind = Kind::elf_object;
  std::string entry;   // the symbol to call
  std::string target;  // a Device::target(): "x86-64:znver4+avx+...", "sm_90a"
  std::vector<std::byte> code;
  int threads_per_block = 1;
  std::int64_t smem_bytes = 0;     // dynamic shared memory of a block
  std::int64_t scratch_bytes = 0;  // CPU: private memory of a call, 64-byte aligned
  int cluster = 1;                 // blocks of a cluster, along x
  // Words "key=value" separated by blanks; unknown ones are ignored. The runtime reads "pdl=1" (may start while the
  // kernel before it in the stream drains).
  std::string meta;

  friend bool operator==(const Binary&, const Binary&) = default;
};

// One versioned block of bytes, the same on every machine (little-endian).
std::vector<std::byte> serialize(const Binary& binary);
// Nothing where the bytes are not whole, of another version, or have a field out of range: total for any input.
std::optional<Binary> deserialize(std::span<const std::byte> bytes);

// Whether `meta` holds the word `word` ("pdl=1").
bool has_meta(const Binary& binary, std::string_view word);

}  // namespace tileweave::runtime
