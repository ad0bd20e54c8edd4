// Channel texts as words: "chan:<kind>:<dtype>:<elements>:<place in hex>:<text in hex>". See channel.h.
#include "tileweave/jit/base/channel.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tileweave {
namespace {

constexpr std::string_view mark = "chan:";

std::string to_hex(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    out += {digits[u >> 4], digits[u & 15]};
  }
  return out;
}

std::string from_hex(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned code = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, code, 16);
    out += static_cast<char>(code);
  }
  return out;
}

std::string_view take(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(':'), rest.size());
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(std::min(rest.size(), end + 1));
  return field;
}

std::int64_t number(std::string_view text) {
  std::int64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

}  // namespace

std::string channel_words(const std::vector<ChannelText>& texts) {
  std::string out;
  for (const ChannelText& t : texts) {
    out += (out.empty() ? "" : " ") + std::string(mark) + std::to_string(static_cast<int>(t.kind)) + ":" +
           std::to_string(static_cast<int>(t.type)) + ":" + std::to_string(t.elements) + ":" + to_hex(t.place) + ":" +
           to_hex(t.text);
  }
  return out;
}

std::vector<ChannelText> channel_texts(std::string_view meta) {
  std::vector<ChannelText> list;
  while (!meta.empty()) {
    const std::size_t end = std::min(meta.find_first_of(" \n"), meta.size());
    std::string_view word = meta.substr(0, end);
    meta.remove_prefix(std::min(meta.size(), end + 1));
    if (!word.starts_with(mark)) continue;
    word.remove_prefix(mark.size());
    ChannelText t;
    const std::int64_t kind = number(take(word)), type = number(take(word));
    t.kind = kind == 0 ? ChannelText::Kind::print : kind == 1 ? ChannelText::Kind::failure : ChannelText::Kind::check;
    t.type = type >= 0 && type < dtype_count ? static_cast<Dtype>(type) : Dtype::u64;
    t.elements = number(take(word));
    t.place = from_hex(take(word));
    t.text = from_hex(take(word));
    list.push_back(std::move(t));
  }
  return list;
}

}  // namespace tileweave
