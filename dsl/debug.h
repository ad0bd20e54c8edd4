// device_print and device_assert in kernels; static_print and static_check while a kernel is recorded.
// Over tile.h; the same lines come out on every device, with the user's place.
#pragma once

#include <string>
#include <string_view>

#include "tileweave/dsl/const.h"
#include "tileweave/dsl/tile.h"

namespace tileweave {

// Prints one line for each program that comes here: "<file>:<line>: <kernel>[<program>] <label>: v0 v1 ...", row by
// row, to standard output; lanes that are not valid print as 0. The program is numbered x + nx * (y + ny * z). On a
// GPU the lines appear when the host next waits for the stream. Cost: large; for debugging.
template <Operand E>
  requires(rank_v<E> >= 0)
void device_print(std::string_view label, const E& e, const Place& p = std::source_location::current()) {
  record::device_print(label, record_as(e, dtype_of<elem_t<E>>, p), p);
}

// Where the condition is false in a valid lane, the launch ends with a LaunchError at this place that gives the
// message and the program (the lowest one that failed). The program itself goes on. On a GPU the error comes when the
// host next waits for the stream. Always on.
template <Node C>
  requires(std::same_as<elem_t<C>, bool>)
void device_assert(const C& condition, std::string_view message = "the condition does not hold",
                   const Place& p = std::source_location::current()) {
  record::device_assert(record_node(condition, p), message, p);
}
template <Node C>
  requires(!std::same_as<elem_t<C>, bool>)
TILEWEAVE_REFUSED("device_assert: the condition is a bool tile or scalar: compare the value")
void device_assert(const C&, std::string_view = {});

// Checks a C++ condition while the kernel is recorded (extents and tw::Const values are C++ numbers): a RecordError
// with the message where it is false.
inline void static_check(bool condition, std::string_view message, const Place& p = std::source_location::current()) {
  if (!condition) record::static_check_failed(message, p);
}
template <Node C>
TILEWEAVE_REFUSED("static_check: the condition is known only when the kernel runs: use tw::device_assert")
void static_check(const C&, std::string_view = {});

// Prints "<file>:<line>: <kernel>: <text>" to standard error while the kernel is recorded: once for each variant.
inline void static_print(std::string_view text, const Place& p = std::source_location::current()) {
  record::static_print(text, p);
}
// The same with a value that C++ knows, or the type and extents of a tile.
template <class T>
  requires(std::is_arithmetic_v<T>)
void static_print(std::string_view label, T value, const Place& p = std::source_location::current()) {
  record::static_print(std::string(label) + " = " + std::to_string(value), p);
}
template <class T>
  requires(std::is_arithmetic_v<T>)
void static_print(std::string_view label, const Const<T>& value, const Place& p = std::source_location::current()) {
  static_print(label, static_cast<T>(value), p);
}
template <Node E>
  requires(rank_v<E> >= 0)
void static_print(std::string_view label, const E& e, const Place& p = std::source_location::current()) {
  record::static_print_type(label, record_as(e, dtype_of<elem_t<E>>, p), p);
}

}  // namespace tileweave
