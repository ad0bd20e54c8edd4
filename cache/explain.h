// Why a key was missed: the cached variant of the same kernel that differs least, and in what.
// Used for the error of a sealed process and by `tileweave cache explain`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tileweave/cache/key.h"
#include "tileweave/cache/store.h"

namespace tileweave::cache {

struct MissExplanation {
  std::size_t variants = 0;             // cached entries with this kernel's name
  std::vector<Difference> differences;  // to the nearest of them; empty: the very key is cached, or no variant is
  std::string nearest;                  // where the nearest is

  // One sentence: "no variant of it is cached" or "the nearest of 3 cached variants differs in ...".
  std::string text() const;
};

MissExplanation explain_miss(std::span<const Key> candidates, std::span<Store* const> stores);

}  // namespace tileweave::cache
