// The cache key: every field that code generation can see, as one self-describing blob, and the address that finds it.
// Written by the front door before anything is looked up. Equality is equality of blobs; the address only finds the
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tileweave/cache/hash.h"

namespace tileweave::cache {

// Raised whenever the bytes of keys or entries change their meaning.
constexpr std::uint32_t format_number = 1;

// Which tool chain makes an artefact and what it runs on. Entries of one profile share a directory, so that a dead tool
// chain goes as a whole. Strings are complete ("sm_90a+ptx8.6", triple+CPU+sorted features), never a bare number.
struct Profile {
  std::string codegen;    // hash over the sources of IR, passes and run-time library
  std::string llvm;       // version and revision
  std::string target;     // what the artefact runs on
  std::string artefact;   // "cubin", "ptx", "elf-obj"
  std::string assembler;  // what made the machine code, with its version

  friend bool operator==(const Profile&, const Profile&) = default;

  std::string id() const;    // 16 hexadecimal digits: the directory's name
  std::string text() const;  // one "field=value" a line: the directory's profile.txt
  // Reads what text() writes; nothing for any other text or format.
  static std::optional<Profile> parse(std::string_view text);
};

enum class FieldKind : std::uint8_t { boolean = 1, natural, integer, real32, real64, text, bytes };

// The value of a field in such a text; empty if it has none.
std::string profile_field(std::string_view text, std::string_view name);

// One field of a key, looking into the blob it was read from.
struct KeyField {
  FieldKind kind;
  std::string_view name;
  std::span<const std::byte> value;

  std::string to_text() const;  // for people: numbers in full, long text and bytes by size and hash
};

// Reads any bytes as a blob; stops at the first thing that is not a field.
class KeyReader {
 public:
  explicit KeyReader(std::span<const std::byte> blob) : rest_(blob) {}
  std::optional<KeyField> next();
  bool ok() const { return ok_; }  // false once the bytes were no blob

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

class Key {
 public:
  // The key in a blob that came from a file, or nothing if it is none.
  static std::optional<Key> parse(std::span<const std::byte> blob, std::string kernel_name);

  std::span<const std::byte> blob() const { return blob_; }
  const Hash128& address() const { return address_; }
  const std::string& profile_id() const { return profile_id_; }
  // For messages only: what the kernel is called is no part of what it does.
  const std::string& kernel_name() const { return kernel_name_; }
  Profile profile() const;

  friend bool operator==(const Key& a, const Key& b) { return a.blob_ == b.blob_; }

 private:
  friend class KeyWriter;
  Key(std::vector<std::byte> blob, std::string profile_id, std::string kernel_name);

  std::vector<std::byte> blob_;
  Hash128 address_;
  std::string profile_id_;
  std::string kernel_name_;
};

// Builds a key, field by field. A name may be any text ("options.num_warps", "argument 2 alignment").
class KeyWriter {
 public:
  explicit KeyWriter(const Profile& profile);

  KeyWriter& boolean(std::string_view name, bool value);
  KeyWriter& natural(std::string_view name, std::uint64_t value);
  KeyWriter& integer(std::string_view name, std::int64_t value);
  KeyWriter& real(std::string_view name, float value);   // by bits: -0 and every NaN count
  KeyWriter& real(std::string_view name, double value);  // by bits
  KeyWriter& text(std::string_view name, std::string_view value);
  KeyWriter& bytes(std::string_view name, std::span<const std::byte> value);

  Key finish(std::string kernel_name) const;

 private:
  KeyWriter& field(FieldKind kind, std::string_view name, std::span<const std::byte> value);
  KeyWriter& number(FieldKind kind, std::string_view name, std::uint64_t value, int size);

  std::vector<std::byte> blob_;
  std::string profile_id_;
};

// A field in which two keys differ, with both values as text ("(absent)" where one has no such field).
struct Difference {
  std::string field;
  std::string ours;
  std::string theirs;
};

// In the order of `ours`, then what only `theirs` has. Long texts are shown around their first difference.
std::vector<Difference> differences(const Key& ours, const Key& theirs);
std::optional<Difference> first_difference(const Key& ours, const Key& theirs);

// Cuts every address made from now on to this many bits (128: all), so that tests can make keys collide.
void set_address_bits_for_test(unsigned bits);

}  // namespace tileweave::cache
