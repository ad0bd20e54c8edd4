// Host twins of the user's own device functions, by name: what the CPU and the interpreter call in their place.
// Registered when a kernel that uses one is recorded; looked up when such a kernel is loaded or interpreted.
#pragma once

#include <cstdint>
#include <string_view>

namespace tileweave {

// result[i] = f(operands[0][i], operands[1][i], ...) for `count` elements in memory form.
using HostFunction = void (*)(void* result, const void* const* operands, std::int64_t count);

// What their names begin with: how the loader of objects tells them from other undefined symbols.
inline constexpr std::string_view host_function_prefix = "tileweave_twin_";

// The same name again replaces the function. Any thread.
void register_host_function(std::string_view name, HostFunction f);
// Null where there is none.
HostFunction find_host_function(std::string_view name);

}  // namespace tileweave
