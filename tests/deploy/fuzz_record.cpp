// libFuzzer target: what `tileweave warmup` and `merge` read from strangers: manifests, and the tile IR inside of
// records. The first byte picks: an even one reads the rest as a manifest (with right checksums), an odd one as IR
// text. Seeds and findings: fuzz/. Anything but a typed error or success is a finding.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tileweave/cache/bytes.h"
#include "tileweave/cache/manifest.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/function.h"

namespace {

using namespace tileweave;

void read_text(std::string_view text) {
  try {
    const ir::Function f = ir::parse(text);
    ir::verify(f, ir::Stage::recorded);
    // What was accepted is printed and read back equal, so that its key means what it says.
    const std::string canonical = ir::to_text(f);
    if (ir::to_text(ir::parse(canonical)) != canonical) std::abort();
  } catch (const Error& e) {
    if (std::string_view(e.what()).empty()) std::abort();
  }
}

// Puts the checksum of each frame right, as far as its size goes, so that the fuzzer gets behind it.
void reseal(std::vector<std::byte>& file) {
  const std::size_t header = cache::manifest_header().size();
  for (std::size_t at = header; at + 8 <= file.size();) {
    const auto frame = std::span(file).subspan(at);
    const std::uint32_t size = cache::ByteReader(frame).u32();
    if (size > frame.size() - 8) return;
    const std::uint32_t crc = cache::crc32c(frame.subspan(8, size), cache::crc32c(frame.first(4)));
    for (std::size_t i = 0; i < 4; ++i) file[at + 4 + i] = static_cast<std::byte>(crc >> (8 * i));
    at += 8 + size;
  }
}

void read_manifest_bytes(std::span<const std::byte> input) {
  std::vector<std::byte> file(input.begin(), input.end());
  for (const bool sealed : {false, true}) {
    if (sealed) reseal(file);
    std::string why;
    const auto m = cache::parse_manifest(file, why);
    if (!m && why.empty()) std::abort();
    if (!m) continue;
    std::size_t bytes = cache::manifest_header().size() + m->cut_bytes;
    for (const cache::Record& r : m->records) {
      const auto frame = cache::encode_record(r);
      if (!frame) std::abort();
      bytes += frame->size();
      if (sealed) read_text(r.ir);
    }
    if (bytes != file.size()) std::abort();
    const cache::Manifest all[] = {*m, *m};
    if (cache::merge_records(all).size() > m->records.size()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* rest = data + 1;
  if (data[0] % 2 == 0) {
    read_manifest_bytes({reinterpret_cast<const std::byte*>(rest), size - 1});
  } else {
    read_text({reinterpret_cast<const char*>(rest), size - 1});
  }
  return 0;
}
