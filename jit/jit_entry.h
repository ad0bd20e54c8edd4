// The one C function that libtileweave_jit exports: the boundary between the library without LLVM and the one with it.
// Called by jit_library.cpp, defined in jit_entry.cpp; both sides are built from the same sources (checked by codegen
// id).
#pragma once

#include <cstddef>

extern "C" {

// Receives bytes that live only during the call.
using tileweave_jit_sink = void (*)(void* user, const void* data, std::size_t bytes);
// Receives a stage's name and text while TILEWEAVE_DUMP is set; may be null.
using tileweave_jit_observer = void (*)(void* user, const char* stage, std::size_t stage_bytes, const char* text,
                                        std::size_t text_bytes);

enum tileweave_jit_status {
  tileweave_jit_done = 0,
  tileweave_jit_record_error = 1,   // the user's kernel is wrong
  tileweave_jit_compile_error = 2,  // this target or assembler cannot take it
  tileweave_jit_internal_error = 3  // our mistake
};

// Compiles tile IR text (readable form, Stage::recorded) for `target`. Gives `sink` a serialised Binary, or where the
// status is an error a serialised Diagnostic (jit/base/binary.h). Never throws, never ends the process.
// Weak, so that libtileweave can ask whether the program has linked it in.
__attribute__((visibility("default"), weak)) int tileweave_jit_compile(const char* codegen_id, const char* text,
                                                                       std::size_t text_bytes, const char* target,
                                                                       tileweave_jit_sink sink,
                                                                       tileweave_jit_observer observer, void* user);
}
