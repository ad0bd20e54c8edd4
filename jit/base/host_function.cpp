// The table of host twins. See host_function.h.
#include "tileweave/jit/base/host_function.h"

#include <map>
#include <mutex>
#include <string>

#include "tileweave/jit/base/fork.h"

namespace tileweave {
namespace {
using Table = std::map<std::string, HostFunction, std::less<>>;
constinit LeafMutex mutex;
Table& table() {
  static auto* const t = new Table;  // never destroyed: kernels may run while the process ends
  return *t;
}
}  // namespace

void register_host_function(std::string_view name, HostFunction f) {
  const std::lock_guard lock(mutex);
  table().insert_or_assign(std::string(name), f);
}

HostFunction find_host_function(std::string_view name) {
  const std::lock_guard lock(mutex);
  const auto at = table().find(name);
  return at == table().end() ? nullptr : at->second;
}

}  // namespace tileweave
