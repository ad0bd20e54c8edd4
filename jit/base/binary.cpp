// The byte form of a Binary: versioned, little-endian, every length checked before it is believed.
// Between codegen (writer), the cache (which treats it as opaque) and the runtime (reader).
#include "tileweave/jit/base/binary.h"

#include <set>

#include "tileweave/jit/base/fork.h"

namespace tileweave {
namespace {
// The same text at one address for ever: a Place does not own its file's name.
const char* keep(std::string text) {
  static constinit LeafMutex mutex;
  const std::lock_guard lock(mutex);
  static auto& kept = *new std::set<std::string>;  // lives for ever: threads may compile at exit
  return kept.insert(std::move(text)).first->c_str();
}

constexpr std::uint32_t magic = 0x31625754;  // "TWb1": the last letter is the version

class Writer {
 public:
  void number(std::uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<std::byte>(v >> (8 * i)));
  }
  void block(const void* data, std::size_t n) {
    number(n, 8);
    const auto* p = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), p, p + n);
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  std::uint64_t number(int bytes) {
    need(static_cast<std::uint64_t>(bytes));
    std::uint64_t v = 0;
    for (int i = 0; i < bytes; ++i) v |= static_cast<std::uint64_t>(in_[static_cast<std::size_t>(i)]) << (8 * i);
    in_ = in_.subspan(static_cast<std::size_t>(bytes));
    return v;
  }
  std::span<const std::byte> block() {
    const std::uint64_t n = number(8);
    need(n);
    auto result = in_.first(static_cast<std::size_t>(n));
    in_ = in_.subspan(static_cast<std::size_t>(n));
    return result;
  }
  std::string text() {
    auto b = block();
    return std::string(reinterpret_cast<const char*>(b.data()), b.size());
  }
  bool done() const { return in_.empty(); }

 private:
  void need(std::uint64_t n) const {
    if (n > in_.size()) throw_cache_error("a compiled kernel's bytes end too early");
  }
  std::span<const std::byte> in_;
};
}  // namespace

std::vector<std::byte> serialize(const Binary& b) {
  Writer w;
  w.number(magic, 4);
  w.number(static_cast<std::uint64_t>(b.kind), 1);
  w.block(b.entry.data(), b.entry.size());
  w.block(b.target.data(), b.target.size());
  w.block(b.code.data(), b.code.size());
  w.number(static_cast<std::uint32_t>(b.threads_per_block), 4);
  w.number(static_cast<std::uint64_t>(b.smem_bytes), 8);
  w.number(static_cast<std::uint64_t>(b.scratch_bytes), 8);
  w.number(static_cast<std::uint32_t>(b.cluster), 4);
  w.block(b.meta.data(), b.meta.size());
  return w.take();
}

Binary deserialize(std::span<const std::byte> bytes) {
  Reader r(bytes);
  if (r.number(4) != magic) throw_cache_error("a compiled kernel's bytes have another format");
  Binary b;
  const std::uint64_t kind = r.number(1);
  if (kind > static_cast<std::uint64_t>(Binary::Kind::tile_ir))
    throw_cache_error("a compiled kernel has an unknown kind");
  b.kind = static_cast<Binary::Kind>(kind);
  b.entry = r.text();
  b.target = r.text();
  auto code = r.block();
  b.code.assign(code.begin(), code.end());
  b.threads_per_block = static_cast<int>(r.number(4));
  b.smem_bytes = static_cast<std::int64_t>(r.number(8));
  b.scratch_bytes = static_cast<std::int64_t>(r.number(8));
  b.cluster = static_cast<int>(r.number(4));
  b.meta = r.text();
  if (!r.done()) throw_cache_error("a compiled kernel has bytes left over");
  return b;
}

std::vector<std::byte> serialize(const Diagnostic& d) {
  Writer w;
  const auto text = [&](const std::string& s) { w.block(s.data(), s.size()); };
  const auto place = [&](const Place& p) {
    text(p.file);
    w.number(p.line, 4);
    w.number(p.column, 4);
  };
  place(d.place);
  text(d.message);
  text(d.context);
  text(d.help);
  w.number(d.notes.size(), 4);
  for (const Note& n : d.notes) {
    place(n.place);
    text(n.text);
  }
  return w.take();
}

Diagnostic deserialize_diagnostic(std::span<const std::byte> bytes) {
  Reader r(bytes);
  const auto place = [&] {
    const char* file = keep(r.text());
    const auto line = static_cast<std::uint32_t>(r.number(4));
    return Place(file, line, static_cast<std::uint32_t>(r.number(4)));
  };
  Diagnostic d;
  d.place = place();
  d.message = r.text();
  d.context = r.text();
  d.help = r.text();
  for (std::uint64_t n = r.number(4); n > 0; --n) {
    Place p = place();
    d.notes.push_back({p, r.text()});
  }
  return d;
}

}  // namespace tileweave
