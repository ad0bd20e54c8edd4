// Plans of tensor maps as words: "map:<slot>:<rank>:<element bytes>:<swizzle>" and ":<axis>:<extent>" for each axis.
// See tensor_map.h.
#include "tileweave/jit/base/tensor_map.h"

#include <algorithm>
#include <charconv>

namespace tileweave {
namespace {

constexpr std::string_view mark = "map:";

int take_number(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(':'), rest.size());
  int n = 0;
  std::from_chars(rest.data(), rest.data() + end, n);
  rest.remove_prefix(std::min(rest.size(), end + 1));
  return n;
}

}  // namespace

std::string tensor_map_words(const std::vector<TensorMapPlan>& plans) {
  std::string out;
  for (const TensorMapPlan& p : plans) {
    out += (out.empty() ? "" : " ") + std::string(mark) + std::to_string(p.slot) + ":" + std::to_string(p.rank) + ":" +
           std::to_string(p.element_bytes) + ":" + std::to_string(p.swizzle_bytes);
    for (std::size_t i = 0; i < static_cast<std::size_t>(p.rank); ++i) {
      out += ":" + std::to_string(p.axes[i]) + ":" + std::to_string(p.extents[i]);
    }
  }
  return out;
}

std::vector<TensorMapPlan> tensor_map_plans(std::string_view meta) {
  std::vector<TensorMapPlan> list;
  while (!meta.empty()) {
    std::string_view word = meta.substr(0, meta.find_first_of(" \n"));
    meta.remove_prefix(std::min(meta.size(), word.size() + 1));
    if (!word.starts_with(mark)) continue;
    word.remove_prefix(mark.size());
    TensorMapPlan p;
    p.slot = take_number(word);
    p.rank = std::clamp(take_number(word), 0, TensorMapPlan::most_axes);
    p.element_bytes = take_number(word);
    p.swizzle_bytes = take_number(word);
    for (std::size_t i = 0; i < static_cast<std::size_t>(p.rank); ++i) {
      p.axes[i] = std::clamp(take_number(word), 0, p.rank - 1);
      p.extents[i] = take_number(word);
    }
    list.push_back(p);
  }
  return list;
}

}  // namespace tileweave
