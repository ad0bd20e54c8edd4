// Runs a tensor expression: broadcasts the shapes, merges axes that all operands walk alike, picks block sizes, and
// launches one kernel over blocks of the last two axes.
#include "tileweave/dsl/tensor_expr.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tileweave/dsl/math.h"
#include "tileweave/jit/base/error.h"

namespace tileweave {

namespace detail {
runtime::AnyTensor load_npy_as(const std::string& path, Dtype dtype, const Device& device, Memory memory,
                               const Place& p) {
  const runtime::AnyTensor t = runtime::load_npy(path, device, memory, p);
  if (t.dtype() == dtype) return t;
  // NumPy has no bf16 and fp8: they travel as the unsigned integer of their size.
  const bool as_bits = dtype_bytes(dtype) == dtype_bytes(t.dtype()) && is_unsigned(t.dtype()) && is_narrow_float(dtype);
  if (as_bits) return t.view_as(dtype, p);
  throw_launch_error(
      p, path + " holds " + std::string(dtype_name(t.dtype())) + ", the tensor is of " + std::string(dtype_name(dtype)),
      "load it as what it is and convert it with .to<T>()");
}
}  // namespace detail

namespace expression {
namespace {

using runtime::AnyTensor;
using runtime::Dims;

constexpr int max_view_rank = 5;

// How the kernel walks its operands: operand 0 is the output, then the tensors in order.
struct Walk {
  std::vector<index_t> extents;
  std::vector<std::vector<index_t>> strides;  // of each operand
  std::vector<const std::byte*> bases;
};

struct Blocks {
  index_t rows = 1, columns = 1;
};

std::string leaf_name(const AnyTensor& t) {
  return std::string(dtype_name(t.dtype())) + " of extents " + runtime::to_string(t.extents());
}

Dims broadcast_extents(const Request& q) {
  Dims out;
  const AnyTensor* first = nullptr;
  for (int l = 0; l < q.leaf_count; ++l) {
    const AnyTensor* t = q.leaves[l].tensor;
    if (t == nullptr) continue;
    if (!t->defined()) throw_launch_error(q.place, "tensor expression: an operand is an empty handle, not a tensor");
    if (first == nullptr) {
      first = t;
      out = t->extents();
      continue;
    }
    if (!(t->device() == first->device())) {
      throw_launch_error(
          q.place,
          "tensor expression: one operand is on " + first->device().name() + ", another on " + t->device().name(),
          "move one with .to(device)");
    }
    const int rank = std::max(out.rank(), t->rank());
    Dims joined = Dims::filled(rank, 1);
    for (int i = 0; i < rank; ++i) {
      const int a = i - (rank - out.rank()), b = i - (rank - t->rank());
      const index_t x = a < 0 ? 1 : out[a], y = b < 0 ? 1 : t->extent(b);
      if (x != y && x != 1 && y != 1) {
        throw_launch_error(q.place,
                           "tensor expression: extents " + runtime::to_string(out) + " and " +
                               runtime::to_string(t->extents()) + " do not broadcast: axis " + std::to_string(i) +
                               " has " + std::to_string(x) + " and " + std::to_string(y),
                           "the extents of an axis are equal, or one of them is 1");
      }
      joined[i] = x == 1 ? y : x;
    }
    out = joined;
  }
  return out;
}

std::vector<index_t> strides_in(const AnyTensor& t, const Dims& extents) {
  std::vector<index_t> s(static_cast<std::size_t>(extents.rank()), 0);
  const int lead = extents.rank() - t.rank();
  for (int i = 0; i < t.rank(); ++i) {
    if (t.extent(i) != 1) s[static_cast<std::size_t>(lead + i)] = t.stride(i);
  }
  return s;
}

// Drops axes of extent 1 and merges neighbours that every operand walks as one.
void simplify(Walk& w) {
  for (std::size_t i = w.extents.size(); i-- > 0;) {
    const bool single = w.extents[i] == 1;
    const bool merges = !single && i + 1 < w.extents.size() && std::ranges::all_of(w.strides, [&](const auto& s) {
      return s[i] == s[i + 1] * w.extents[i + 1];
    });
    if (!single && !merges) continue;
    if (merges) {
      w.extents[i + 1] *= w.extents[i];
    }
    w.extents.erase(w.extents.begin() + static_cast<std::ptrdiff_t>(i));
    for (auto& s : w.strides) s.erase(s.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (w.extents.empty()) {
    w.extents.push_back(1);
    for (auto& s : w.strides) s.push_back(1);
  }
}

Blocks choose_blocks(const Walk& w, const AnyTensor& out) {
  const index_t bytes = dtype_bytes(out.dtype());
  const DeviceKind device = out.device().kind();
  const bool gpu = device == DeviceKind::cuda || device == DeviceKind::simt;
  const std::size_t r = w.extents.size();
  const index_t columns = w.extents[r - 1];
  // A GPU streams fastest by one vector a thread in small programs; on a CPU a program costs more.
  const index_t flat = gpu ? std::max<index_t>(1024, 2048 / bytes) : columns >= (1 << 20) ? 4096 : 1024;
  if (r == 1) return {1, std::min<index_t>(next_pow2(columns), flat)};
  // An operand that runs along the rows: both sides move at least a line of 128 bytes at a time, the output two.
  const bool turned = std::ranges::any_of(w.strides, [&](const auto& s) { return s[r - 2] == 1 && s[r - 1] != 1; });
  Blocks b;
  b.columns = std::min<index_t>(next_pow2(columns), turned ? std::clamp<index_t>(256 / bytes, 32, 128) : 1024);
  b.rows = std::min<index_t>(next_pow2(w.extents[r - 2]), turned ? 64 : std::max<index_t>(1, 2048 / b.columns));
  return b;
}

// For each leaf the first one that is the same view of the same tensor: they are one parameter and one load. Part of
// the kernel's key.
std::vector<int> shared_leaves(const Request& q) {
  // A byte each in the key says how far back it is.
  constexpr int most = std::min(256, 8 * (launch::max_constant_words - 3));
  std::vector<int> first;
  for (int l = 0; l < q.leaf_count; ++l) {
    int same = l;
    for (int k = 0; k < l && l < most && same == l && q.leaves[l].tensor != nullptr; ++k) {
      const AnyTensor* t = q.leaves[k].tensor;
      const bool equal = t != nullptr && (t == q.leaves[l].tensor || runtime::is_same_view(*t, *q.leaves[l].tensor));
      if (equal && q.leaves[k].dtype == q.leaves[l].dtype) same = k;
    }
    first.push_back(same);
  }
  return first;
}

// The body: program -> offsets of a block -> loads, expressions, stores.
void record_body(const Request& q, int rank, const Blocks& blocks, const std::vector<int>& first) {
  using Index = Scalar<index_t>;
  const Place& p = q.place;
  std::vector<record::Raw> outs;
  for (int k = 0; k < q.part_count; ++k) outs.push_back(launch::add_view(q.parts[k].result, rank, false));
  const record::Raw out = outs[0];
  std::vector<record::Raw> leaves(static_cast<std::size_t>(q.leaf_count));
  for (int l = 0; l < q.leaf_count; ++l) {
    const auto at = static_cast<std::size_t>(l);
    if (first[at] != l) continue;
    const Leaf& leaf = q.leaves[l];
    leaves[at] = leaf.tensor != nullptr ? launch::add_view(leaf.dtype, rank, true) : launch::add_scalar(leaf.dtype);
  }
  std::vector<index_t> extents(static_cast<std::size_t>(rank), 1);
  if (rank > 0) extents.back() = blocks.columns;
  if (rank > 1) extents[static_cast<std::size_t>(rank) - 2] = blocks.rows;
  // From the innermost axis out: the remainder is this axis' block, the quotient goes on.
  std::vector<record::Raw> offsets(static_cast<std::size_t>(rank));
  record::Raw rest = record::program_id(0, p);
  for (int i = rank - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    const Index id(rest);
    const Index count(cdiv(Index(record::view_extent(out, i, p)), extents[at]), p);
    offsets[at] = i == 0 ? Index(id * extents[at], p).raw() : Index(id % count * extents[at], p).raw();
    if (i > 0) rest = Index(id / count, p).raw();
  }
  // Every lane is valid after the loads, unless there are loops: the store alone knows the edge.
  record::LoadRequest padded;
  padded.has_pad = !q.has_loops;
  for (int l = 0; l < q.leaf_count; ++l) {
    if (q.leaves[l].tensor == nullptr) continue;
    const auto at = static_cast<std::size_t>(l);
    leaves[at] = first[at] == l ? record::load(leaves[at], offsets, extents, padded, p)
                                : leaves[static_cast<std::size_t>(first[at])];
  }
  Context context(leaves.data(), p);
  std::vector<record::Raw> results;
  for (int k = 0; k < q.part_count; ++k) {
    record::Raw result = q.parts[k].record(q.parts[k].expression, context);
    if (record::shape(result, p).empty()) result = record::full(result, extents, p);
    results.push_back(result);
  }
  for (std::size_t k = 0; k < outs.size(); ++k) record::store(outs[k], offsets, results[k], {}, p);
}

using Outs = std::span<const AnyTensor>;

void launch_walk(const Request& q, Outs outs, const Walk& w, const Stream& stream) {
  const int rank = static_cast<int>(w.extents.size());
  const Blocks blocks = choose_blocks(w, outs[0]);
  const std::vector<int> first = shared_leaves(q);
  const int words_of_leaves = std::min((q.leaf_count + 7) / 8, launch::max_constant_words - 3);
  launch::Frame frame(q.kernel, stream, {}, 3 + words_of_leaves, q.place);
  std::uint64_t* words = frame.constants();
  words[0] = static_cast<std::uint64_t>(rank);
  words[1] = static_cast<std::uint64_t>(blocks.rows);
  words[2] = static_cast<std::uint64_t>(blocks.columns);
  std::fill_n(words + 3, words_of_leaves, 0);
  for (int l = 0; l < std::min(q.leaf_count, 8 * words_of_leaves); ++l) {
    words[3 + l / 8] |= static_cast<std::uint64_t>(l - first[static_cast<std::size_t>(l)]) << (8 * (l % 8));
  }
  frame.constants_end(words + 3 + words_of_leaves);
  std::size_t operand = 0;
  for (const AnyTensor& out : outs) {
    const int number = static_cast<int>(operand) + 1;
    frame.strided(number, out, w.bases[operand], rank, w.extents.data(), w.strides[operand].data(), out.dtype(), true);
    ++operand;
  }
  for (int l = 0; l < q.leaf_count; ++l) {
    const Leaf& leaf = q.leaves[l];
    if (leaf.tensor == nullptr) {
      frame.scalar(leaf.bits);
      continue;
    }
    if (first[static_cast<std::size_t>(l)] == l) {
      frame.strided(static_cast<int>(outs.size()) + l + 1, *leaf.tensor, w.bases[operand], rank, w.extents.data(),
                    w.strides[operand].data(), leaf.dtype, false);
    }
    ++operand;
  }
  index_t programs = 1;
  for (int i = 0; i < rank; ++i) {
    const index_t block = i == rank - 1 ? blocks.columns : i == rank - 2 ? blocks.rows : 1;
    programs *= cdiv(w.extents[static_cast<std::size_t>(i)], block);
  }
  const auto record = [&] { record_body(q, rank, blocks, first); };
  frame.run(Grid(programs), launch::Body(record), nullptr, nullptr);
}

// More axes than a view has: one launch for each step of the outermost.
void launch_all(const Request& q, Outs outs, const Walk& w, const Stream& stream) {
  if (w.extents.size() <= max_view_rank) return launch_walk(q, outs, w, stream);
  Walk inner = w;
  inner.extents.erase(inner.extents.begin());
  for (auto& s : inner.strides) s.erase(s.begin());
  for (index_t i = 0; i < w.extents[0]; ++i) {
    std::size_t operand = 0;
    const auto move = [&](const AnyTensor& t) {
      inner.bases[operand] = w.bases[operand] + i * w.strides[operand][0] * dtype_bytes(t.dtype());
      ++operand;
    };
    for (const AnyTensor& out : outs) move(out);
    for (int l = 0; l < q.leaf_count; ++l) {
      if (q.leaves[l].tensor != nullptr) move(*q.leaves[l].tensor);
    }
    launch_all(q, outs, inner, stream);
  }
}

void run(const Request& q, Outs outs) {
  const AnyTensor& out = outs[0];
  if (out.size() == 0) return;
  Walk w;
  const Dims extents = out.extents();
  w.extents.assign(extents.begin(), extents.end());
  for (const AnyTensor& t : outs) {
    w.strides.push_back(strides_in(t, extents));
    w.bases.push_back(static_cast<const std::byte*>(t.data()));
  }
  for (int l = 0; l < q.leaf_count; ++l) {
    const AnyTensor* t = q.leaves[l].tensor;
    if (t == nullptr) continue;
    w.strides.push_back(strides_in(*t, extents));
    w.bases.push_back(static_cast<const std::byte*>(t->data()));
  }
  simplify(w);
  launch_all(q, outs, w, q.stream != nullptr ? *q.stream : out.device().stream());
}

Device device_of(const Request& q) {
  for (int l = 0; l < q.leaf_count; ++l) {
    if (q.leaves[l].tensor != nullptr) return q.leaves[l].tensor->device();
  }
  return Device::cpu();
}

}  // namespace

Leaf number(const record::Literal& v, std::uint64_t bits, Dtype own, Dtype want, const Place& p) {
  if (!record::fits(v, want)) {
    throw_launch_error(
        p, "tensor expression: the literal " + record::to_string(v) + " does not fit " + std::string(dtype_name(want)),
        "convert the tensor to a wider type with .to<T>()");
  }
  return {nullptr, want, own == want ? bits : record::host_convert(bits, own, want, false)};
}

std::vector<record::Raw> Context::graph(const trace::Graph& g, std::span<const record::Raw> arguments) {
  const auto same = [](const record::Raw& a, const record::Raw& b) { return a.value == b.value && a.mask == b.mask; };
  for (const Recorded& r : recorded_) {
    if (r.graph == &g && std::ranges::equal(r.arguments, arguments, same)) return r.results;
  }
  recorded_.push_back({&g, {arguments.begin(), arguments.end()}, trace::record_graph(g, arguments, place)});
  return recorded_.back().results;
}

std::vector<AnyTensor> evaluate(const Request& q) {
  const Dims extents = broadcast_extents(q);
  std::vector<AnyTensor> outs;
  for (int k = 0; k < q.part_count; ++k) {
    outs.push_back(AnyTensor::empty(device_of(q), q.parts[k].result, extents, Memory::device, q.place));
  }
  run(q, outs);
  return outs;
}

namespace {

void check_target(const Request& q, const AnyTensor& out, const Dims& extents) {
  if (!out.defined()) throw_launch_error(q.place, "assign: the target is an empty handle, not a tensor");
  if (!(out.extents() == extents)) {
    throw_launch_error(q.place,
                       "assign: the target has extents " + runtime::to_string(out.extents()) + ", the expression " +
                           runtime::to_string(extents),
                       "assign to a tensor or view of the expression's shape");
  }
  if (runtime::may_overlap_itself(out)) {
    throw_launch_error(q.place, "assign: two elements of the target share one place", "assign to a tensor of its own");
  }
  for (int l = 0; l < q.leaf_count; ++l) {
    const AnyTensor* t = q.leaves[l].tensor;
    if (t == nullptr || runtime::is_same_view(out, *t) || !runtime::may_overlap(out, *t)) continue;
    throw_launch_error(q.place,
                       "assign: the target, " + leaf_name(out) + ", overlaps an operand, " + leaf_name(*t) +
                           ", and is not the same view",
                       "assign to a new tensor, then copy");
  }
}

}  // namespace

void evaluate_into(std::span<const AnyTensor> outs, const Request& q) {
  const Dims extents = broadcast_extents(q);
  for (std::size_t k = 0; k < outs.size(); ++k) {
    check_target(q, outs[k], extents);
    for (std::size_t other = 0; other < k; ++other) {
      if (!runtime::may_overlap(outs[other], outs[k])) continue;
      throw_launch_error(q.place, "assign: two targets overlap", "assign each expression to a tensor of its own");
    }
  }
  run(q, outs);
}

}  // namespace expression
}  // namespace tileweave
