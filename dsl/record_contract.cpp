// Records what a kernel requires of its launches: conditions are kept beside the function, as values of it.
// Behind contract.h; requirements.h turns them into checks.
#include "tileweave/dsl/recorder.h"
#include "tileweave/jit/base/error.h"

namespace tileweave::record {
namespace {

// A launch checks requirements against its own arguments.
Recorder& kernel_recorder(const Place& p) {
  Recorder& r = current(p);
  if (r.is_function()) {
    throw_record_error(p, "requires_: in function '" + r.function.name + "'",
                       "a launch checks its own arguments: require it in the kernel's lambda");
  }
  return r;
}

}  // namespace

void require(const Raw& condition, const std::string& text, const Place& place) {
  Recorder& r = kernel_recorder(place);
  const Place p = r.begin(place);
  r.requirements.push_back({r.use(condition, p), nullptr, 0, text, p});
}

void require_aligned(const Raw& view, index_t bytes, const Place& place) {
  Recorder& r = kernel_recorder(place);
  const Place p = r.begin(place);
  if (bytes < 1 || (bytes & (bytes - 1)) != 0) {
    throw_record_error(p, "requires_: an alignment of " + std::to_string(bytes) + " bytes",
                       "an alignment is a power of two");
  }
  r.requirements.push_back({nullptr, r.use(view, p), bytes, {}, p});
}

void require_known(bool condition, const std::string& text, const Place& place) {
  Recorder& r = current(place);
  const Place p = r.begin(place);
  if (condition) return;
  throw_record_error(p, "requires_: the kernel's constants do not meet " + (text.empty() ? "a requirement" : text),
                     "launch it with other constants");
}

}  // namespace tileweave::record
