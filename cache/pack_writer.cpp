// Writing packs: collect the keys, sort them, copy entry by entry, then index and footer; durable before it is renamed.
// See pack.h.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "tileweave/cache/bytes.h"
#include "tileweave/cache/durable_file.h"
#include "tileweave/cache/pack.h"
#include "tileweave/cache/pack_format.h"

namespace tileweave::cache {
namespace {

struct Item {
  Key key;
  std::size_t source;  // among equal keys the first source's entry is taken
};

std::vector<Item> sorted_items(std::span<Store* const> sources) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    sources[i]->visit([&](const EntryInfo& info) {
      items.push_back({info.key, i});
      return true;
    });
  }
  const auto blob_of = [](const Item& item) { return text_of(item.key.blob()); };
  std::ranges::sort(items, {}, [&](const Item& i) { return std::tuple(i.key.address(), blob_of(i), i.source); });
  const auto repeated = std::ranges::unique(items, {}, blob_of);
  items.erase(repeated.begin(), repeated.end());
  return items;
}

struct Index {
  std::map<std::string, StoredProfile> profiles;
  std::vector<std::byte> rows;
  std::uint64_t count = 0, end = pack_header_bytes;

  void add(const Key& key, std::span<const std::byte> entry) {
    StoredProfile& p = profiles[key.profile_id()];
    if (p.entries++ == 0) p.text = key.profile().text();
    ByteWriter out(rows);
    out.u64(key.address().high);
    out.u64(key.address().low);
    out.u64(end);
    out.u64(entry.size());
    out.bytes(sha256(entry));
    end += entry.size();
    ++count;
  }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all;
    ByteWriter out(all);
    for (const auto& [id, p] : profiles) {
      out.text(id);
      out.u64(p.entries);
      out.u32(static_cast<std::uint32_t>(p.text.size()));
      out.text(p.text);
    }
    out.bytes(rows);
    return all;
  }
};

std::vector<std::byte> header_bytes(const Index& index, std::uint64_t index_bytes) {
  std::vector<std::byte> header;
  ByteWriter out(header);
  out.text(pack_magic);
  out.u32(format_number);
  out.u32(pack_header_bytes);
  out.u64(index.count);
  out.u64(index.profiles.size());
  out.u64(index.end);
  out.u64(index_bytes);
  return header;
}

}  // namespace

PackSummary write_pack(std::span<Store* const> sources, const std::string& path, bool compressed) {
  const std::vector<Item> items = sorted_items(sources);
  DurableFile output(path);
  Index index;
  output.write(std::vector<std::byte>(pack_header_bytes));
  for (const Item& item : items) {
    const auto entry = sources[item.source]->get(item.key);
    if (!entry) continue;  // evicted or damaged since it was listed
    const std::vector<std::byte> bytes = encode_entry(item.key, *entry, 0, compressed);
    index.add(item.key, bytes);
    output.write(bytes);
  }
  const std::vector<std::byte> index_bytes = index.bytes();
  std::vector<std::byte> covered = header_bytes(index, index_bytes.size());
  const std::vector<std::byte> header = covered;
  covered.insert(covered.end(), index_bytes.begin(), index_bytes.end());
  const Sha256 digest = sha256(covered);
  output.write(index_bytes);
  output.write(digest);
  output.rewrite_start(header);
  output.keep();
  return {index.count, index.end + index_bytes.size() + pack_footer_bytes, hex_of(digest)};
}

}  // namespace tileweave::cache
