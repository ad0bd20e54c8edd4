// Planning of layout conversions. The swizzle follows from linear algebra: lanes of one access differ by vectors of a
// subspace, and no such difference may lie in the span of the offset bits that do not choose the bank.
#include "tileweave/jit/ir/layout_conversion.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <set>

namespace tileweave::ir {
namespace {

constexpr int access_bytes = 128;  // what one wavefront of shared memory serves
constexpr int max_vector_bytes = 16;
constexpr int bank_bytes = 4;
constexpr int max_selects = 4;  // registers a lane chooses among before a pass through memory is cheaper

int log2_of(int power) { return std::countr_zero(static_cast<unsigned>(power)); }

// The lanes that one wavefront serves, as bits.
int wavefront_lane_bits(int vector_bytes, int lane_bits) {
  return std::min(lane_bits, log2_of(access_bytes / vector_bytes));
}

// The differences between the lanes of one wavefront, modulo the elements of a vector.
std::vector<std::uint64_t> lane_differences(const Layout& l, int count, const Subspace& vector) {
  std::vector<std::uint64_t> out;
  Subspace seen;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t v = vector.reduce(l.bases(Place4::lane)[static_cast<std::size_t>(i)]);
    if (seen.add(v)) out.push_back(v);
  }
  return out;
}

// Vectors of `all` that complete `part` to the span of both.
std::vector<std::uint64_t> complement(const std::vector<std::uint64_t>& part, const std::vector<std::uint64_t>& all) {
  Subspace have;
  for (std::uint64_t v : part) have.add(v);
  std::vector<std::uint64_t> out;
  for (std::uint64_t v : all) {
    if (have.add(v)) out.push_back(v);
  }
  return out;
}

// Offset bits that may differ between lanes of no wavefront: the rest of memory behind the banks.
std::vector<std::uint64_t> segment_vectors(const std::vector<std::uint64_t>& write,
                                           const std::vector<std::uint64_t>& read, const Subspace& vector,
                                           int flat_bits, int wanted) {
  std::vector<std::uint64_t> either = write;
  either.insert(either.end(), read.begin(), read.end());
  std::vector<std::uint64_t> units;
  for (int i = flat_bits - 1; i >= 0; --i) units.push_back(vector.reduce(std::uint64_t{1} << i));
  std::erase(units, std::uint64_t{0});
  // What neither access moves within a wavefront is free to take; then a difference of the one plus a difference of the
  // other is neither's.
  std::vector<std::uint64_t> segment = complement(either, units);
  const std::vector<std::uint64_t> common = intersect(write, read);
  const std::vector<std::uint64_t> only_write = complement(common, write), only_read = complement(common, read);
  for (std::size_t i = 0; i < std::min(only_write.size(), only_read.size()); ++i) {
    segment.push_back(only_write[i] ^ only_read[i]);
  }
  if (static_cast<int>(segment.size()) > wanted) segment.resize(static_cast<std::size_t>(std::max(0, wanted)));
  return segment;
}

}  // namespace

SharedLayout conflict_free_layout(const Layout& write, const Layout& read, int element_bytes) {
  const int flat_bits = write.flat_bits();
  // Elements that both sides hold in the registers of one thread.
  std::vector<std::uint64_t> vectors = intersect(write.bases(Place4::reg), read.bases(Place4::reg));
  std::sort(vectors.begin(), vectors.end());
  const auto most = static_cast<std::size_t>(log2_of(max_vector_bytes / element_bytes));
  if (vectors.size() > most) vectors.resize(most);
  const int vector_bits = static_cast<int>(vectors.size());
  const int vector_bytes = element_bytes << vector_bits;
  std::vector<std::uint64_t> units;
  for (int i = 0; i < flat_bits; ++i) units.push_back(std::uint64_t{1} << i);
  // Vectors under 4 bytes share a bank's word, and lanes that meet in one word do not conflict.
  std::vector<std::uint64_t> in_word = vectors;
  for (std::uint64_t u : complement(vectors, units)) {
    if (element_bytes << in_word.size() < bank_bytes) in_word.push_back(u);
  }
  Subspace word;
  for (std::uint64_t v : in_word) word.add(v);
  const int bank_bits = log2_of(access_bytes / std::max(vector_bytes, bank_bytes));
  const auto differences = [&](const Layout& l) {
    return lane_differences(l, wavefront_lane_bits(vector_bytes, l.bits(Place4::lane)), word);
  };
  const std::vector<std::uint64_t> segment = segment_vectors(differences(write), differences(read), word, flat_bits,
                                                             flat_bits - static_cast<int>(in_word.size()) - bank_bits);
  // The banks: whatever completes vector and segment, lowest first so that neighbours stay neighbours.
  std::vector<std::uint64_t> placed = in_word;
  placed.insert(placed.end(), segment.begin(), segment.end());
  std::vector<std::uint64_t> columns = in_word;
  const std::vector<std::uint64_t> banks = complement(placed, units);
  columns.insert(columns.end(), banks.begin(), banks.end());
  columns.insert(columns.end(), segment.begin(), segment.end());
  return {BitMatrix(flat_bits, std::move(columns)), vector_bits};
}

int bank_conflicts(const Layout& access, const SharedLayout& memory, int element_bytes, int vector_bits) {
  const BitMatrix offset_of_flat = memory.offset_of_flat();
  const int vector_bytes = element_bytes << vector_bits;
  const int lanes = 1 << access.bits(Place4::lane), group = 1 << wavefront_lane_bits(vector_bytes, 5);
  std::size_t worst = 0;
  for (int first = 0; first < lanes; first += group) {
    std::map<std::uint64_t, std::set<std::uint64_t>> words_of_bank;
    for (int lane = first; lane < std::min(lanes, first + group); ++lane) {
      const std::uint64_t byte = offset_of_flat.apply(access.apply(0, static_cast<std::uint64_t>(lane))) *
                                 static_cast<std::uint64_t>(element_bytes);
      for (std::uint64_t w = byte / 4; w <= (byte + static_cast<std::uint64_t>(vector_bytes) - 1) / 4; ++w) {
        words_of_bank[w % 32].insert(w);
      }
    }
    for (const auto& [bank, words] : words_of_bank) worst = std::max(worst, words.size());
  }
  return static_cast<int>(worst);
}

SharedMove plan_shared_move(const Layout& from, const Layout& to, int element_bytes) {
  SharedMove move;
  move.memory = conflict_free_layout(from, to, element_bytes);
  const BitMatrix offset_of_flat = move.memory.offset_of_flat();
  move.write = offset_of_flat * from.matrix();
  move.read = offset_of_flat * to.matrix();
  const BitMatrix write_registers(from.flat_bits(), from.bases(Place4::reg));
  const BitMatrix read_registers(to.flat_bits(), to.bases(Place4::reg));
  for (int i = 0; i < move.memory.vector_bits; ++i) {
    const std::uint64_t v = move.memory.flat_of_offset.column(i);
    move.write_vector.push_back(static_cast<int>(write_registers.solve(v).value_or(0)));
    move.read_vector.push_back(static_cast<int>(read_registers.solve(v).value_or(0)));
  }
  return move;
}

namespace {

// Finds, within one warp, what register of what lane holds an element of the source layout.
class WarpSource {
 public:
  explicit WarpSource(const Layout& from)
      : from_(from), register_bits_(from.bits(Place4::reg)), registers_(from.flat_bits(), from.bases(Place4::reg)) {
    std::vector<std::uint64_t> columns = from.bases(Place4::reg);
    columns.insert(columns.end(), from.bases(Place4::lane).begin(), from.bases(Place4::lane).end());
    both_ = BitMatrix(from.flat_bits(), std::move(columns));
  }

  struct Slot {
    std::uint64_t reg, lane;
  };
  std::optional<Slot> find(std::uint64_t flat) const {
    if (const auto r = registers_.solve(flat)) return Slot{*r, 0};
    const auto both = both_.solve(flat);
    if (!both) return std::nullopt;
    const std::uint64_t mask = (std::uint64_t{1} << register_bits_) - 1;
    return Slot{*both & mask, *both >> register_bits_};
  }
  // For a destination's lane bit: the same lane where that does, because then nothing crosses lanes.
  std::optional<Slot> find_for_lane_bit(std::uint64_t flat, int bit) const {
    if (const auto r = registers_.solve(flat ^ from_.bases(Place4::lane)[static_cast<std::size_t>(bit)])) {
      return Slot{*r, std::uint64_t{1} << bit};
    }
    return find(flat);
  }

 private:
  const Layout& from_;
  int register_bits_;
  BitMatrix registers_, both_;
};

std::optional<ShuffleMove> plan_shuffle(const Layout& from, const Layout& to) {
  if (from.bases(Place4::warp) != to.bases(Place4::warp) || from.bases(Place4::block) != to.bases(Place4::block) ||
      from.bits(Place4::lane) != to.bits(Place4::lane)) {
    return std::nullopt;
  }
  const WarpSource source(from);
  std::vector<std::uint64_t> lane_columns, register_columns;
  for (int i = 0; i < to.bits(Place4::lane); ++i) {
    const auto slot = source.find_for_lane_bit(to.bases(Place4::lane)[static_cast<std::size_t>(i)], i);
    if (!slot) return std::nullopt;
    lane_columns.push_back(slot->lane);
    register_columns.push_back(slot->reg);
  }
  ShuffleMove move;
  move.lane_map = BitMatrix(from.bits(Place4::lane), lane_columns);
  // A sender must know its register from its own lane: the receivers' choice has to factor through the lane map.
  const BitMatrix wanted(from.bits(Place4::reg), register_columns);
  move.sent_map = wanted * move.lane_map.pseudo_inverse();
  if (move.sent_map * move.lane_map != wanted) return std::nullopt;
  if ((1 << move.sent_map.rank()) > max_selects) return std::nullopt;
  for (int r = 0; r < to.registers(); ++r) {
    const auto slot = source.find(to.apply(static_cast<std::uint64_t>(r)));
    if (!slot) return std::nullopt;
    move.lane_offset.push_back(slot->lane);
    move.sent_register.push_back(slot->reg ^ move.sent_map.apply(slot->lane));
  }
  return move;
}

bool stays_in_thread(const ShuffleMove& m) {
  if (m.lane_map != BitMatrix::identity(m.lane_map.rows())) return false;
  return std::all_of(m.lane_offset.begin(), m.lane_offset.end(), [](std::uint64_t o) { return o == 0; });
}

}  // namespace

Conversion plan_conversion(const Layout& from, const Layout& to, int element_bytes) {
  Conversion c;
  if (from == to) return c;
  if (auto shuffle = plan_shuffle(from, to)) {
    if (stays_in_thread(*shuffle) && shuffle->sent_map.rank() == 0) {
      c.kind = Conversion::Kind::registers;
      for (std::uint64_t r : shuffle->sent_register) c.registers.source.push_back(static_cast<int>(r));
      return c;
    }
    c.kind = Conversion::Kind::shuffle;
    c.shuffle = std::move(*shuffle);
    return c;
  }
  c.kind = Conversion::Kind::shared;
  c.shared = plan_shared_move(from, to, element_bytes);
  return c;
}

}  // namespace tileweave::ir
