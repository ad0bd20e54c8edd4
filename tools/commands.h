// The subcommands of `tileweave`. Each adds itself to the command line and sets `status` to the exit code when run.
#pragma once

namespace CLI {
class App;
}

namespace tileweave::tools {

// tileweave compile FILE.tir --to=STAGE --target=TARGET [-o FILE]: any stage of any kernel.
void add_compile(CLI::App& app, int& status);
// tileweave doctor: devices, driver, assemblers, cache; what is wrong and what to do.
void add_doctor(CLI::App& app, int& status);
// tileweave reference: the op pages and the table of environment variables, as Markdown.
void add_reference(CLI::App& app, int& status);
// tileweave cache stat|ls|inspect|explain|verify|gc|clear|pack|unpack|diff.
void add_cache(CLI::App& app, int& status);
// tileweave record -o FILE -- PROGRAM ..., tileweave merge FILES -o FILE: manifests.
void add_manifest(CLI::App& app, int& status);
// tileweave warmup FILE --target LIST -o PACK: a manifest to a pack, on any machine.
void add_warmup(CLI::App& app, int& status);

// tileweave fuse FILE -o HEADER | --list: the decorator; its arguments are read by the program that it starts.
void add_fuse(CLI::App& app);
int fuse(int argc, char** argv);

}  // namespace tileweave::tools
