// Puts records of single elements together into lines. See channel.h.
// A print that a program meets several times (in a loop) has several records for an element: each thread writes its own
// in order, so the k-th record of an element belongs to the k-th line.
#include "tileweave/jit/runtime/channel.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <tuple>

#include "tileweave/jit/base/print_text.h"

namespace tileweave::runtime {
namespace {

struct Record {
  std::uint32_t text, element;
  std::int64_t program;
  std::uint64_t bits, extent;
};
static_assert(sizeof(Record) == channel::record_bytes);

std::vector<Record> records_at(std::span<const std::byte> buffer, std::int64_t at, std::uint32_t count) {
  std::vector<Record> list(count);
  std::memcpy(list.data(), buffer.data() + at, count * sizeof(Record));
  return list;
}

std::uint32_t word_at(std::span<const std::byte> buffer, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, buffer.data() + at, sizeof word);
  return word;
}

// One line while its elements come in.
struct Line {
  std::size_t first = 0;  // the record that began it, for the order of lines of one program
  std::vector<std::uint64_t> elements;
};

void print_lines(const char* kernel, const std::vector<ChannelText>& texts, const std::vector<Record>& records) {
  std::map<std::tuple<std::int64_t, std::uint32_t, std::uint32_t>, std::uint32_t> met;  // per program, text, element
  std::map<std::tuple<std::int64_t, std::uint32_t, std::uint32_t>, Line> lines;         // per program, text, time
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record& r = records[i];
    if (r.text >= texts.size() || r.element >= static_cast<std::uint64_t>(texts[r.text].elements)) continue;
    const std::uint32_t time = met[{r.program, r.text, r.element}]++;
    Line& line = lines[{r.program, r.text, time}];
    if (line.elements.empty()) {
      line.first = i;
      line.elements.resize(static_cast<std::size_t>(texts[r.text].elements));
    }
    line.elements[r.element] = r.bits;
  }
  std::vector<std::tuple<std::int64_t, std::size_t, std::uint32_t, const Line*>> order;
  for (const auto& [key, line] : lines) order.emplace_back(std::get<0>(key), line.first, std::get<1>(key), &line);
  std::sort(order.begin(), order.end());
  for (const auto& [program, first, text, line] : order) {
    const ChannelText& t = texts[text];
    std::string out = print_prefix(t.place, kernel, program, t.text);
    for (const std::uint64_t bits : line->elements) out += " " + element_text(t.type, bits);
    out += '\n';
    std::fwrite(out.data(), 1, out.size(), stdout);
  }
}

std::string failure_text(const char* kernel, const ChannelText& t, const Record& r) {
  if (t.kind == ChannelText::Kind::failure) return assert_text(kernel, r.program, t.text);
  return check_text(kernel, r.program, t.text, static_cast<std::int64_t>(r.bits), static_cast<std::int64_t>(r.extent));
}

}  // namespace

std::optional<ChannelFailure> deliver(const char* kernel, const std::vector<ChannelText>& texts,
                                      std::span<const std::byte> buffer) {
  const std::uint32_t asked = word_at(buffer, 0), failures = word_at(buffer, 4);
  const auto prints = static_cast<std::uint32_t>(std::min<std::int64_t>(asked, channel::print_capacity));
  print_lines(kernel, texts, records_at(buffer, channel::prints_at, prints));
  if (asked > prints) {
    std::fprintf(stderr, "tileweave: kernel '%s' printed %u elements, of which the channel kept %u\n", kernel, asked,
                 prints);
  }
  if (failures == 0) return std::nullopt;
  std::vector<Record> noted =
      records_at(buffer, channel::header_bytes,
                 static_cast<std::uint32_t>(std::min<std::int64_t>(failures, channel::failure_capacity)));
  std::erase_if(noted, [&](const Record& r) { return r.text >= texts.size(); });
  const auto least = std::min_element(noted.begin(), noted.end(), [](const Record& a, const Record& b) {
    return std::tie(a.program, a.text) < std::tie(b.program, b.text);
  });
  if (least == noted.end()) return std::nullopt;
  const ChannelText& t = texts[least->text];
  return ChannelFailure{place_from_text(t.place), failure_text(kernel, t, *least)};
}

}  // namespace tileweave::runtime
