// Kernels of the C interface (tileweave_c.h): from text or a file, listed, launched.
// Over jit/stored_kernels.h and launch.h: a launch from C goes the way of one from C++, with a function that was read
// instead of recorded.
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include "tileweave/dsl/c_status.h"
#include "tileweave/dsl/launch.h"
#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/host_eval.h"
#include "tileweave/jit/stored_kernels.h"

using namespace tileweave;

struct tileweave_kernel {
  ir::Function function;
  launch::KernelState state;
  explicit tileweave_kernel(ir::Function f) : function(std::move(f)), state(function.name, function.place) {}
};

namespace {

static_assert(static_cast<int>(Dtype::f64) == TILEWEAVE_F64 && static_cast<int>(Dtype::f32) == TILEWEAVE_F32 &&
              static_cast<int>(Dtype::f16) == TILEWEAVE_F16 && static_cast<int>(Dtype::bf16) == TILEWEAVE_BF16 &&
              static_cast<int>(Dtype::f8e4m3) == TILEWEAVE_F8E4M3 &&
              static_cast<int>(Dtype::f8e5m2) == TILEWEAVE_F8E5M2 && static_cast<int>(Dtype::i8) == TILEWEAVE_I8 &&
              static_cast<int>(Dtype::i64) == TILEWEAVE_I64 && static_cast<int>(Dtype::u8) == TILEWEAVE_U8 &&
              static_cast<int>(Dtype::u64) == TILEWEAVE_U64 && static_cast<int>(Dtype::boolean) == TILEWEAVE_BOOL);
static_assert(dtype_count == TILEWEAVE_BOOL + 1, "a new element type needs its number in tileweave_c.h");

bool is_pointer(const ir::Param& p) { return p.value->type.is_pointer(); }
bool is_scalar(const ir::Param& p) { return !p.value->type.is_view() && !is_pointer(p); }

// Launch frames have room for what a C++ kernel may have.
void check_size(const ir::Function& f) {
  int slots = 0, pointers = 0;
  for (const ir::Param& p : f.params) {
    slots += p.value->type.is_view() ? runtime::slots_of_view(p.value->type.rank) : 1;
    pointers += is_pointer(p) ? 1 : 0;
  }
  if (slots <= runtime::max_slots && pointers <= launch::max_pointers) return;
  throw_compile_error({}, "kernel '" + f.name + "' takes " + std::to_string(slots) + " slots and " +
                              std::to_string(pointers) + " pointers; a launch has room for " +
                              std::to_string(runtime::max_slots) + " and " + std::to_string(launch::max_pointers));
}

tileweave_status give(ir::Function f, tileweave_kernel** kernel) {
  check_size(f);
  *kernel = new tileweave_kernel(std::move(f));
  return TILEWEAVE_OK;
}

tileweave_status give_stored(const std::string& path, const std::string& name, int which, tileweave_kernel** kernel) {
  if (!std::filesystem::exists(path)) {
    return c::failed(TILEWEAVE_NOT_FOUND, "tileweave_kernel_from_file: there is no file " + path);
  }
  std::vector<ir::Function> found = jit::stored_kernels(path, name);
  const std::string called = name.empty() ? "" : " called '" + name + "'";
  if (which >= 0 && static_cast<std::size_t>(which) < found.size()) {
    return give(std::move(found[static_cast<std::size_t>(which)]), kernel);
  }
  return c::failed(TILEWEAVE_NOT_FOUND, "tileweave_kernel_from_file: " + path + " holds " +
                                            std::to_string(found.size()) + " kernels" + called + ", number " +
                                            std::to_string(which) + " (from 0) is asked for");
}

// The arguments of one launch, checked against the parameters and put into its frame.
class Call {
 public:
  Call(const tileweave_kernel& kernel, launch::Frame& frame, const Device& device,
       std::span<const tileweave_argument> a)
      : kernel_(kernel), frame_(frame), arguments_(a) {
    tensors_.reserve(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) put(i, device);
  }

 private:
  void put(std::size_t i, const Device& device) {
    const ir::Param& p = kernel_.function.params[i];
    const tileweave_argument& a = arguments_[i];
    const ir::Type& type = p.value->type;
    number_ = static_cast<int>(i) + 1;
    const bool scalar = a.kind == TILEWEAVE_SCALAR;
    if (is_scalar(p) != scalar) refuse(scalar ? "a number" : "memory", p);
    if (static_cast<int>(a.dtype) != static_cast<int>(type.elem)) refuse(name_of(a.dtype), p);
    if (scalar) return frame_.scalar(bits_of(a, p));
    tensors_.push_back(memory_of(a, type.elem, device));
    if (is_pointer(p)) return frame_.pointer(number_, tensors_.back());
    frame_.view(number_, tensors_.back(), type.rank, type.elem, !type.is_const);
  }

  [[noreturn]] void refuse(const std::string& given, const ir::Param& p) const {
    frame_.refuse(number_, "is " + given + ", its parameter is " + ir::to_string(p.value->type),
                  "list the kernel's parameters with tileweave_kernel_parameter");
  }

  static std::string name_of(tileweave_dtype t) {
    const int n = static_cast<int>(t);
    return n < 0 || n >= dtype_count ? "of element type number " + std::to_string(n)
                                     : "of " + std::string(dtype_name(static_cast<Dtype>(n)));
  }

  std::uint64_t bits_of(const tileweave_argument& a, const ir::Param& p) const {
    const Dtype t = p.value->type.elem;
    const std::uint64_t bits = is_float(t) ? ir::host::from_double(a.real, t) : integer_bits(a.integer, t);
    if (!p.constant || *p.constant == bits) return bits;
    frame_.refuse(number_, "differs from the constant that this kernel was recorded for",
                  "load the kernel that was recorded with this value, or record it");
  }

  std::uint64_t integer_bits(std::int64_t v, Dtype t) const {
    const std::uint64_t bits = ir::host::from_int(v, t);
    const bool fits = is_bool(t) ? v == 0 || v == 1 : t == Dtype::u64 || ir::host::to_int64(bits, t) == v;
    if (!fits) {
      frame_.refuse(number_, "is " + std::to_string(v) + ", which does not fit " + std::string(dtype_name(t)),
                    "pass a smaller number");
    }
    return bits;
  }

  runtime::AnyTensor memory_of(const tileweave_argument& a, Dtype t, const Device& device) const {
    if (a.rank < 0 || a.rank > runtime::max_rank) {
      frame_.refuse(number_, "has rank " + std::to_string(a.rank), "memory has 0 to 6 axes");
    }
    const auto rank = static_cast<std::size_t>(a.rank);
    if (rank > 0 && a.extents == nullptr) frame_.refuse(number_, "has no extents", "give one for each axis");
    const runtime::Dims extents(std::span<const std::int64_t>(a.extents, rank));
    const ErrorContext context("kernel '" + kernel_.function.name + "', argument " + std::to_string(number_));
    return runtime::AnyTensor::wrap(a.data, t, extents, strides_of(a, extents), device, Place());
  }

  runtime::Dims strides_of(const tileweave_argument& a, const runtime::Dims& extents) const {
    if (a.strides != nullptr) return {std::span<const std::int64_t>(a.strides, static_cast<std::size_t>(a.rank))};
    runtime::Dims strides = runtime::Dims::filled(a.rank, 1);
    for (int i = a.rank - 2; i >= 0; --i) {
      std::int64_t n = 0;
      if (__builtin_mul_overflow(strides[i + 1], std::max<std::int64_t>(extents[i + 1], 1), &n)) {
        frame_.refuse(number_, "has extents " + runtime::to_string(extents), "memory has less than 2^63 bytes");
      }
      strides[i] = n;
    }
    return strides;
  }

  const tileweave_kernel& kernel_;
  launch::Frame& frame_;
  std::span<const tileweave_argument> arguments_;
  std::vector<runtime::AnyTensor> tensors_;  // the frame points to them
  int number_ = 0;
};

Options options_of(const ir::Options& own, const tileweave_options* given) {
  Options o;
  o.warps = own.warps;
  o.stages = own.stages;
  o.fast_math = own.fast_math;
  o.contract = own.contract;
  o.checked = own.checked;
  o.overflow = own.overflow;
  o.debug = own.debug;
  if (given == nullptr) return o;
  o.warps = given->warps;
  o.stages = given->stages;
  o.fast_math = given->fast_math != 0;
  o.checked = given->checked != 0;
  o.overflow = given->overflow != 0;
  return o;
}

void launch_kernel(const tileweave_kernel& kernel, const Stream& stream, const std::int64_t* grid,
                   std::span<const tileweave_argument> arguments, const tileweave_options* given) {
  constexpr int most_warps = std::numeric_limits<std::int16_t>::max();
  Options options = options_of(kernel.function.options, given);
  // The launch refuses what is no number of warps or stages, in the width of its key.
  options.warps = std::clamp(options.warps, -1, most_warps);
  options.stages = std::clamp(options.stages, -1, most_warps);
  launch::Frame frame(kernel.state, stream, options, 0, Place());
  const Call call(kernel, frame, stream.device(), arguments);
  const auto adopt = [&] { record::current({}).adopt(kernel.function); };
  frame.run(Grid(grid[0], grid[1], grid[2]), launch::Body(adopt), nullptr, nullptr);
}

}  // namespace

tileweave_status tileweave_kernel_from_text(const char* text, size_t bytes, tileweave_kernel** kernel) {
  if (kernel == nullptr) return c::null_argument("tileweave_kernel_from_text", "kernel");
  *kernel = nullptr;
  if (text == nullptr) return c::null_argument("tileweave_kernel_from_text", "text");
  return c::guarded([&] { return give(ir::parse(std::string_view(text, bytes)), kernel); });
}

tileweave_status tileweave_kernel_from_file(const char* path, const char* name, int which, tileweave_kernel** kernel) {
  if (kernel == nullptr) return c::null_argument("tileweave_kernel_from_file", "kernel");
  *kernel = nullptr;
  if (path == nullptr) return c::null_argument("tileweave_kernel_from_file", "path");
  return c::guarded([&] { return give_stored(path, name == nullptr ? "" : name, which, kernel); });
}

void tileweave_kernel_close(tileweave_kernel* kernel) { delete kernel; }

const char* tileweave_kernel_name(const tileweave_kernel* kernel) {
  return kernel == nullptr ? "" : kernel->function.name.c_str();
}

int tileweave_kernel_parameter_count(const tileweave_kernel* kernel) {
  return kernel == nullptr ? 0 : static_cast<int>(kernel->function.params.size());
}

tileweave_status tileweave_kernel_parameter(const tileweave_kernel* kernel, int index, tileweave_parameter* parameter) {
  if (kernel == nullptr) return c::null_argument("tileweave_kernel_parameter", "kernel");
  if (parameter == nullptr) return c::null_argument("tileweave_kernel_parameter", "parameter");
  return c::guarded([&] {
    const auto& params = kernel->function.params;
    if (index < 0 || static_cast<std::size_t>(index) >= params.size()) {
      return c::failed(TILEWEAVE_INVALID_ARGUMENT, "tileweave_kernel_parameter: kernel '" + kernel->function.name +
                                                       "' has " + std::to_string(params.size()) +
                                                       " parameters, number " + std::to_string(index) +
                                                       " (from 0) is asked for");
    }
    const ir::Param& p = params[static_cast<std::size_t>(index)];
    const ir::Type& t = p.value->type;
    parameter->kind = t.is_view() ? TILEWEAVE_VIEW : is_pointer(p) ? TILEWEAVE_POINTER : TILEWEAVE_SCALAR;
    parameter->dtype = static_cast<tileweave_dtype>(t.elem);
    parameter->rank = t.is_view() ? t.rank : 0;
    parameter->is_const = is_scalar(p) || t.is_const ? 1 : 0;
    return TILEWEAVE_OK;
  });
}

tileweave_status tileweave_kernel_launch(const tileweave_kernel* kernel, const tileweave_stream* stream,
                                         const int64_t grid[3], const tileweave_argument* arguments, int count,
                                         const tileweave_options* options) {
  if (kernel == nullptr) return c::null_argument("tileweave_kernel_launch", "kernel");
  if (stream == nullptr) return c::null_argument("tileweave_kernel_launch", "stream");
  if (grid == nullptr) return c::null_argument("tileweave_kernel_launch", "grid");
  if (arguments == nullptr && count > 0) return c::null_argument("tileweave_kernel_launch", "arguments");
  return c::guarded([&] {
    const std::size_t wanted = kernel->function.params.size();
    if (count < 0 || static_cast<std::size_t>(count) != wanted) {
      return c::failed(TILEWEAVE_LAUNCH_ERROR, "kernel '" + kernel->function.name + "' takes " +
                                                   std::to_string(wanted) + " arguments, got " + std::to_string(count));
    }
    launch_kernel(*kernel, stream->stream, grid, std::span(arguments, wanted), options);
    return TILEWEAVE_OK;
  });
}
