// Gathers a launch's slots and facts, checks its tensors, and runs the variant. The steady state allocates nothing and
// takes no lock: it fills stack arrays, compares a key, and calls the loaded kernel.
#include "tileweave/dsl/launch.h"

#include <algorithm>
#include <cstdio>

#include "tileweave/dsl/recorder.h"
#include "tileweave/dsl/variants.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/grid.h"

namespace tileweave {
namespace {
std::atomic<std::int64_t> launches{0};
}

std::int64_t launch_count() { return launches.load(std::memory_order_relaxed); }

namespace launch {
namespace {

constexpr std::int64_t int32_limit = 2147483647;

std::uint64_t pack_options(const Options& o) {
  return static_cast<std::uint64_t>(static_cast<std::uint16_t>(o.warps)) |
         static_cast<std::uint64_t>(static_cast<std::uint16_t>(o.stages)) << 16 |
         static_cast<std::uint64_t>(o.fast_math) << 32 | static_cast<std::uint64_t>(o.contract) << 33 |
         static_cast<std::uint64_t>(o.checked) << 34 | static_cast<std::uint64_t>(o.debug & 3) << 35 |
         static_cast<std::uint64_t>(o.overflow) << 37;
}

bool is_checked(std::uint64_t options) { return (options >> 34 & 1) != 0 || env().check; }

// The facts of a view's extents and strides as they stand in a key, and the element offsets that it reaches.
struct Layout {
  std::uint64_t facts;
  std::int64_t low, high;
};
// Copies extents and strides to `slot`. `known` is the rank where it is frequent, so that the loop is none; else 0.
template <int known>
inline Layout layout_of(int given, const index_t* extents, const index_t* strides, int bytes, std::uint64_t* slot) {
  const int rank = known > 0 ? known : given;
  std::int64_t low = 0, high = 0;
  std::uint64_t unit = 0, zero = 0, aligned = 0;
  bool fits = true;
  for (int i = 0; i < rank; ++i) {
    const std::int64_t extent = extents[i], stride = strides[i];
    slot[i] = static_cast<std::uint64_t>(extent);
    slot[rank + i] = static_cast<std::uint64_t>(stride);
    const std::int64_t reach = (extent - 1) * stride;
    (reach < 0 ? low : high) += reach;
    unit |= static_cast<std::uint64_t>(stride == 1) << i;
    zero |= static_cast<std::uint64_t>(stride == 0) << i;
    aligned |= static_cast<std::uint64_t>((stride * bytes) % 16 == 0) << i;
    // Views that run backwards count as not fitting: TMA, which this fact lets in, cannot describe them.
    fits = fits && extent <= int32_limit && (stride >= 0 || extent <= 1);
  }
  // Which axis runs fastest matters; a second axis of stride 1 has extent 1 or is read twice.
  if (rank > 0 && ((unit >> (rank - 1)) & 1) != 0) unit = std::uint64_t{1} << (rank - 1);
  fits = fits && high <= int32_limit;
  return {unit | zero << 8 | aligned << 16 | static_cast<std::uint64_t>(fits) << 25, low, high};
}

}  // namespace

KernelState::KernelState(std::string name, const Place& place, int variant_budget)
    : name_(std::move(name)), place_(place), variant_budget_(variant_budget), variants_(std::make_unique<Variants>()) {}
KernelState::~KernelState() = default;
int KernelState::variant_count() const { return variants_->count(); }

Frame::Frame(const KernelState& kernel, const Stream& stream, const Options& options, int constant_words,
             const Place& place)
    : kernel_(kernel), stream_(stream), place_(place), facts_at_(header_words + constant_words) {
  key_[0] = reinterpret_cast<std::uintptr_t>(&stream.device().state());
  key_[1] = pack_options(options);
}

[[gnu::noinline, gnu::cold]] void Frame::refuse(int number, const std::string& what, const std::string& help) const {
  throw_launch_error(place_, "kernel '" + kernel_.name() + "': argument " + std::to_string(number) + " " + what, help);
}

[[gnu::noinline]] void Frame::check_written(int number, const runtime::AnyTensor& t) const {
  for (int i = 0; i < t.rank(); ++i) {
    if (t.stride(i) == 0 && t.extent(i) > 1) {
      refuse(number, "is written but has stride 0 along axis " + std::to_string(i) + ": many elements share one place",
             "write to a tensor of its own and read the broadcast one through tw::View<const T, R>");
    }
  }
  if (!t.is_contiguous() && runtime::may_overlap_itself(t)) {
    refuse(number, "is written but two of its elements share one place", "write to a tensor of its own");
  }
}

[[gnu::noinline, gnu::cold]] void Frame::check_tensor(int number, const runtime::AnyTensor& t) const {
  if (!t.defined()) {
    refuse(number, "is an empty handle, not a tensor", "make one, e.g. with tw::Tensor<T>::empty(device, {n})");
  }
  if (reinterpret_cast<std::uintptr_t>(&t.device().state()) != key_[0]) {
    runtime::require_reachable(t, stream_, "kernel '" + kernel_.name() + "': argument " + std::to_string(number),
                               place_);
  }
  if (t.data() == nullptr && t.size() != 0) {
    refuse(number, "has " + std::to_string(t.size()) + " elements at a null pointer",
           "give tw::wrap the memory's address");
  }
}

// Flattened: what a view costs is most of a launch with many arguments.
[[gnu::flatten]] void Frame::view(int number, const runtime::AnyTensor& t, int rank, Dtype elem, bool is_written) {
  const bool is_usual = t.data() != nullptr && reinterpret_cast<std::uintptr_t>(&t.device().state()) == key_[0];
  if (!is_usual) check_tensor(number, t);
  if (t.rank() != rank) {
    const auto wrong = [&]() __attribute__((noinline, cold)) {
      refuse(number,
             "has " + std::to_string(t.rank()) + " axes, extents " + runtime::to_string(t.extents()) +
                 "; its parameter is a view of rank " + std::to_string(rank),
             "reshape the tensor, or give the kernel a view of that rank");
    };
    wrong();
  }
  if (is_written) check_written(number, t);
  strided(number, t, t.data(), rank, t.extents().begin(), t.strides().begin(), elem, is_written);
}

void Frame::pointer(int number, const runtime::AnyTensor& t) {
  check_tensor(number, t);
  pointers_[pointer_count_++] = &t;
  if (is_checked(key_[1])) {
    index_t reach = t.size() == 0 ? 0 : 1;
    for (int i = 0; i < t.rank() && reach > 0; ++i) reach += std::max<index_t>(0, (t.extent(i) - 1) * t.stride(i));
    const index_t stride = 1;
    return strided(number, t, t.data(), 1, &reach, &stride, t.dtype(), true);
  }
  slots_[slot_count_++] = reinterpret_cast<std::uintptr_t>(t.data());
}

void Frame::strided(int number, const runtime::AnyTensor& t, const void* data, int rank, const index_t* extents,
                    const index_t* strides, Dtype elem, bool is_written) {
  const auto base = reinterpret_cast<std::uintptr_t>(data);
  const int bytes = dtype_bytes(elem);
  std::uint64_t* const slot = slots_ + slot_count_;
  *slot = base;
  const Layout l = rank == 1   ? layout_of<1>(rank, extents, strides, bytes, slot + 1)
                   : rank == 2 ? layout_of<2>(rank, extents, strides, bytes, slot + 1)
                               : layout_of<0>(rank, extents, strides, bytes, slot + 1);
  slot_count_ += 1 + 2 * rank;
  key_[facts_at_ + view_count_] = l.facts | static_cast<std::uint64_t>(base % 16 == 0) << 24;
  const bool empty = t.size() == 0;
  seen_[view_count_] = {&t, empty ? 0 : base + static_cast<std::uintptr_t>(l.low * bytes),
                        empty ? 0 : base + static_cast<std::uintptr_t>((l.high + 1) * bytes), number, is_written};
  ++view_count_;
  any_written_ = any_written_ || is_written;
}

void Frame::find_overlaps() {
  if (pointer_count_ > 0) {
    for (int i = 0; i < view_count_; ++i) key_[facts_at_ + i] |= std::uint64_t{1} << 26;
    return;
  }
  for (int i = 0; i < view_count_; ++i) {
    if (!seen_[i].is_written) continue;
    for (int j = 0; j < view_count_; ++j) {
      if (j == i || (seen_[j].is_written && j < i)) continue;
      if (seen_[i].first >= seen_[j].last || seen_[j].first >= seen_[i].last) continue;
      if (!runtime::may_overlap(*seen_[i].tensor, *seen_[j].tensor)) continue;
      key_[facts_at_ + i] |= std::uint64_t{1} << 26;
      key_[facts_at_ + j] |= std::uint64_t{1} << 26;
    }
  }
}

void Frame::run(const Grid& grid, const Body& record, std::string (*text)(const void*), const void* text_object) {
  if (record::is_active()) {
    throw_record_error(place_, "kernel '" + kernel_.name() + "' is launched while a kernel is being recorded",
                       "launch kernels and use tensors outside of a kernel's lambda");
  }
  for (int i = 0; i < 3; ++i) {
    if (grid[i] < 0) {
      throw_launch_error(place_,
                         "kernel '" + kernel_.name() + "': the grid has " + std::to_string(grid[i]) +
                             " programs along axis " + std::to_string(i),
                         "a grid's axes are zero or more");
    }
  }
  if (any_written_ || pointer_count_ > 0) find_overlaps();
  const Key key(key_, static_cast<std::size_t>(facts_at_ + view_count_));
  LaunchScope scope(kernel_.variants());
  const Entry* entry = kernel_.variants().find(key);
  scope.found(entry);  // none: the search has ended
  if (entry == nullptr || !entry->requirements->empty()) {
    int numbers[std::size(decltype(seen_){})];
    for (int i = 0; i < view_count_; ++i) numbers[i] = seen_[i].number;
    if (entry != nullptr) {
      entry->requirements->check(slots_, kernel_.name(), numbers, place_);
    } else {
      entry = &kernel_.variants().make({kernel_, stream_.device(), key, facts_at_, record, text, text_object,
                                        std::span(numbers, static_cast<std::size_t>(view_count_)), slots_, place_},
                                       scope);
    }
  }
  const runtime::LoadedKernel* kernel = entry->kernel.get();
  if (runtime::count_programs(grid.data(), place_) == 0) return;
  runtime::StreamState& stream = stream_.state();
  for (int i = 0; i < view_count_; ++i) seen_[i].tensor->use_on(stream, place_);
  for (int i = 0; i < pointer_count_; ++i) pointers_[i]->use_on(stream, place_);
  kernel->launch(stream, grid.data(), slots_, slot_count_, place_);
  launches.fetch_add(1, std::memory_order_relaxed);
}

Warmup Frame::warm(const Body& record, std::string (*text)(const void*), const void* text_object) {
  if (record::is_active()) {
    throw_record_error(place_, "kernel '" + kernel_.name() + "' is warmed up while a kernel is being recorded",
                       "warm up kernels outside of a kernel's lambda");
  }
  if (any_written_ || pointer_count_ > 0) find_overlaps();
  const Key key(key_, static_cast<std::size_t>(facts_at_ + view_count_));
  int numbers[std::size(decltype(seen_){})];
  for (int i = 0; i < view_count_; ++i) numbers[i] = seen_[i].number;
  Warmup warmup;
  warmup.state_ = jit::warm_in_background(
      kernel_.variants().record_variant({kernel_, stream_.device(), key, facts_at_, record, text, text_object,
                                         std::span(numbers, static_cast<std::size_t>(view_count_)), slots_, place_}),
      stream_.device());
  return warmup;
}

record::Raw add_view(Dtype elem, int rank, bool is_const) {
  record::Recorder& r = record::current({});
  return r.wrap(
      r.function.add_param(ir::Type::view(elem, rank, is_const), "p" + std::to_string(r.function.params.size())));
}

record::Raw add_scalar(Dtype elem) {
  record::Recorder& r = record::current({});
  return r.wrap(r.function.add_param(ir::Type::scalar(elem), "p" + std::to_string(r.function.params.size())));
}

record::Raw add_pointer(Dtype elem, bool is_const) {
  record::Recorder& r = record::current({});
  if (r.function.options.checked) {
    // With its extent, so that what it reaches can be checked.
    ir::Value* view =
        r.function.add_param(ir::Type::view(elem, 1, is_const), "p" + std::to_string(r.function.params.size()));
    return r.wrap(r.builder.view_base(view));
  }
  return r.wrap(
      r.function.add_param(ir::Type::pointer(elem, is_const, {}), "p" + std::to_string(r.function.params.size())));
}

record::Raw add_specialized(Dtype elem, std::uint64_t bits) {
  const record::Raw raw = add_scalar(elem);
  record::current({}).function.params.back().constant = bits;
  return raw;
}

std::string record_text(std::string_view name, const Place& place, const Body& body) {
  record::Recorder r{std::string(name), place};
  const record::Scope scope(r);
  body();
  r.finish();
  return ir::to_text(r.function);
}

}  // namespace launch
}  // namespace tileweave
