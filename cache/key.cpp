// Key blobs: {kind, name length, name, value length, value} for each field, little-endian, the profile's fields first.
// Self-describing, so that explaining a miss needs no knowledge of what the fields mean.
#include "tileweave/cache/key.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

#include "tileweave/cache/bytes.h"

namespace tileweave::cache {
namespace {

constexpr std::size_t profile_fields = 6;
constexpr std::string_view format_field = "format";
constexpr std::string Profile::* profile_members[] = {&Profile::codegen, &Profile::llvm, &Profile::target,
                                                      &Profile::artefact, &Profile::assembler};
constexpr std::string_view profile_names[] = {"codegen", "llvm", "target", "artefact", "assembler"};

std::atomic<unsigned> address_bits{128};

Hash128 address_of(std::span<const std::byte> blob) {
  Hash128 h = hash128(blob);
  const unsigned bits = address_bits.load(std::memory_order_relaxed);
  if (bits >= 128) return h;
  // The lowest bits stay: they end up in the file's name, not in the shard's.
  h.high = bits > 64 ? h.high & ((std::uint64_t{1} << (bits - 64)) - 1) : 0;
  if (bits < 64) h.low &= (std::uint64_t{1} << bits) - 1;
  return h;
}

std::string profile_id_of(std::span<const std::byte> profile_blob) { return hash128(profile_blob).hex().substr(0, 16); }

template <class T>
std::string number_text(T value) {
  std::array<char, 64> buffer;  // the shortest text that reads back equal; to_chars knows no locale
  const auto [end, code] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return code == std::errc() ? std::string(buffer.data(), end) : std::string("?");
}

std::string size_and_hash(std::span<const std::byte> value) {
  return std::to_string(value.size()) + " bytes, hash " + hash128(value).hex().substr(0, 8);
}

// Printable on one line: control characters as \xNN.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 0x20 && u != 0x7f) {
      out += c;
    } else {
      out += "\\x" + hex_of(bytes_of(std::string_view(&c, 1)));
    }
  }
  return out + "\"";
}

constexpr std::size_t longest_shown_text = 64;

std::size_t fixed_size(FieldKind kind) {
  switch (kind) {
    case FieldKind::boolean:
      return 1;
    case FieldKind::real32:
      return 4;
    case FieldKind::natural:
    case FieldKind::integer:
    case FieldKind::real64:
      return 8;
    case FieldKind::text:
    case FieldKind::bytes:
      break;
  }
  return 0;  // any size
}

bool is_text_like(const KeyField& f) { return f.kind == FieldKind::text; }

// A window of both values that begins a little before their first difference.
std::pair<std::string, std::string> shown_around_difference(std::string_view a, std::string_view b) {
  std::size_t first = 0;
  while (first < a.size() && first < b.size() && a[first] == b[first]) ++first;
  const std::size_t begin = first > longest_shown_text / 4 ? first - longest_shown_text / 4 : 0;
  const auto window = [begin](std::string_view text) {
    const std::string_view part = text.substr(std::min(begin, text.size()), longest_shown_text);
    return (begin > 0 ? "..." : "") + quoted(part) + (begin + part.size() < text.size() ? "..." : "");
  };
  return {window(a), window(b)};
}

Difference difference_of(const KeyField& ours, const KeyField& theirs) {
  Difference d{std::string(ours.name), ours.to_text(), theirs.to_text()};
  const bool is_long = std::max(ours.value.size(), theirs.value.size()) > longest_shown_text;
  if (is_text_like(ours) && is_text_like(theirs) && is_long) {
    std::tie(d.ours, d.theirs) = shown_around_difference(text_of(ours.value), text_of(theirs.value));
  }
  return d;
}

bool is_equal(const KeyField& a, const KeyField& b) { return a.kind == b.kind && text_of(a.value) == text_of(b.value); }

// Fields by name and, for a name that occurs more than once, by occurrence.
using FieldsByName = std::map<std::pair<std::string_view, std::size_t>, KeyField>;

std::vector<std::pair<std::size_t, KeyField>> fields_of(const Key& key) {
  std::vector<std::pair<std::size_t, KeyField>> out;
  std::map<std::string_view, std::size_t> seen;
  KeyReader reader(key.blob());
  while (const auto f = reader.next()) out.emplace_back(seen[f->name]++, *f);
  return out;
}

}  // namespace

std::string Profile::id() const { return KeyWriter(*this).finish({}).profile_id(); }

std::string Profile::text() const {
  std::string out = std::string(format_field) + "=" + std::to_string(format_number) + "\n";
  for (std::size_t i = 0; i < std::size(profile_members); ++i) {
    out += std::string(profile_names[i]) + "=" + this->*profile_members[i] + "\n";
  }
  return out;
}

std::optional<Profile> Profile::parse(std::string_view text) {
  Profile p;
  for (std::size_t i = 0; i < std::size(profile_members); ++i) {
    p.*profile_members[i] = profile_field(text, profile_names[i]);
  }
  if (p.text() != text) return std::nullopt;
  return p;
}

std::string profile_field(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with(name) && line.substr(name.size()).starts_with('=')) {
      return std::string(line.substr(name.size() + 1));
    }
  }
  return {};
}

std::string KeyField::to_text() const {
  ByteReader reader(value);
  switch (kind) {
    case FieldKind::boolean:
      return reader.u8() != 0 ? "true" : "false";
    case FieldKind::natural:
      return number_text(reader.u64());
    case FieldKind::integer:
      return number_text(static_cast<std::int64_t>(reader.u64()));
    case FieldKind::real32:
      return number_text(std::bit_cast<float>(reader.u32()));
    case FieldKind::real64:
      return number_text(std::bit_cast<double>(reader.u64()));
    case FieldKind::text:
      return value.size() <= longest_shown_text ? quoted(text_of(value)) : size_and_hash(value);
    case FieldKind::bytes:
      break;
  }
  return size_and_hash(value);
}

std::optional<KeyField> KeyReader::next() {
  if (!ok_ || rest_.empty()) return std::nullopt;
  ByteReader reader(rest_);
  KeyField f{static_cast<FieldKind>(reader.u8()), {}, {}};
  f.name = reader.text(reader.u32());
  f.value = reader.bytes(reader.u64());
  const bool known = f.kind >= FieldKind::boolean && f.kind <= FieldKind::bytes;
  const std::size_t size = known ? fixed_size(f.kind) : 0;
  if (!reader.ok() || !known || (size != 0 && f.value.size() != size)) {
    ok_ = false;
    return std::nullopt;
  }
  rest_ = rest_.last(reader.left());
  return f;
}

Key::Key(std::vector<std::byte> blob, std::string profile_id, std::string kernel_name)
    : blob_(std::move(blob)),
      address_(address_of(blob_)),
      profile_id_(std::move(profile_id)),
      kernel_name_(std::move(kernel_name)) {}

std::optional<Key> Key::parse(std::span<const std::byte> blob, std::string kernel_name) {
  KeyReader reader(blob);
  std::size_t count = 0, profile_size = 0;
  while (const auto f = reader.next()) {
    if (count < profile_fields) {
      const std::string_view expected = count == 0 ? format_field : profile_names[count - 1];
      if (f->name != expected) return std::nullopt;
      profile_size = static_cast<std::size_t>(f->value.data() + f->value.size() - blob.data());
    }
    ++count;
  }
  if (!reader.ok() || count < profile_fields) return std::nullopt;
  return Key({blob.begin(), blob.end()}, profile_id_of(blob.first(profile_size)), std::move(kernel_name));
}

Profile Key::profile() const {
  Profile p;
  KeyReader reader(blob_);
  reader.next();  // the format
  for (const auto member : profile_members) {
    if (const auto f = reader.next()) p.*member = text_of(f->value);
  }
  return p;
}

KeyWriter::KeyWriter(const Profile& profile) {
  natural(format_field, format_number);
  for (std::size_t i = 0; i < std::size(profile_members); ++i) text(profile_names[i], profile.*profile_members[i]);
  profile_id_ = profile_id_of(blob_);
}

KeyWriter& KeyWriter::field(FieldKind kind, std::string_view name, std::span<const std::byte> value) {
  ByteWriter out(blob_);
  out.u8(static_cast<std::uint8_t>(kind));
  out.u32(static_cast<std::uint32_t>(name.size()));
  out.text(name);
  out.u64(value.size());
  out.bytes(value);
  return *this;
}

KeyWriter& KeyWriter::number(FieldKind kind, std::string_view name, std::uint64_t value, int size) {
  std::array<std::byte, 8> bytes;
  for (int i = 0; i < 8; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<std::byte>(value >> (8 * i));
  return field(kind, name, std::span(bytes).first(static_cast<std::size_t>(size)));
}

KeyWriter& KeyWriter::boolean(std::string_view name, bool value) {
  return number(FieldKind::boolean, name, value ? 1 : 0, 1);
}
KeyWriter& KeyWriter::natural(std::string_view name, std::uint64_t value) {
  return number(FieldKind::natural, name, value, 8);
}
KeyWriter& KeyWriter::integer(std::string_view name, std::int64_t value) {
  return number(FieldKind::integer, name, static_cast<std::uint64_t>(value), 8);
}
KeyWriter& KeyWriter::real(std::string_view name, float value) {
  return number(FieldKind::real32, name, std::bit_cast<std::uint32_t>(value), 4);
}
KeyWriter& KeyWriter::real(std::string_view name, double value) {
  return number(FieldKind::real64, name, std::bit_cast<std::uint64_t>(value), 8);
}
KeyWriter& KeyWriter::text(std::string_view name, std::string_view value) {
  return field(FieldKind::text, name, bytes_of(value));
}
KeyWriter& KeyWriter::bytes(std::string_view name, std::span<const std::byte> value) {
  return field(FieldKind::bytes, name, value);
}

Key KeyWriter::finish(std::string kernel_name) const { return Key(blob_, profile_id_, std::move(kernel_name)); }

std::vector<Difference> differences(const Key& ours, const Key& theirs) {
  const auto our_fields = fields_of(ours), their_fields = fields_of(theirs);
  FieldsByName of_theirs, of_ours;
  for (const auto& [n, f] : their_fields) of_theirs.emplace(std::pair(f.name, n), f);
  for (const auto& [n, f] : our_fields) of_ours.emplace(std::pair(f.name, n), f);
  std::vector<Difference> out;
  for (const auto& [n, f] : our_fields) {
    const auto other = of_theirs.find({f.name, n});
    if (other == of_theirs.end()) {
      out.push_back({std::string(f.name), f.to_text(), "(absent)"});
    } else if (!is_equal(f, other->second)) {
      out.push_back(difference_of(f, other->second));
    }
  }
  for (const auto& [n, f] : their_fields) {
    if (!of_ours.contains({f.name, n})) out.push_back({std::string(f.name), "(absent)", f.to_text()});
  }
  if (out.empty() && !(ours == theirs)) out.push_back({"order of fields", "(another)", "(another)"});
  return out;
}

std::optional<Difference> first_difference(const Key& ours, const Key& theirs) {
  auto all = differences(ours, theirs);
  if (all.empty()) return std::nullopt;
  return std::move(all.front());
}

void set_address_bits_for_test(unsigned bits) { address_bits.store(bits, std::memory_order_relaxed); }

}  // namespace tileweave::cache
