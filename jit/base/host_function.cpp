// The table of host twins. See host_function.h.
#include "tileweave/jit/base/host_function.h"

#include <map>
#include <mutex>
#include <string>

namespace tileweave {
namespace {
struct Table {
  std::mutex mutex;
  std::map<std::string, HostFunction, std::less<>> functions;
};
Table& table() {
  static auto* const t = new Table;  // never destroyed: kernels may run while the process ends
  return *t;
}
}  // namespace

void register_host_function(std::string_view name, HostFunction f) {
  const std::lock_guard lock(table().mutex);
  table().functions.insert_or_assign(std::string(name), f);
}

HostFunction find_host_function(std::string_view name) {
  const std::lock_guard lock(table().mutex);
  const auto at = table().functions.find(name);
  return at == table().functions.end() ? nullptr : at->second;
}

}  // namespace tileweave
