// The phase arithmetic of mbarriers. See simt_mbarrier.h.
#include "tileweave/jit/runtime/simt_mbarrier.h"

namespace tileweave::runtime::simt {

namespace {
constexpr std::int64_t most_bytes = (std::int64_t{1} << 20) - 1;  // PTX: the valid range of tx-count
}

void MBarrier::finish_phase_if_due() {
  if (pending_ != 0 || bytes_due_ != 0) return;
  ++phase_;
  pending_ = count_;
  Order::join(completed_, in_progress_);
  in_progress_ = {};
}

MBarrier::Problem MBarrier::arrive() {
  if (pending_ == 0) return Problem::too_many_arrivals;
  --pending_;
  finish_phase_if_due();
  return Problem::none;
}

MBarrier::Problem MBarrier::expect(std::int64_t bytes) {
  bytes_due_ += bytes;
  return bytes_due_ > most_bytes ? Problem::too_many_bytes : Problem::none;
}

MBarrier::Problem MBarrier::complete(std::int64_t bytes) {
  bytes_due_ -= bytes;
  if (bytes_due_ < -most_bytes) return Problem::too_many_bytes;
  finish_phase_if_due();
  return Problem::none;
}

}  // namespace tileweave::runtime::simt
