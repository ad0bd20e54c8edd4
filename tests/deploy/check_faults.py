#!/usr/bin/env python3
"""What must leave nothing behind: lambdas that throw, bodies without end, every stage of a compile that fails; thousands of
cached kernels in one process, a small stack, and a warm-up that may not open a socket."""
import os
import pathlib
import resource
import shutil

import rig

a = rig.arguments()
r = rig.Rig(a)


def odd(*mode, **kw):
    return r.run(a.odd, *mode, **kw)


def entries(root):
    return sorted(pathlib.Path(root).rglob("*.entry"))


# --- R22: kernels by the thousand from a cache, a small stack, bodies without end
count = 10_000 if a.long else 500
many = r.env(TILEWEAVE_CACHE_DIR=r.dir / "many")
r.equal(r.counters(odd("cached", count, env=many, timeout=1200))["compiled"], count, "each is compiled")
again = r.counters(odd("cached", count, env=many, timeout=1200))
r.equal((again["compiled"], again["disk"]), (0, count), "each is loaded from the cache, once")
small = r.env(TILEWEAVE_CACHE_DIR=r.dir / "small")
odd("small-stack", env=small)
odd("small-stack", env=small)
print(odd("deep", env=r.env(TILEWEAVE_CACHE_DIR=r.dir / "deep")).stdout, end="")
r.equal(entries(r.dir / "deep"), [], "a refused body is not stored")

# --- one kernel warmed up with its arguments; where the compiler fails, the handle says so
odd("warms", env=r.env(TILEWEAVE_CACHE="off"))

# --- R32: a lambda that throws at each of its steps, alone and around another launch; its key is then that of a fresh process
thrown = r.env(TILEWEAVE_CACHE_DIR=r.dir / "thrown")
print("throwing:", odd("throws", env=thrown).stdout.strip())
r.equal(r.counters(odd("good", env=thrown))["compiled"], 0, "a fresh process finds what was compiled after the exceptions")

# --- R35: each stage fails; nothing is published, and the next process that can compile does
prefix = rig.prefix_with(a, r.dir / "prefix", a.broken)
shutil.copy(a.odd, prefix / a.odd.name)
for how in ("record", "compile", "internal", "empty", "cut"):
    root = r.dir / f"fails_{how}"
    env = r.env(LD_LIBRARY_PATH=prefix, TILEWEAVE_CACHE_DIR=root, BROKEN_COMPILER_REAL=a.build / "libtileweave_jit.so")
    failed = r.run(prefix / a.odd.name, "good", env=env | {"BROKEN_COMPILER_FAILS": how}, status=3)
    r.holds(failed.stderr, "error", f"{how}: an error of ours")
    r.equal(entries(root), [], f"{how}: nothing is published")
    r.equal(list((root / "v1/tmp").glob("*")), [], f"{how}: no temporary file is left")
    r.equal(r.counters(r.run(prefix / a.odd.name, "good", env=env))["compiled"], 1, f"{how}: it is compiled afterwards")

# --- R35: the assembler fails in its own ways, on a stand-in for the driver
assemblers = {"killed": "kill -9 $$", "refuses": "echo 'ptxas fatal : no' >&2; exit 255",
              "warns and writes nothing": "echo 'warning : odd'; exit 0", "writes an empty file": 'for o; do :; done; : > "$out"'}
ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
if a.sanitize or not pathlib.Path(ptxas).exists():
    print("SKIP(ptxas): no assembler is here to stand in for")
    assemblers = {}
for what, script in assemblers.items():
    bin = r.dir / ("bin_" + what.split()[-1])
    bin.mkdir()
    (bin / "ptxas").write_text(f"""#!/bin/sh
if [ "$1" = --version ]; then exec {ptxas} --version; fi
while [ $# -gt 0 ]; do if [ "$1" = -o ]; then out=$2; fi; shift; done
{script}
""")
    (bin / "ptxas").chmod(0o755)
    root = r.dir / ("root_" + what.split()[-1])
    cuda = r.env(LD_LIBRARY_PATH=a.build / "shim", TILEWEAVE_DEVICE="cuda", TILEWEAVE_ASSEMBLER="ptxas", TILEWEAVE_CACHE_DIR=root)
    failed = r.run(a.odd, "good", env=cuda | {"PATH": f"{bin}:{os.environ['PATH']}"}, status=3)
    r.holds(failed.stderr, "ptxas", f"an assembler that {what} is named")
    r.equal(entries(root), [], f"an assembler that {what}: nothing is published")
    r.run(a.odd, "good", env=cuda, status=(0, 1, 3))  # the stand-in runs nothing
    r.equal(len(entries(root)), 1, f"after an assembler that {what} the real one is asked")

# --- a warm-up needs no socket: the kernel ends it at the first call
if not a.sanitize:
    recorded, pack = r.dir / "good.rec", r.dir / "good.pack"
    r.tool("record", "-o", recorded, "--", a.odd, "good", env=r.env(TILEWEAVE_CACHE="off"))
    done = r.run(a.without_sockets, a.tool, "warmup", recorded, "--target", "x86-64-v3,sm_80", "-j", 2, "-o", pack, status=(0, 77))
    if done.returncode == 77:
        print("SKIP(seccomp): this kernel has no filters")
    else:
        r.holds(r.tool("cache", "verify", pack).stdout, "4 entries intact, 0 bad", "the pack is whole")
        r.run(a.without_sockets, shutil.which("python3"), "-c", "import socket; socket.socket()", status=-31)  # SIGSYS
        r.run(a.without_sockets, a.tool, "merge", recorded, "-o", r.dir / "merged.rec")
r.check(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 4 << 20, "no child took more than 4 GiB")
r.done()
