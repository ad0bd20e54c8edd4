// Reading of fragments. See gpu_fragments.h.
// Facts of ldmatrix: PTX ISA 8.3, "Warp-level matrix load instruction: ldmatrix".
#include "tileweave/jit/codegen/gpu_fragments.h"

#include <bit>

#include "tileweave/jit/codegen/gpu_access.h"

namespace tileweave::codegen {

using ir::Layout;
using ir::Place4;

WordOrder order_of_a(const DotPlan& p) {
  return {p.how.a_word_bits(), p.k_bits, p.how.a_word_bits() + p.k_bits + p.m_bits + p.batch_bits};
}
WordOrder order_of_b(const DotPlan& p) {
  const int first = p.how.b_word_bits() + p.n_bits;
  return {first, p.k_bits, first + p.k_bits + p.batch_bits};
}

// A row of a matrix is 16 bytes in memory: of the elements that lanes 0 to 3 hold in one word, or (16-bit elements) of
// the elements that lanes 0, 4, 8, ... hold in one half of a word.
FragmentReader::Way FragmentReader::choose_way(const Layout& l, const SharedTile& tile, int packed) {
  const int row_bits = l.axis_bits(tile.unit_axis) + std::countr_zero(static_cast<unsigned>(tile.element_bytes));
  if (row_bits < 4 || tile.element_bytes > 4) return Way::elements;
  const auto unit = [&](int i) { return std::uint64_t{1} << (l.axis_shift(tile.unit_axis) + i); };
  const auto &reg = l.bases(Place4::reg), &lane = l.bases(Place4::lane);
  bool rows = true, columns = tile.element_bytes == 2;
  for (int i = 0; i < packed; ++i) rows &= reg[static_cast<std::size_t>(i)] == unit(i);
  for (int i = 0; i < 2; ++i) rows &= lane[static_cast<std::size_t>(i)] == unit(packed + i);
  for (int i = 0; i < 3; ++i) columns &= lane[static_cast<std::size_t>(2 + i)] == unit(i);
  return rows ? Way::rows : columns ? Way::transposed : Way::elements;
}

FragmentReader::FragmentReader(GpuContext& c, const Layout& l, const StagedTile& staged, const MmaInstruction& how,
                               WordOrder order)
    : c_(c),
      l_(l),
      tile_(staged.tile),
      how_(how),
      order_(order),
      packed_(how.packed_bits()),
      way_(choose_way(l, tile_, packed_)) {
  for (int i = 0; i < order_.total && way_ != Way::elements && matrices_.size() < 2; ++i) {
    if (i < order_.k_first || i >= order_.k_first + order_.k_count) matrices_.push_back(i);
  }
  address_.emplace(c, staged.base, thread_bases());
}

// For ldmatrix a lane gives the address of row lane % 8 of matrix lane / 8.
std::vector<std::uint64_t> FragmentReader::thread_bases() const {
  std::vector<std::uint64_t> bases;
  const auto add = [&](std::uint64_t flat) { bases.push_back(tile_.offset(flat)); };
  const auto &reg = l_.bases(Place4::reg), &lane = l_.bases(Place4::lane);
  if (way_ == Way::elements) {
    for (const std::uint64_t b : lane) add(b);
  } else {
    if (way_ == Way::rows) {
      for (std::size_t i = 2; i < 5; ++i) add(lane[i]);
    } else {
      for (const std::uint64_t b : {reg[0], lane[0], lane[1]}) add(b);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      add(i < matrices_.size() ? l_.apply(std::uint64_t{1} << (packed_ + matrices_[i])) : 0);
    }
  }
  for (const std::uint64_t b : l_.bases(Place4::warp)) add(b);
  return bases;
}

Words FragmentReader::step(int k) {
  Words words(static_cast<std::size_t>(order_.words_of_step()), nullptr);
  for (int i = 0; i < order_.words_of_step(); ++i) {
    if (words[static_cast<std::size_t>(i)] != nullptr) continue;
    if (way_ == Way::elements) {
      words[static_cast<std::size_t>(i)] = element_word(order_.word(i, k));
    } else {
      read_matrices(i, k, words);
    }
  }
  return words;
}

// Word i and those that differ from it in the bits of the matrices.
void FragmentReader::read_matrices(int i, int k, Words& words) {
  static constexpr std::array elements{Element::i32, Element::v2i32, Element::v4i32};
  const PrimitiveId id = way_ == Way::rows ? PrimitiveId::ldmatrix : PrimitiveId::ldmatrix_trans;
  const auto first = static_cast<std::uint64_t>(order_.word(i, k)) << packed_;
  llvm::Value* read = c_.call(id, elements[matrices_.size()], {address_->at(register_offset(first)), c_.site()});
  for (int m = 0; m < 1 << matrices_.size(); ++m) {
    int at = i;
    for (std::size_t bit = 0; bit < matrices_.size(); ++bit) {
      if ((m >> bit & 1) == 0) continue;
      // Positions in `words` count without the steps.
      const int position = matrices_[bit];
      at |= 1 << (position < order_.k_first ? position : position - order_.k_count);
    }
    words[static_cast<std::size_t>(at)] =
        matrices_.empty() ? read : c_.b.CreateExtractElement(read, static_cast<std::uint64_t>(m));
  }
}

llvm::Value* FragmentReader::element_word(int word) {
  const AccessType access = access_type(c_, tile_.element_bytes);
  std::vector<llvm::Value*> values;
  for (int e = 0; e < 1 << packed_; ++e) {
    const auto r = static_cast<std::uint64_t>(word) << packed_ | static_cast<std::uint64_t>(e);
    llvm::Value* loaded = c_.call(PrimitiveId::shared_load, access.element,
                                  {address_->at(register_offset(r)), c_.b.getTrue(), c_.site()});
    values.push_back(unpack_elements(c_, loaded, 1, c_.elements.memory_type(how_.operand), tile_.element_bytes)[0]);
  }
  return how_.is_f64() ? values[0] : pack_elements(c_, values, tile_.element_bytes);
}

llvm::Value* vector_of(GpuContext& c, const Words& all, std::size_t first, int count) {
  if (count == 1) return all[first];
  llvm::Type* type = llvm::FixedVectorType::get(all[first]->getType(), static_cast<unsigned>(count));
  llvm::Value* v = llvm::PoisonValue::get(type);
  for (int i = 0; i < count; ++i) {
    v = c.b.CreateInsertElement(v, all[first + static_cast<std::size_t>(i)], static_cast<std::uint64_t>(i));
  }
  return v;
}

Words OperandFragments::step(int k) {
  if (reader_) return reader_->step(k);
  Words words;
  for (int i = 0; i < order_.words_of_step(); ++i) words.push_back(all_[static_cast<std::size_t>(order_.word(i, k))]);
  return words;
}

}  // namespace tileweave::codegen
