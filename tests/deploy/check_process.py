#!/usr/bin/env python3
"""What goes wrong in a process: threads at the first compile, forks, exits, plugins, another LLVM, growth, and error
messages that a warm cache must not change."""
import glob
import re
import subprocess

import rig

a = rig.arguments()
r = rig.Rig(a)

# --- R20: many threads meet at the first compile of a fresh process
for i in range(200 if a.long else 3):
    out = r.counters(r.app("--threads=64", env=r.env(TILEWEAVE_CACHE="off")))
    r.equal(out["compiled"], 4, "one compile for each kernel")
    r.equal(out["lookups"], out["sum"], "the counters add up")

# --- R31: forks while eight threads compile, and in the first moments of a process
forked = r.app(f"--forks={1000 if a.long else 20}", env=r.env(TILEWEAVE_CACHE_DIR=r.dir / "forks"), timeout=3000)
r.equal(forked.stderr, "", "forked children compile")
for i in range(100 if a.long else 5):
    early = r.app("--forks=2", env=r.env(TILEWEAVE_CACHE_DIR=r.dir / f"early{i}"))
    r.equal(early.stderr, "", "children forked in a process's first moments compile")

# --- R26: kernels in globals, statics, thread_locals and leaked ones, and every way to end; a warm and a cold process
for how in ("return", "exit", "quick_exit", "_exit"):
    for cache in ("rw", "off"):
        for meanwhile in ("wait", "generic"):
            out = r.app("--layouts=all", f"--exit={how}", status=7,
                        env=r.env(TILEWEAVE_CACHE=cache, TILEWEAVE_CACHE_DIR=r.dir / "exits", TILEWEAVE_MEANWHILE=meanwhile))
            r.equal(out.stderr, "", f"ending by {how} with the cache {cache} is silent")
for cache in ("rw", "off"):
    out = r.run(a.plugin_host, a.plugin, status=7, env=r.env(TILEWEAVE_CACHE=cache, TILEWEAVE_CACHE_DIR=r.dir / "plugin"))
    r.equal((out.stdout, out.stderr), ("", ""), "a library with kernels is opened and closed")

# --- another LLVM in the process, both orders
others = sorted(glob.glob("/usr/lib/llvm-*/lib/libLLVM-*.so"))
others = [o for o in others if re.search(r"libLLVM-\d+\.so$", o)]
if not others or a.sanitize:
    print("SKIP(llvm): no other LLVM is here to be loaded")
for library in [] if a.sanitize else others:
    for order in ("first", "second"):
        out = r.run(a.other_llvm, library, order, env=r.env(TILEWEAVE_CACHE="off"))
        r.equal((out.stdout, out.stderr), ("both work\n", ""), f"{library} {order}")

# --- R25, case 47: distinct kernels, compiled, run and dropped
if not a.sanitize:
    count = 100_000 if a.long else 2_000
    out = r.app(f"--distinct={count}", env=r.env(TILEWEAVE_CACHE="off"), timeout=3000).stdout
    kept = float(re.search(r"bytes_kept_each=(-?[0-9.]+)", out).group(1))
    print(f"{count} distinct kernels: {kept} bytes kept of each after the first {min(count // 2, 1000)}")
    r.check(kept < 64, f"distinct kernels keep {kept} bytes each")

# --- R19: the errors of a warm cache are those of a cold one
suite = a.build / "tests/errors/tileweave_errors"
if suite.exists() and not a.sanitize:
    texts = []
    for _ in range(2):
        out = subprocess.run([suite, "--no-version"], env=r.env(TILEWEAVE_CACHE_DIR=r.dir / "errors"), capture_output=True, text=True)
        texts.append((out.returncode, out.stdout, out.stderr))
    r.equal(texts[0], texts[1], "the error suite says the same twice on one cache")
r.done()
