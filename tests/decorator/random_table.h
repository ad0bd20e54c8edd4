// One random function: as C++ compiled it, and as the decorator translated it.
#pragma once

#include <cstdint>
#include <cstring>
#include <tuple>

#include "tileweave/dsl/trace.h"

enum class Signature : std::uint8_t { ffi, ddi, iiu, uuf };

struct Random {
  const char* name;
  Signature signature;
  const tileweave::trace::Graph& (*graph)();
  std::uint64_t (*native)(const std::uint64_t* bits);
};

template <class R, class... P, std::size_t... K>
std::uint64_t call_native(R (*f)(P...), const std::uint64_t* bits, std::index_sequence<K...>) {
  std::tuple<P...> arguments;
  (std::memcpy(&std::get<K>(arguments), &bits[K], sizeof(P)), ...);
  const R r = std::apply(f, arguments);
  std::uint64_t out = 0;
  std::memcpy(&out, &r, sizeof r);
  return out;
}

#define RANDOM(seed, function, kind)                                                              \
  Random {                                                                                        \
    #function, Signature::kind,                                                                   \
        &tileweave::trace::graph_of<tileweave::trace::bodies::random_##seed##_##function##_body>, \
        [](const std::uint64_t* bits) {                                                           \
          return call_native(&random_##seed::function, bits, std::make_index_sequence<3>{});      \
        }                                                                                         \
  }
