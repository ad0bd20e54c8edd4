// From typed arguments to a launch: the frame that gathers slots and facts, and the kernel's table of variants.
// Between kernel.h (or a tensor expression) above and jit::get and LoadedKernel::launch below.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tileweave/dsl/deploy.h"
#include "tileweave/dsl/options.h"
#include "tileweave/dsl/record.h"
#include "tileweave/jit/runtime/tensor.h"

namespace tileweave {

// Launches of kernels by this process: the user's, the library's and those of tensor expressions.
std::int64_t launch_count();

namespace launch {

// How many layout variants a kernel may have for each set of element types and constants, before it runs its generic
// one.
inline constexpr int default_variant_budget = 16;

// The words that constants may take in a key, and the pointer parameters a kernel may have.
inline constexpr int max_constant_words = 48, max_pointers = 32;

// A callable by reference: what records the kernel's body.
class Body {
 public:
  template <class F>
  explicit Body(const F& f) : object_(&f), call_([](const void* o) { (*static_cast<const F*>(o))(); }) {}
  void operator()() const { call_(object_); }

 private:
  const void* object_;
  void (*call_)(const void*);
};

class Variants;

// A kernel's name, place and variants. One for each kernel object; lives as long as the process uses it.
class KernelState {
 public:
  KernelState(std::string name, const Place& place, int variant_budget = default_variant_budget);
  ~KernelState();
  KernelState(const KernelState&) = delete;
  KernelState& operator=(const KernelState&) = delete;

  const std::string& name() const { return name_; }
  const Place& place() const { return place_; }
  int variant_budget() const { return variant_budget_; }
  Variants& variants() const { return *variants_; }
  // Compiled variants so far, generic ones included.
  int variant_count() const;

 private:
  std::string name_;
  Place place_;
  int variant_budget_;
  std::unique_ptr<Variants> variants_;
};

// One launch on the caller's stack. Arguments are given in the order of the kernel's parameters.
class Frame {
 public:
  Frame(const KernelState& kernel, const Stream& stream, const Options& options, int constant_words,
        const Place& place);

  // A tensor for a view of this rank; checked. `number` is the parameter's, from 1.
  void view(int number, const runtime::AnyTensor& t, int rank, Dtype elem, bool is_written);
  // A tensor seen with other extents and strides (of `rank` axes, in elements) from `base`; unchecked.
  void strided(int number, const runtime::AnyTensor& t, const void* base, int rank, const index_t* extents,
               const index_t* strides, Dtype elem, bool is_written);
  // A tensor for a pointer parameter: its address alone. What a kernel reaches through a pointer nobody knows, so every
  // view of the launch may overlap it. In checked mode it is a view of all elements from the tensor's first on.
  void pointer(int number, const runtime::AnyTensor& t);
  void scalar(std::uint64_t bits) { slots_[slot_count_++] = bits; }
  // Where the words of the next constant go.
  std::uint64_t* constants() { return key_ + key_words_; }
  void constants_end(std::uint64_t* end) { key_words_ = static_cast<int>(end - key_); }
  // Finds or makes the variant and launches it. `text` gives the constants as text, for messages.
  void run(const Grid& grid, const Body& record, std::string (*text)(const void*), const void* text_object);
  // Records the variant here and compiles it in the background.
  Warmup warm(const Body& record, std::string (*text)(const void*), const void* text_object);

  [[noreturn]] void refuse(int number, const std::string& what, const std::string& help) const;

 private:
  static constexpr int header_words = 2;
  struct Seen {
    const runtime::AnyTensor* tensor;
    std::uintptr_t first, last;  // the addresses it can touch
    int number;
    bool is_written;
  };

  void find_overlaps();
  void check_tensor(int number, const runtime::AnyTensor& t) const;
  void check_written(int number, const runtime::AnyTensor& t) const;

  const KernelState& kernel_;
  const Stream& stream_;
  Place place_;
  int slot_count_ = 0, key_words_ = header_words, view_count_ = 0, facts_at_;
  bool any_written_ = false;
  int pointer_count_ = 0;
  Seen seen_[runtime::max_slots / 3 + 1];
  const runtime::AnyTensor* pointers_[max_pointers];
  std::uint64_t slots_[runtime::max_slots + 2 * max_pointers];  // checked pointers take three
  std::uint64_t key_[runtime::max_slots + 64];
};

// --- while the body is recorded: the function's parameters, in order
record::Raw add_view(Dtype elem, int rank, bool is_const);
record::Raw add_scalar(Dtype elem);
record::Raw add_pointer(Dtype elem, bool is_const);
record::Raw add_specialized(Dtype elem, std::uint64_t bits);
// Records a body as a kernel of this name and gives its text: for tests and tools.
std::string record_text(std::string_view name, const Place& place, const Body& body);

// Where the lines of the launch machinery go ("kernel 'add': variant 2: argument 3 ..."). Null: stderr, and only
// warnings unless TILEWEAVE_CACHE_LOG is set.
using LogSink = void (*)(bool is_warning, const std::string& line);
void set_log_sink(LogSink sink);

}  // namespace launch
}  // namespace tileweave
