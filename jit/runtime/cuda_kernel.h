// A kernel on a CUDA device: a module, a function in it, and the launch.
// Made by CudaDevice::load; launched by dsl.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tileweave/jit/base/channel.h"
#include "tileweave/jit/runtime/cuda_driver.h"
#include "tileweave/jit/runtime/grid.h"
#include "tileweave/jit/runtime/launch.h"
#include "tileweave/jit/runtime/tensor_map.h"

namespace tileweave::runtime::cuda {

class CudaDevice;

class CudaKernel final : public LoadedKernel {
 public:
  static std::shared_ptr<const LoadedKernel> load(CudaDevice& device, const Binary& binary, const std::string& name,
                                                  const Place& place);
  explicit CudaKernel(CudaDevice& device, const std::string& name) : LoadedKernel(name), device_(device) {}
  ~CudaKernel() override;

  void launch(StreamState& stream, const std::int64_t grid[3], const std::uint64_t* slots, int n,
              const Place& place) const override;

 private:
  void load_module(const Binary& binary, const Place& place);
  void prepare(const Binary& binary, const Place& place);
  Result call(const GridPlan& plan, StreamHandle stream, void** parameters, void** extra) const;
  Result call_in_context(const GridPlan& plan, StreamHandle stream, void** parameters, void** extra) const;
  Result call_with_maps(StreamState& stream, const GridPlan& plan, std::uint64_t* words, std::size_t count,
                        const Place& place) const;
  const TensorMap& map_of(std::size_t number, const std::uint64_t* words, const Place& place) const;
  void encode(const TensorMapPlan& plan, const TensorMapFacts& facts, TensorMap& map, const Place& place) const;
  void launch_with_channel(StreamState& stream, const GridPlan& plan, std::uint64_t* parameters, std::size_t words,
                           const Place& place) const;
  void call_checked(StreamState& stream, const GridPlan& plan, std::uint64_t* parameters, std::size_t words,
                    const Place& place) const;
  [[noreturn]] void fail(Result r, StreamState& stream, const Place& place) const;

  CudaDevice& device_;
  Module module_ = nullptr;
  Function function_ = nullptr;
  unsigned threads_ = 1, smem_bytes_ = 0;
  int cluster_ = 1;
  std::uint32_t most_blocks_ = 0;  // of a persistent kernel: as many as run at once; 0: one for each program
  GridLimits limits_;
  std::vector<TensorMapPlan> maps_;
  std::uint64_t serial_ = 0;                               // different for every kernel of the process
  std::shared_ptr<const std::vector<ChannelText>> texts_;  // null: the kernel has no channel
  // For launches that say more than sizes; empty: the plain launch.
  LaunchAttribute attributes_[2] = {};
  unsigned attribute_count_ = 0;
};

}  // namespace tileweave::runtime::cuda
