// Atomic primitives on global and shared memory. Blocks run on several cores, so global ones are atomic on the host
// too. See primitives.def for their meaning.
#include <atomic>
#include <bit>

#include "tileweave/jit/base/float_types.h"
#include "tileweave/jit/runtime/simt_call.h"

namespace tileweave::runtime::simt {
namespace {

// --- The operations, on what a register holds.
struct Add {
  template <class T>
  static T apply(T old, T value) {
    return static_cast<T>(old + value);
  }
};
template <class H>
struct AddHalves {
  static std::uint32_t apply(std::uint32_t old, std::uint32_t value) {
    const auto add = [](std::uint32_t x, std::uint32_t y) -> std::uint32_t {
      const auto half = [](std::uint32_t bits) {
        return static_cast<double>(static_cast<float>(H::from_bits(static_cast<std::uint16_t>(bits))));
      };
      return H(half(x) + half(y)).bits;
    };
    return add(old, value) | add(old >> 16, value >> 16) << 16;
  }
};
template <class S>
struct Min {
  template <class T>
  static T apply(T old, T value) {
    return static_cast<S>(value) < static_cast<S>(old) ? value : old;
  }
};
template <class S>
struct Max {
  template <class T>
  static T apply(T old, T value) {
    return static_cast<S>(old) < static_cast<S>(value) ? value : old;
  }
};
struct And {
  template <class T>
  static T apply(T old, T value) {
    return old & value;
  }
};
struct Or {
  template <class T>
  static T apply(T old, T value) {
    return old | value;
  }
};
struct Xor {
  template <class T>
  static T apply(T old, T value) {
    return old ^ value;
  }
};
struct Exchange {
  template <class T>
  static T apply(T, T value) {
    return value;
  }
};

template <class T>
using Bits =
    std::conditional_t<sizeof(T) == 8, std::uint64_t, std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>>;

// Replaces the bits at `p` by f(old) in one step; the old ones. compare_exchange compares bits, as floats need.
template <class T, class F>
T update(std::byte* p, F&& f) {
  std::atomic_ref<Bits<T>> cell(*reinterpret_cast<Bits<T>*>(p));
  Bits<T> old = cell.load(std::memory_order_relaxed);
  while (!cell.compare_exchange_weak(old, std::bit_cast<Bits<T>>(f(std::bit_cast<T>(old))))) {
  }
  return std::bit_cast<T>(old);
}

// Fences around atomics carry knowledge from thread to thread, as in the C++ memory model.
void pass_on(Thread& t, const std::byte* p) {
  Cluster& c = cluster_of(t);
  Order::SyncPoint& point = c.atomic_point(reinterpret_cast<std::uint64_t>(p));
  Order::join(point, t.fenced);
  Order::join(t.observed, point);
  c.note_progress();
}

template <class T, class F>
T shared_update(Thread& t, std::uint32_t offset, F&& f) {
  cluster_of(t).maybe_yield(t);
  std::byte* p = shared_access(t, *t.block, offset, sizeof(T), sizeof(T), Act::atomic);
  pass_on(t, p);
  return update<T>(p, f);
}
template <class T, class F>
T global_update(Thread& t, std::uint64_t address, F&& f) {
  cluster_of(t).maybe_yield(t);
  std::byte* p = global_access(t, address, sizeof(T), sizeof(T), Act::atomic, Track::history);
  pass_on(t, p);
  return update<T>(p, f);
}

template <class T, class Op>
T shared_atomic(std::uint32_t offset, T value, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return T{};
  return shared_update<T>(enter("shared_atomic", site), offset, [&](T old) { return Op::apply(old, value); });
}
template <class T, class Op>
T global_atomic(std::uint64_t address, T value, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return T{};
  return global_update<T>(enter("global_atomic", site), address, [&](T old) { return Op::apply(old, value); });
}
template <class T>
T shared_cas(std::uint32_t offset, Passed<T> expected, Passed<T> value, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return T{};
  return shared_update<T>(enter("shared_atomic_cas", site), offset,
                          [&](T old) { return old == static_cast<T>(expected) ? static_cast<T>(value) : old; });
}
template <class T>
T global_cas(std::uint64_t address, Passed<T> expected, Passed<T> value, std::uint32_t predicate, std::uint32_t site) {
  if (!flag(predicate)) return T{};
  return global_update<T>(enter("global_atomic_cas", site), address,
                          [&](T old) { return old == static_cast<T>(expected) ? static_cast<T>(value) : old; });
}

template <class T, class Op>
void add_pair(Rows& rows, const std::string& name) {
  rows.push_back(row(("shared_atomic_" + name).c_str(), shared_atomic<T, Op>));
  rows.push_back(row(("global_atomic_" + name).c_str(), global_atomic<T, Op>));
}
template <class T>
void add_cas(Rows& rows, const std::string& element) {
  rows.push_back(row(("shared_atomic_cas." + element).c_str(), shared_cas<T>));
  rows.push_back(row(("global_atomic_cas." + element).c_str(), global_cas<T>));
  rows.push_back(row(("system_atomic_cas." + element).c_str(), global_cas<T>));
}
template <class T, class S>
void add_integer_rows(Rows& rows, const std::string& e, const std::string& u) {
  add_pair<T, Add>(rows, "add." + e);
  add_pair<T, Min<S>>(rows, "min." + e);
  add_pair<T, Min<T>>(rows, "min." + u);
  add_pair<T, Max<S>>(rows, "max." + e);
  add_pair<T, Max<T>>(rows, "max." + u);
  add_pair<T, And>(rows, "and." + e);
  add_pair<T, Or>(rows, "or." + e);
  add_pair<T, Xor>(rows, "xor." + e);
  add_pair<T, Exchange>(rows, "xchg." + e);
  add_cas<T>(rows, e);
}

}  // namespace

void add_atomic_rows(Rows& rows) {
  add_integer_rows<std::uint32_t, std::int32_t>(rows, "i32", "u32");
  add_integer_rows<std::uint64_t, std::int64_t>(rows, "i64", "u64");
  add_cas<std::uint16_t>(rows, "i16");
  add_pair<float, Add>(rows, "add.f32");
  add_pair<double, Add>(rows, "add.f64");
  add_pair<std::uint32_t, AddHalves<f16>>(rows, "add.f16x2");
  add_pair<std::uint32_t, AddHalves<bf16>>(rows, "add.bf16x2");
}

}  // namespace tileweave::runtime::simt
