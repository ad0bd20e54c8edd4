#!/usr/bin/env python3
"""A sealed deployment: libtileweave_jit absent, a read-only pack, TILEWEAVE_JIT=forbid. Everything hits, also layouts
that nobody recorded; what misses says so by name; and the counters prove it."""
import os
import re
import shutil
import subprocess

import rig

a = rig.arguments()
r = rig.Rig(a)
recorded, pack = r.dir / "app.rec", r.dir / "kernels.pack"
r.tool("record", "-o", recorded, "--", a.app, env=r.env(TILEWEAVE_CACHE="off"))
warmed = r.tool("warmup", recorded, "--target", "native", "-o", pack).stdout
digest = re.search(r"sha256 ([0-9a-f]{64})", warmed).group(1)
sealed = rig.prefix_with(a, r.dir / "sealed", None)
env = r.env(LD_LIBRARY_PATH=sealed, TILEWEAVE_CACHE="ro", TILEWEAVE_JIT="forbid", HOME="/nonexistent",
            TILEWEAVE_CACHE_LAYERS=f"{pack}@sha256:{digest}")
app = sealed / a.app.name


def run(*options, status=0, **more):
    return r.run(app, *options, status=status, env=env | {k: str(v) for k, v in more.items()})


# --- hits only, for what was recorded and for every other layout of it
done = run("--expect=compiled:0,failed:0,disk:0,layer:3")
r.equal(done.stderr, "", "a sealed run is silent")
everything = run("--layouts=all", "--expect=compiled:0,disk:0")
r.equal(everything.stderr, "", "layouts that nobody recorded run the generic variants")
libraries = subprocess.run(["ldd", app], env=env, capture_output=True, text=True).stdout
r.check("LLVM" not in libraries and str(sealed) in libraries, f"the program is the sealed copy, without LLVM: {libraries}")

# --- not one call that could write, and at most three tries
if shutil.which("strace") and not a.sanitize:
    log = r.dir / "strace"
    r.run("strace", "-f", "-qq", "-e", "trace=%file,write", "-o", log, app, env=env)
    text = log.read_text(errors="replace")
    ours = [l for l in text.splitlines() if re.search(r"O_WRONLY|O_RDWR|O_CREAT|mkdir|unlink|rename|link(at)?\(", l)]
    ours = [l for l in ours if "/proc/" not in l and "/sys/" not in l and "readlink" not in l]
    r.equal(ours, [], "no write-type call on the file system")

# --- a user without rights, in an image that cannot be written
if os.geteuid() == 0 and shutil.which("setpriv") and not a.sanitize:
    for path in (r.dir, sealed):
        path.chmod(0o755)
    for f in (pack, *sealed.iterdir()):
        f.chmod(0o755)
    out = r.run("setpriv", "--reuid=41003", "--regid=41003", "--clear-groups", app, "--layouts=all", "--expect=compiled:0",
                env=env)
    r.equal(out.stderr, "", "another user runs root's pack")

# --- what is not there is named, with the first fact or option that differs
other = r.dir / "other.rec"
miss = run(TILEWEAVE_CACHE_LAYERS="", status=3).stderr
r.holds(miss, "kernel 'scale' is not in the cache, and TILEWEAVE_JIT=forbid: no variant of it is cached", "an empty cache")
debugged = run(TILEWEAVE_DEBUG="lines", status=3).stderr
r.holds(debugged, "kernel 'scale' is not in the cache", "another option misses")
r.holds(debugged, "differs in 'option debug': 1 here, 0 there", "the option that differs is named")
bare = r.dir / "bare.pack"
r.tool("warmup", recorded, "--target", "native", "--no-generic", "-o", bare)
fact = run("--layouts=all", TILEWEAVE_CACHE_LAYERS=bare, status=3).stderr
r.check(re.search(r"differs in 'argument \d (aligned_base|unit_stride|aligned_stride)': ", fact) is not None,
        f"without generic variants the first fact that differs is named: {fact}")
r.holds(fact, "tileweave warmup", "and what to do")
allowed = run(TILEWEAVE_CACHE_LAYERS="", TILEWEAVE_JIT="allow", status=3).stderr
r.holds(allowed, "is not in the cache and the compiler cannot be loaded", "without the library a miss says what is missing")

# --- a pack that was changed, or is of another build
changed = r.dir / "changed.pack"
changed.write_bytes(pack.read_bytes()[:-40] + b"\0" + pack.read_bytes()[-39:])
refused = run(TILEWEAVE_CACHE_LAYERS=f"{changed}@sha256:{digest}", status=3).stderr
r.holds(refused, "layer ignored", "a changed pack is refused")
r.tool("warmup", recorded, "--target", "sm_80", "-o", r.dir / "gpu.pack")
quiet = r.run(a.app, env=r.env(TILEWEAVE_CACHE_LAYERS=r.dir / "gpu.pack", TILEWEAVE_CACHE_DIR=r.dir / "c"))
r.equal(quiet.stderr, "", "a pack for other devices is no mistake")

# --- a lesser level's code serves where the exact CPU's is not there
lesser = r.dir / "lesser.pack"
r.tool("warmup", recorded, "--target", "x86-64-v2", "-o", lesser)
run("--layouts=all", "--expect=compiled:0", TILEWEAVE_CACHE_LAYERS=lesser)
both = run("--expect=compiled:0,layer:3", TILEWEAVE_CACHE_LAYERS=f"{lesser}:{pack}")
mixed = r.run(a.app, "--expect=compiled:0,layer:3", env=r.env(TILEWEAVE_CACHE_LAYERS=lesser, TILEWEAVE_CACHE_DIR=r.dir / "d"))

# --- a root that is shipped instead of a pack
r.tool("cache", "unpack", pack, env=r.env(TILEWEAVE_CACHE_DIR=r.dir / "root"))
run("--layouts=all", "--expect=compiled:0,layer:0", TILEWEAVE_CACHE_LAYERS="", TILEWEAVE_CACHE_DIR=r.dir / "root")

# --- warming while the program runs, and launches that do not wait
for how in ("wait", "generic", "cpu"):
    cold = r.env(TILEWEAVE_CACHE_DIR=r.dir / f"warm_{how}", TILEWEAVE_MEANWHILE=how)
    out = r.app(f"--warm={recorded}", env=cold)
    again = r.counters(r.app("--expect=compiled:0", env=cold))
    r.check(again["disk"] == 3, f"what was warmed ({how}) is on disk for the next process: {again}")
lazy = r.env(TILEWEAVE_CACHE_DIR=r.dir / "lazy", TILEWEAVE_MEANWHILE="generic")
for _ in range(2):  # its background compiles may still run when it ends, so its counters are not asked for
    r.equal(r.app("--layouts=all", "--exit=return", status=7, env=lazy).stderr, "", "launches that do not wait are right")
run("--warm=" + str(recorded), "--expect=compiled:0", TILEWEAVE_MEANWHILE="generic")

# --- the CPU stands in for a GPU whose code is not ready: on a stand-in for the driver, whose kernels compute nothing, so
# that every right result is the CPU's
slow = rig.prefix_with(a, r.dir / "slow", a.broken)
gpu = r.env(LD_LIBRARY_PATH=f"{slow}:{a.build / 'shim'}", BROKEN_COMPILER_REAL=a.build / "libtileweave_jit.so",
            BROKEN_COMPILER_SLOW=1, TILEWEAVE_DEVICE="cuda", TILEWEAVE_ASSEMBLER="driver", TILEWEAVE_MEANWHILE="cpu",
            TILEWEAVE_CACHE_DIR=r.dir / "gpu")
out = r.run(slow / a.app.name, "--layouts=recorded", "--exit=return", status=7, env=gpu)  # compiles may still run at its end
r.equal(out.stderr, "", "launches on a GPU run on the CPU meanwhile")
r.done()
