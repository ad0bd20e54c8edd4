// Searches all stores for the nearest variant of a kernel that was missed.
// See explain.h.
#include "tileweave/cache/explain.h"

#include <utility>

namespace tileweave::cache {
namespace {

// Enough to be helpful; a root with more entries than this is not read to the end for one message.
constexpr std::size_t most_entries_read = 100000;

void take_if_nearer(MissExplanation& miss, std::span<const Key> candidates, const EntryInfo& info) {
  ++miss.variants;
  for (const Key& key : candidates) {
    auto found = differences(key, info.key);
    if (miss.nearest.empty() || found.size() < miss.differences.size()) {
      miss.differences = std::move(found);
      miss.nearest = info.place;
    }
  }
}

}  // namespace

std::string MissExplanation::text() const {
  if (variants == 0) return "no variant of it is cached";
  if (differences.empty()) return "yet " + nearest + " holds it";
  const Difference& first = differences.front();
  std::string out =
      variants == 1 ? "the one cached variant" : "the nearest of " + std::to_string(variants) + " cached variants";
  out += " differs in '" + first.field + "': " + first.ours + " here, " + first.theirs + " there";
  const std::size_t more = differences.size() - 1;
  if (more != 0) out += ", and in " + std::to_string(more) + (more == 1 ? " more field" : " more fields");
  return out;
}

MissExplanation explain_miss(std::span<const Key> candidates, std::span<Store* const> stores) {
  MissExplanation miss;
  std::size_t read = 0;
  for (Store* store : stores) {
    store->visit([&](const EntryInfo& info) {
      if (info.key.kernel_name() == candidates.front().kernel_name()) take_if_nearer(miss, candidates, info);
      return ++read < most_entries_read;
    });
  }
  return miss;
}

}  // namespace tileweave::cache
