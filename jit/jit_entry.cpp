// libtileweave_jit's exported function: text in, bytes out, every exception turned into a status.
// The other side of the boundary is jit_library.cpp. See jit_entry.h.
#include "tileweave/jit/jit_entry.h"

#include <exception>
#include <string>

#include "tileweave/jit/base/binary.h"
#include "tileweave/jit/compile.h"
#include "tileweave_codegen_id.h"

namespace {
using namespace tileweave;

int give(tileweave_jit_sink sink, void* user, int status, const Diagnostic& d) {
  const auto bytes = serialize(d);
  sink(user, bytes.data(), bytes.size());
  return status;
}

Diagnostic different_builds(const char* other) {
  return {{},
          std::string("libtileweave and libtileweave_jit are of different builds: ") + other + " and " +
              TILEWEAVE_CODEGEN_ID,
          {},
          {},
          "install both libraries from one build"};
}
}  // namespace

int tileweave_jit_compile(const char* codegen_id, const char* text, std::size_t text_bytes, const char* target,
                          tileweave_jit_sink sink, tileweave_jit_observer observer, void* user) {
  try {
    if (std::string_view(codegen_id) != TILEWEAVE_CODEGEN_ID)
      return give(sink, user, tileweave_jit_compile_error, different_builds(codegen_id));
    jit::StageObserver observe;
    if (observer)
      observe = [&](std::string_view stage, const std::string& body) {
        observer(user, stage.data(), stage.size(), body.data(), body.size());
      };
    const auto bytes = serialize(jit::compile(ir::parse(std::string_view(text, text_bytes)), target, observe));
    sink(user, bytes.data(), bytes.size());
    return tileweave_jit_done;
  } catch (const RecordError& e) {
    return give(sink, user, tileweave_jit_record_error, e.diagnostic());
  } catch (const CompileError& e) {
    return give(sink, user, tileweave_jit_compile_error, e.diagnostic());
  } catch (const Error& e) {
    return give(sink, user, tileweave_jit_internal_error, e.diagnostic());
  } catch (const std::exception& e) {
    return give(sink, user, tileweave_jit_internal_error, {{}, e.what(), {}, {}, {}});
  }
}
