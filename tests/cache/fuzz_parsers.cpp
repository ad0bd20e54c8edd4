// libFuzzer target: the parsers of entry files, key blobs and pack indexes, which read whatever lies in a directory.
// The first byte picks the parser; checksums are put right first, so that the fuzzer gets behind them. Seeds: fuzz/.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tileweave/cache/bytes.h"
#include "tileweave/cache/entry.h"
#include "tileweave/cache/pack.h"
#include "tileweave/cache/pack_format.h"

namespace {

using namespace tileweave::cache;

void fuzz_key(std::span<const std::byte> input) {
  const auto key = Key::parse(input, "kernel");
  if (!key) return;
  KeyReader reader(key->blob());
  std::size_t fields = 0;
  while (const auto field = reader.next()) fields += field->to_text().empty() ? 0 : 1;
  const Key other = KeyWriter(key->profile()).finish("kernel");
  const bool equal = *key == other;
  if (differences(*key, other).empty() != equal) std::abort();
  if (other.profile_id() != key->profile_id() && key->profile() == other.profile() && fields == 6 && equal)
    std::abort();
}

void fuzz_entry(std::span<const std::byte> input) {
  constexpr std::size_t checksummed_from = 24;
  std::vector<std::byte> file(input.begin(), input.end());
  EntryView view;
  (void)check_entry(file, view);
  if (file.size() <= checksummed_from) return;
  const Hash128 h = hash128(std::span(file).subspan(checksummed_from));
  for (std::size_t i = 0; i < 8; ++i) {
    file[8 + i] = static_cast<std::byte>(h.high >> (8 * i));
    file[16 + i] = static_cast<std::byte>(h.low >> (8 * i));
  }
  if (check_entry(file, view) != EntryFault::none) return;
  const auto entry = view.entry();
  if (!entry && view.raw_bytes == 0) std::abort();
  if (entry && (entry->payload.empty() || entry->payload.size() != view.payload_bytes())) std::abort();
  // What is accepted is exactly what the writer writes; a compressed payload may have been packed otherwise.
  const auto key = Key::parse(view.key_blob, std::string(view.kernel_name));
  if (key && view.raw_bytes == 0 && encode_entry(*key, *entry, view.created) != file) std::abort();
  fuzz_key(view.key_blob);
}

void fuzz_pack(std::span<const std::byte> input) {
  std::vector<std::byte> file(input.begin(), input.end());
  if (file.size() >= pack_header_bytes + pack_footer_bytes) {
    ByteReader header(std::span<const std::byte>(file).subspan(32));
    const std::uint64_t index_at = header.u64(), index_bytes = header.u64();
    if (index_at <= file.size() && index_bytes <= file.size() - index_at) {
      std::vector<std::byte> covered(file.begin(), file.begin() + pack_header_bytes);
      covered.insert(covered.end(), file.begin() + static_cast<std::ptrdiff_t>(index_at),
                     file.begin() + static_cast<std::ptrdiff_t>(index_at + index_bytes));
      std::ranges::copy(sha256_portable(covered), file.end() - pack_footer_bytes);
    }
  }
  const int fd = ::memfd_create("pack", MFD_CLOEXEC);
  if (::write(fd, file.data(), file.size()) == static_cast<ssize_t>(file.size())) {
    std::string why;
    const auto index = read_pack_index(fd, why);
    if (!index && why.empty()) std::abort();
    for (std::size_t i = 0; index && i < index->rows.size(); ++i) {
      if (index->rows[i].offset + index->rows[i].size > file.size()) std::abort();
    }
  }
  ::close(fd);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0:
      fuzz_key(input);
      break;
    case 1:
      fuzz_entry(input);
      break;
    default:
      fuzz_pack(input);
  }
  return 0;
}
