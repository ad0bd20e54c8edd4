// The `tileweave` command: one subcommand per file, each declared in commands.h.
// Outside the library: for people at a shell, build systems and deployments.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <string_view>

#include "commands.h"
#include "tileweave/jit/base/error.h"

int main(int argc, char** argv) {
  // Everything after `fuse` is for the decorator's own program.
  if (argc > 1 && std::string_view(argv[1]) == "fuse") return tileweave::tools::fuse(argc - 2, argv + 2);
  CLI::App app("tileweave: compile, inspect and look after tile kernels");
  app.require_subcommand(1);
  int status = 0;
  tileweave::tools::add_compile(app, status);
  tileweave::tools::add_doctor(app, status);
  tileweave::tools::add_reference(app, status);
  tileweave::tools::add_cache(app, status);
  tileweave::tools::add_fuse(app);
  tileweave::tools::add_manifest(app, status);
  tileweave::tools::add_warmup(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;  // --help, or a call that nothing was tried for
  } catch (const tileweave::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
  return status;
}
