// Walks the records of an .eh_frame section (Linux Standard Base Core, "Exception Frames").
// A pure function of bytes, used by the ELF loader.
#include "tileweave/jit/runtime/eh_frame.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

namespace tileweave::runtime {
namespace {

constexpr std::uint8_t pcrel_sdata4 = 0x1b, pcrel_sdata8 = 0x1c;

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  const std::byte* here() const { return bytes_.data() + at_; }
  template <class T>
  T take() {
    T value{};
    if (bytes_.size() - at_ < sizeof(T)) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, here(), sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t take_leb() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      const auto b = take<std::uint8_t>();
      value |= static_cast<std::uint64_t>(b & 0x7f) << shift;
      if ((b & 0x80) == 0) return value;
    }
    ok_ = false;
    return 0;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

struct Cie {
  std::size_t offset;
  std::uint8_t encoding;
};

std::optional<std::uint8_t> encoding_of_cie(Cursor c) {
  const auto version = c.take<std::uint8_t>();
  if (version != 1) return std::nullopt;
  for (const char expected : {'z', 'R', '\0'}) {
    if (c.take<char>() != expected) return std::nullopt;
  }
  c.take_leb();            // code alignment
  c.take_leb();            // data alignment
  c.take<std::uint8_t>();  // return address column
  if (c.take_leb() != 1) return std::nullopt;
  const auto encoding = c.take<std::uint8_t>();
  if (!c.ok() || (encoding != pcrel_sdata4 && encoding != pcrel_sdata8)) return std::nullopt;
  return encoding;
}

bool describes_code(Cursor c, std::uint8_t encoding, std::span<const std::byte> code) {
  const auto base = reinterpret_cast<std::uint64_t>(c.here());
  std::uint64_t begin = 0, length = 0;
  if (encoding == pcrel_sdata4) {
    begin = base + static_cast<std::uint64_t>(std::int64_t{c.take<std::int32_t>()});
    length = static_cast<std::uint64_t>(std::int64_t{c.take<std::int32_t>()});
  } else {
    begin = base + c.take<std::uint64_t>();
    length = c.take<std::uint64_t>();
  }
  const std::uint64_t augmentation = c.take_leb();
  const auto low = reinterpret_cast<std::uint64_t>(code.data());
  const std::uint64_t offset = begin - low;
  return c.ok() && augmentation == 0 && offset <= code.size() && length <= code.size() - offset;
}

}  // namespace

std::string why_unusable_eh_frame(std::span<const std::byte> frames, std::span<const std::byte> code) {
  std::vector<Cie> cies;
  for (std::size_t at = 0; at < frames.size();) {
    const auto where = " at byte " + std::to_string(at);
    Cursor head(frames.subspan(at));
    const auto length = head.take<std::uint32_t>();
    const std::size_t rest = frames.size() - at - (head.ok() ? 4 : 0);
    if (!head.ok() || (length == 0 && rest != 0) || length > rest) return "a record passes the end" + where;
    if (length == 0) break;
    Cursor body(frames.subspan(at + 4, length));
    const auto id = body.take<std::uint32_t>();
    if (!body.ok()) return "a record is too short" + where;
    if (id == 0) {
      const auto encoding = encoding_of_cie(body);
      if (!encoding) return "a common record has an unknown form" + where;
      cies.push_back({at, *encoding});
    } else {
      const Cie* cie = nullptr;
      for (const Cie& c : cies) cie = at + 4 >= id && c.offset == at + 4 - id ? &c : cie;
      if (cie == nullptr) return "a record names no common record" + where;
      if (!describes_code(body, cie->encoding, code)) return "a record describes no code of the object" + where;
    }
    at += 4 + std::size_t{length};
  }
  return {};
}

}  // namespace tileweave::runtime
