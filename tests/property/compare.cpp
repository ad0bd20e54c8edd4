// Compares two ways to run a program.
// Last of the property tests' steps; shrink.cpp makes what failed smaller.
#include "tests/property/compare.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/host_eval.h"

namespace tileweave::property {
namespace {

std::optional<std::string> run(const Program& p, const Executor& e, const Memory& m) {
  try {
    e(p.function, m.slots(), p.grid);
  } catch (const std::exception& x) {
    return x.what();
  }
  return std::nullopt;
}

std::uint64_t read(const std::byte* at, Dtype t) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(dtype_bytes(t)));
  return bits;
}

bool is_nan(std::uint64_t bits, Dtype t) { return is_float(t) && std::isnan(ir::host::to_double(bits, t)); }

std::string shown(std::uint64_t bits, Dtype t) {
  char text[64];
  std::snprintf(text, sizeof text, "%.17g (0x%llx)", ir::host::to_double(bits, t),
                static_cast<unsigned long long>(bits));
  return text;
}

bool agree(std::uint64_t a, std::uint64_t b, Dtype t, double bound) {
  if (a == b || (is_nan(a, t) && is_nan(b, t))) return true;
  if (std::isinf(bound)) return true;
  if (bound == 0 || !is_float(t)) return false;
  return std::fabs(ir::host::to_double(a, t) - ir::host::to_double(b, t)) <= bound;
}

// `bound_at` says how far the element at this address of `a` may move.
std::optional<std::string> differ(const Program& p, const Memory& a, const Memory& b,
                                  const std::function<double(const void*)>& bound_at) {
  for (std::size_t i = 0; i < p.arguments.size(); ++i) {
    const auto &x = a.buffer(i), &y = b.buffer(i);
    if (x == y) continue;
    const Dtype t = p.function.params[i].value->type.elem;
    const auto bytes = static_cast<std::size_t>(dtype_bytes(t));
    // The base is a whole number of elements from the first one.
    for (std::size_t at = a.base(i) % bytes; at + bytes <= x.size(); at += bytes) {
      const std::uint64_t u = read(x.data() + at, t), v = read(y.data() + at, t);
      const double bound = p.arguments[i].is_output ? bound_at(x.data() + at) : 0.0;
      if (agree(u, v, t, bound)) continue;
      const auto element = (static_cast<std::ptrdiff_t>(at) - static_cast<std::ptrdiff_t>(a.base(i))) /
                           static_cast<std::ptrdiff_t>(bytes);
      return "parameter " + std::to_string(i) + " (" + to_string(p.function.params[i].value->type) +
             "), memory element " + std::to_string(element) + ": " + shown(u, t) + " and " + shown(v, t) +
             (bound != 0 ? ", allowed " + std::to_string(bound) : "");
    }
  }
  return std::nullopt;
}

std::optional<std::string> differ_in_errors(const std::optional<std::string>& a, const std::optional<std::string>& b) {
  if (a.has_value() == b.has_value()) return std::nullopt;
  return a ? "the first throws: " + *a : "the second throws: " + *b;
}

}  // namespace

Executor interpreter() {
  return [](const ir::Function& f, std::span<const std::uint64_t> slots, const ir::Grid& grid) {
    ir::Interpreter(f).run(slots, grid);
  };
}

Executor after(std::vector<std::function<void(ir::Function&)>> passes, ir::Stage stage) {
  return [passes = std::move(passes), stage](const ir::Function& recorded, std::span<const std::uint64_t> slots,
                                             const ir::Grid& grid) {
    ir::Function f = recorded.clone();
    for (const auto& pass : passes) pass(f);
    ir::verify(f, stage);
    ir::Interpreter(f).run(slots, grid);
  };
}

std::optional<std::string> compare(const Program& p, const Executor& a, const Executor& b) {
  const Memory first(p), second(p);
  const auto thrown = run(p, a, first);
  if (const auto d = differ_in_errors(thrown, run(p, b, second))) return d;
  if (thrown) return std::nullopt;
  return differ(p, first, second, [](const void*) { return 0.0; });
}

std::optional<std::string> compare_with_interpreter(const Program& p, const std::function<void(ir::Function&)>& prepare,
                                                    const Executor& backend, bool short_forms) {
  ir::Function prepared = p.function.clone();
  prepare(prepared);
  ir::Interpreter reference(prepared, {.bounds = true, .short_forms = short_forms});
  const Memory first(p), second(p);
  const auto run_reference = [&](const ir::Function&, std::span<const std::uint64_t> slots, const ir::Grid& grid) {
    reference.run(slots, grid);
  };
  const auto thrown = run(p, run_reference, first);
  if (const auto d = differ_in_errors(thrown, run(p, backend, second))) return d;
  if (thrown || reference.is_undetermined()) return std::nullopt;
  return differ(p, first, second, [&](const void* at) { return reference.bound_at(at); });
}

std::optional<std::string> check_seeds(std::uint64_t first, std::uint64_t count,
                                       const std::function<Program(std::uint64_t)>& make, const Check& check) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Program p = make(seed);
    if (!check(p)) continue;
    p = shrink(std::move(p), check);
    const auto still = check(p);
    return "seed " + std::to_string(seed) + ": " + still.value_or("(gone after shrinking)") + "\n" +
           to_readable(p.function);
  }
  return std::nullopt;
}

}  // namespace tileweave::property
