// Loading and launching CUDA kernels: one driver call a launch, nothing allocated, nothing locked.
// Between load_kernel and the driver.
#include "tileweave/jit/runtime/cuda_kernel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>
#include <vector>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/abi.h"
#include "tileweave/jit/runtime/cuda_device.h"
#include "tileweave/jit/runtime/cuda_stream.h"

namespace tileweave::runtime::cuda {
namespace {

constexpr std::int64_t smem_without_asking = 48 << 10;
constexpr std::size_t most_maps = 16;

// The codes of cuTensorMapEncodeTiled. Elements are bits: what lies outside is 0 in every type.
constexpr int no_interleave = 0, promote_to_128_bytes = 2, zeros_outside = 0;
int type_code(int element_bytes) {
  return element_bytes == 1 ? 0 : element_bytes == 2 ? 1 : element_bytes == 4 ? 2 : 4;
}
int swizzle_code(int bytes) { return bytes == 32 ? 1 : bytes == 64 ? 2 : bytes == 128 ? 3 : 0; }

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n';
    const std::size_t end = at + word.size();
    if (begins && (end == text.size() || text[end] == ' ' || text[end] == '\n')) return true;
  }
  return false;
}

}  // namespace

std::shared_ptr<const LoadedKernel> CudaKernel::load(CudaDevice& device, const Binary& binary, const std::string& name,
                                                     const Place& place) {
  if (binary.kind != Binary::Kind::cubin && binary.kind != Binary::Kind::ptx) {
    throw_launch_error(place, "kernel '" + name + "' for " + binary.target + " cannot be loaded on " + device.label(),
                       "compile it for " + device.target());
  }
  auto kernel = std::make_shared<CudaKernel>(device, name);
  const OutsideCapture outside(device.driver());
  const ContextScope scope(device.driver(), device.context(), place);
  kernel->load_module(binary, place);
  kernel->prepare(binary, place);
  if (auto texts = channel_texts(binary.meta); !texts.empty()) {
    kernel->texts_ = std::make_shared<const std::vector<ChannelText>>(std::move(texts));
  }
  return kernel;
}

void CudaKernel::load_module(const Binary& binary, const Place& place) {
  std::vector<std::byte> image = binary.code;
  image.push_back(std::byte{0});  // PTX is a C string
  std::vector<char> log(8192, '\0');
  int options[] = {jit_error_log, jit_error_log_bytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  const Driver& d = device_.driver();
  const Result r = d.module_load_data_ex(&module_, image.data(), 2, options, values);
  if (r != success && log[0] != '\0') {
    throw_launch_error(place, "kernel '" + std::string(name()) + "' is refused by the driver for " + device_.label() +
                                  " with " + describe(r) + ": " + log.data());
  }
  check(r, "module_load_data_ex", "loading kernel '" + std::string(name()) + "' on " + device_.label(), place,
        r == success ? "" : device_.suspects(nullptr));
  check(d.module_get_function(&function_, module_, binary.entry.c_str()), "module_get_function",
        "looking for '" + binary.entry + "' in kernel '" + name() + "'", place);
}

void CudaKernel::prepare(const Binary& binary, const Place& place) {
  const Driver& d = device_.driver();
  const DeviceFacts& facts = device_.facts();
  const std::string who = "kernel '" + std::string(name()) + "' ";
  if (binary.threads_per_block < 1 || binary.threads_per_block > facts.max_threads_per_block || binary.cluster < 1 ||
      binary.cluster > 16) {
    throw_launch_error(place, who + "wants " + std::to_string(binary.threads_per_block) + " threads a block and " +
                                  std::to_string(binary.cluster) + " blocks a cluster; " + device_.label() +
                                  " has at most " + std::to_string(facts.max_threads_per_block) + " and 16");
  }
  int static_bytes = 0;
  d.func_get_attribute(&static_bytes, function_smem_bytes, function_);
  if (binary.smem_bytes < 0 || binary.smem_bytes + static_bytes > facts.smem_per_block_bytes) {
    throw_launch_error(place,
                       who + "wants " + std::to_string(binary.smem_bytes + static_bytes) +
                           " bytes of shared memory a block; " + device_.label() + " has " +
                           std::to_string(facts.smem_per_block_bytes),
                       "use smaller tiles or fewer stages");
  }
  threads_ = static_cast<unsigned>(binary.threads_per_block);
  smem_bytes_ = static_cast<unsigned>(binary.smem_bytes);
  cluster_ = binary.cluster;
  limits_ = {facts.max_grid_x, facts.max_grid_y};
  if (binary.smem_bytes + static_bytes > smem_without_asking) {
    check(d.func_set_attribute(function_, function_max_dynamic_smem_bytes, static_cast<int>(smem_bytes_)),
          "func_set_attribute", "reserving shared memory for " + who, place);
  }
  if (cluster_ > 8) {
    check(d.func_set_attribute(function_, function_non_portable_cluster, 1), "func_set_attribute",
          "asking for a large cluster for " + who, place);
  }
  if (cluster_ > 1) {
    LaunchAttribute& a = attributes_[attribute_count_++];
    a.id = attribute_cluster;
    a.value.dimensions[0] = static_cast<unsigned>(cluster_);
    a.value.dimensions[1] = a.value.dimensions[2] = 1;
  }
  static std::atomic<std::uint64_t> kernels{0};
  serial_ = ++kernels;
  maps_ = tensor_map_plans(binary.meta);
  if (maps_.size() > most_maps || (!maps_.empty() && d.tensor_map_encode_tiled == nullptr)) {
    throw_launch_error(place,
                       who + "wants " + std::to_string(maps_.size()) + " tensor maps; " + device_.label() +
                           "'s driver makes " + (maps_.size() > most_maps ? std::to_string(most_maps) : "none"),
                       "install a driver of CUDA 12.0 or newer");
  }
  if (has_word(binary.meta, "pdl=1")) {
    LaunchAttribute& a = attributes_[attribute_count_++];
    a.id = attribute_programmatic_serialization;
    a.value.flag = 1;
  }
  if (attribute_count_ > 0 && d.launch_kernel_ex == nullptr) {
    if (cluster_ > 1) {
      throw_launch_error(place, who + "wants clusters, which this CUDA driver cannot launch",
                         "install a driver of CUDA 11.8 or newer");
    }
    attribute_count_ = 0;  // programmatic launch is a matter of speed only
  }
  int blocks = 1;
  if (d.occupancy_max_active_blocks(&blocks, function_, static_cast<int>(threads_), smem_bytes_) == success &&
      blocks == 0) {
    int registers = 0;
    d.func_get_attribute(&registers, function_registers, function_);
    throw_launch_error(place,
                       who + "does not fit on a multiprocessor of " + device_.label() + ": " +
                           std::to_string(threads_) + " threads of " + std::to_string(registers) + " registers, " +
                           std::to_string(smem_bytes_ + static_bytes) + " bytes of shared memory",
                       "use smaller tiles or fewer warps");
  }
  if (has_word(binary.meta, "persistent=1"))
    most_blocks_ = static_cast<std::uint32_t>(std::max(blocks, 1) * facts.units);
}

CudaKernel::~CudaKernel() {
  const Driver& d = device_.driver();
  if (module_ == nullptr || d.ctx_push_current(device_.context()) != success) return;
  const OutsideCapture outside(d);
  // Unloading code that still runs, or that a graph being captured will run, is not allowed: then it stays.
  if (d.ctx_synchronize() == success) d.module_unload(module_);
  Context popped = nullptr;
  d.ctx_pop_current(&popped);
}

Result CudaKernel::call(const GridPlan& plan, StreamHandle stream, void** parameters, void** extra) const {
  const Driver& d = device_.driver();
  if (attribute_count_ == 0) [[likely]] {
    return d.launch_kernel(function_, plan.x, plan.y, 1, threads_, 1, 1, smem_bytes_, stream, parameters, extra);
  }
  LaunchConfig config{
      {plan.x, plan.y, 1}, {threads_, 1, 1}, smem_bytes_, stream, const_cast<LaunchAttribute*>(attributes_),
      attribute_count_};
  return d.launch_kernel_ex(&config, function_, parameters, extra);
}

// The launch needs our context to be current. Asking which one is would be a driver call of its own, so the launch is
// tried: with none or another one current it is refused and nothing has happened. A thread where that was so pushes the
// context first from then on, and tries again without now and then.
Result CudaKernel::call_in_context(const GridPlan& plan, StreamHandle stream, void** parameters, void** extra) const {
  thread_local Context absent = nullptr;
  thread_local unsigned turn = 0;
  if (absent != device_.context() || ++turn % 256 == 0) [[likely]] {
    const Result r = call(plan, stream, parameters, extra);
    if (r != invalid_context && r != invalid_handle) [[likely]] {
      if (absent == device_.context()) absent = nullptr;
      return r;
    }
  }
  const Driver& d = device_.driver();
  if (const Result r = d.ctx_push_current(device_.context()); r != success) return r;
  const Result r = call(plan, stream, parameters, extra);
  Context popped = nullptr;
  d.ctx_pop_current(&popped);
  if (r == success) absent = device_.context();
  return r;
}

void CudaKernel::launch(StreamState& stream, const std::int64_t grid[3], const std::uint64_t* slots, int n,
                        const Place& place) const {
  if (&stream.device() != &device_) [[unlikely]] {
    throw_launch_error(place, "kernel '" + std::string(name()) + "' is loaded on " + device_.label() +
                                  ", the stream is on " + stream.device().name());
  }
  check_slot_count(n, place);
  GridPlan plan = plan_grid(grid, cluster_, limits_, place);
  if (plan.programs == 0) return;
  if (most_blocks_ != 0 && plan.programs > most_blocks_) plan.x = most_blocks_, plan.y = 1;
  std::uint64_t parameters[max_slots + grid_slots + 1];
  if (n > 0) std::memcpy(parameters, slots, static_cast<std::size_t>(n) * 8);
  std::memcpy(parameters + n, grid, grid_slots * 8);
  const auto words = static_cast<std::size_t>(n + grid_slots);
  if (texts_ != nullptr) [[unlikely]] {
    return launch_with_channel(stream, plan, parameters, words, place);
  }
  call_checked(stream, plan, parameters, words, place);
}

// The launch of a kernel that takes tensor maps behind its other parameters. Each parameter is given by its address:
// the assembler aligns maps within the constant bank, not within the parameters, so only the driver knows their places.
Result CudaKernel::call_with_maps(StreamState& stream, const GridPlan& plan, std::uint64_t* words, std::size_t count,
                                  const Place& place) const {
  TensorMap maps[most_maps];
  void* parameters[max_slots + grid_slots + 1 + most_maps];
  std::size_t n = 0;
  for (; n < count; ++n) parameters[n] = words + n;
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    maps[i] = map_of(i, words, place);
    parameters[n++] = &maps[i];
  }
  return call_in_context(plan, static_cast<CudaStream&>(stream).handle(), parameters, nullptr);
}

// Views come again: a thread keeps some of the maps that it asked for last.
const TensorMap& CudaKernel::map_of(std::size_t number, const std::uint64_t* words, const Place& place) const {
  struct Known {
    std::uint64_t kernel = 0;  // 0: none
    std::size_t number = 0;
    TensorMapFacts facts;
    TensorMap map;
  };
  constexpr std::size_t kept = 16;
  thread_local std::array<Known, kept> known;
  const TensorMapFacts facts = tensor_map_facts(maps_[number], words);
  Known& k = known[(serial_ * 3 + number + facts.base / 256) % kept];
  if (k.kernel == serial_ && k.number == number && k.facts == facts) return k.map;
  k.kernel = 0;
  encode(maps_[number], facts, k.map, place);
  k.number = number;
  k.facts = facts;
  k.kernel = serial_;
  return k.map;
}

// The driver wants a context to be current.
void CudaKernel::encode(const TensorMapPlan& plan, const TensorMapFacts& facts, TensorMap& map,
                        const Place& place) const {
  const ContextScope scope(device_.driver(), device_.context(), place);
  std::array<unsigned, TensorMapPlan::most_axes> box{}, steps{};
  for (std::size_t i = 0; i < box.size(); ++i) box[i] = static_cast<unsigned>(plan.extents[i]), steps[i] = 1;
  const Result r = device_.driver().tensor_map_encode_tiled(
      &map, type_code(plan.element_bytes), static_cast<unsigned>(plan.rank), reinterpret_cast<void*>(facts.base),
      facts.extents.data(), facts.strides.data() + 1, box.data(), steps.data(), no_interleave,
      swizzle_code(plan.swizzle_bytes), promote_to_128_bytes, zeros_outside);
  check(r, "tensor_map_encode_tiled",
        "describing the view in slot " + std::to_string(plan.slot) + " of kernel '" + name() + "' to TMA", place);
}

void CudaKernel::call_checked(StreamState& stream, const GridPlan& plan, std::uint64_t* parameters, std::size_t words,
                              const Place& place) const {
  std::size_t bytes = words * 8;
  void* extra[] = {launch_buffer_pointer, parameters, launch_buffer_bytes, &bytes, launch_end};
  stream.launches.note(name());
  const Result r = maps_.empty() ? call_in_context(plan, static_cast<CudaStream&>(stream).handle(), nullptr, extra)
                                 : call_with_maps(stream, plan, parameters, words, place);
  if (r != success) [[unlikely]] {
    fail(r, stream, place);
  }
}

// The kernel gets a channel of its own; what it wrote is read when the host next waits for the stream.
void CudaKernel::launch_with_channel(StreamState& stream, const GridPlan& plan, std::uint64_t* parameters,
                                     std::size_t words, const Place& place) const {
  auto& cuda = static_cast<CudaStream&>(stream);
  if (cuda.is_capturing()) {
    throw_launch_error(place, "kernel '" + std::string(name()) + "' prints or checks, which a CUDA graph cannot do",
                       "launch it outside of the capture, or take device_print and device_assert out");
  }
  const DeviceState::Allocation memory = device_.allocate(channel::bytes, Memory::device, place);
  if (memory.origin != nullptr && memory.origin != &stream) stream.follow(*memory.origin, place);
  device_.fill_zero(stream, memory.base, channel::prints_at, place);
  parameters[words] = reinterpret_cast<std::uint64_t>(memory.base);
  call_checked(stream, plan, parameters, words + 1, place);
  cuda.expect_records({name(), texts_, memory.base});
}

void CudaKernel::fail(Result r, StreamState& stream, const Place& place) const {
  check(r, attribute_count_ > 0 ? "launch_kernel_ex" : "launch_kernel",
        "launching kernel '" + std::string(name()) + "' on " + device_.label(), place, device_.suspects(&stream));
  throw_internal_error(std::source_location::current(), "a launch that succeeded was reported as failed");
}

}  // namespace tileweave::runtime::cuda
