// Atomics on views and pointer tiles: add, min, max, and, or, xor, exchange, compare-and-exchange; one operation a
// valid lane, each in one step that no other program can come between.
// Over memory.h. They give the old values.
#pragma once

#include "tileweave/dsl/memory.h"

namespace tileweave {

// What other accesses of the program a lane's operation is ordered with, as C++ memory orders of the same names.
enum class MemoryOrder : std::uint8_t { relaxed, acquire, release, acq_rel };
// Who sees the operation as one step: the programs of one block (no gain on the CPU), of the device, or also the host
// and other devices that share the memory.
enum class MemoryScope : std::uint8_t { block, device, system };

template <int R>
struct AtomicOptions {
  Mask<R> mask = {};
  MemoryOrder order = MemoryOrder::relaxed;
  MemoryScope scope = MemoryScope::device;
};

namespace detail {

template <int R>
record::AtomicRequest atomic_request(const AtomicOptions<R>& o) {
  constexpr std::string_view orders[] = {"relaxed", "acquire", "release", "acq_rel"};
  constexpr std::string_view scopes[] = {"block", "device", "system"};
  return {o.mask.raw(), orders[static_cast<int>(o.order)], scopes[static_cast<int>(o.scope)]};
}

// Values convert to the memory's type; a scalar goes to every lane.
template <class T, class E, int R>
concept AtomicValue = !std::is_const_v<T> && ConvertsTo<E, canonical_t<T>> && rank_v<E> <= R;

}  // namespace detail

// The forms of one operation: through pointers, and on the block of a view at `offsets` that has the value's extents
// (lanes outside the view are left out).
#define TILEWEAVE_ATOMIC(name, combine, types)                                                                       \
  template <class T, int R, Operand E>                                                                               \
    requires detail::AtomicValue<T, E, R> && types<canonical_t<T>>                                                   \
  Tile<canonical_t<T>, R> name(const PtrTile<T, R>& pointers, const E& value,                                        \
                               std::type_identity_t<AtomicOptions<R>> options = {},                                  \
                               const Place& p = std::source_location::current()) {                                   \
    return Tile<canonical_t<T>, R>(record::atomic_rmw(pointers.raw(), record_as(value, dtype_of<canonical_t<T>>, p), \
                                                      combine, detail::atomic_request(options), p));                 \
  }                                                                                                                  \
  template <class T, int R, Operand E>                                                                               \
    requires detail::AtomicValue<T, E, R> && types<canonical_t<T>>                                                   \
  Tile<canonical_t<T>, R> name(View<T, R> view, std::type_identity_t<Index<R>> offsets, const E& value,              \
                               std::type_identity_t<AtomicOptions<R>> options = {},                                  \
                               const Place& p = std::source_location::current()) {                                   \
    const record::Raw x = record_as(value, dtype_of<canonical_t<T>>, p);                                             \
    return Tile<canonical_t<T>, R>(record::atomic_rmw(record::block_pointers(view.raw(), offsets.raw(), x, p), x,    \
                                                      combine, detail::atomic_request(options), p));                 \
  }                                                                                                                  \
  template <class T, int R, Operand E>                                                                               \
    requires(!types<canonical_t<std::remove_const_t<T>>>)                                                            \
  TILEWEAVE_REFUSED(#name ": not for this element type")                                                             \
  void name(const PtrTile<T, R>&, const E&);                                                                         \
  template <class T, int R, Operand E>                                                                               \
    requires(!types<canonical_t<std::remove_const_t<T>>>)                                                            \
  TILEWEAVE_REFUSED(#name ": not for this element type")                                                             \
  void name(View<T, R>, AnyList, const E&);                                                                          \
  template <class T, int R, Operand E>                                                                               \
    requires std::is_const_v<T>                                                                                      \
  TILEWEAVE_REFUSED(#name " writes: declare the parameter without const")                                            \
  void name(View<T, R>, AnyList, const E&)

// memory + value; integers wrap, f16, bf16 and fp8 are added in f32 and rounded once. The order of additions is not
// fixed, so a sum of floats may differ from run to run.
TILEWEAVE_ATOMIC(atomic_add, "sum", NumberElem);
// The lesser, or greater, of memory and value; a NaN wins, -0 is less than +0.
TILEWEAVE_ATOMIC(atomic_min, "min", NumberElem);
TILEWEAVE_ATOMIC(atomic_max, "max", NumberElem);
TILEWEAVE_ATOMIC(atomic_and, "and", IntElem);
TILEWEAVE_ATOMIC(atomic_or, "or", IntElem);
TILEWEAVE_ATOMIC(atomic_xor, "xor", IntElem);
// The value.
TILEWEAVE_ATOMIC(atomic_xchg, "xchg", ElementType);
#undef TILEWEAVE_ATOMIC

// Where memory has the bits of `expected`, puts `value` there. Gives the old values: equal to `expected` where it was
// done.
template <class T, int R, Operand X, Operand E>
  requires detail::AtomicValue<T, E, R> && detail::AtomicValue<T, X, R>
Tile<canonical_t<T>, R> atomic_cas(const PtrTile<T, R>& pointers, const X& expected, const E& value,
                                   std::type_identity_t<AtomicOptions<R>> options = {},
                                   const Place& p = std::source_location::current()) {
  constexpr Dtype t = dtype_of<canonical_t<T>>;
  return Tile<canonical_t<T>, R>(record::atomic_cas(pointers.raw(), record_as(expected, t, p), record_as(value, t, p),
                                                    detail::atomic_request(options), p));
}
template <class T, int R, Operand X, Operand E>
  requires detail::AtomicValue<T, E, R> && detail::AtomicValue<T, X, R>
Tile<canonical_t<T>, R> atomic_cas(View<T, R> view, std::type_identity_t<Index<R>> offsets, const X& expected,
                                   const E& value, std::type_identity_t<AtomicOptions<R>> options = {},
                                   const Place& p = std::source_location::current()) {
  constexpr Dtype t = dtype_of<canonical_t<T>>;
  const record::Raw x = record_as(value, t, p);
  return Tile<canonical_t<T>, R>(record::atomic_cas(record::block_pointers(view.raw(), offsets.raw(), x, p),
                                                    record_as(expected, t, p), x, detail::atomic_request(options), p));
}

}  // namespace tileweave
