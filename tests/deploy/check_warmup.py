#!/usr/bin/env python3
"""`tileweave warmup`: any targets on this machine, equal bytes, one bad record costs one record, and nothing else is
written, opened or connected to."""
import os
import pathlib
import re
import shutil
import time

import rig

a = rig.arguments()
r = rig.Rig(a)
tool = a.tool
recorded = r.dir / "app.rec"
r.tool("record", "-o", recorded, "--", a.app, env=r.env(TILEWEAVE_CACHE="off"))


def warm(*command, **kw):
    return r.tool("warmup", *command, **kw)


# --- any targets, without a GPU or a driver; the generic variants come along
pack = r.dir / "all.pack"
gpu = ["sm_80", "sm_90a"]
out = warm(recorded, "--target", ",".join(gpu + ["native", "x86-64-v3"]), "-o", pack, "-j", 2).stdout
counts = [int(n) for n in re.findall(r"\d+", out.splitlines()[0])]
r.equal(counts[0], counts[1], f"everything compiles: {out}")
r.check(counts[0] == 4 * 6 and counts[2] == 3, f"three kernels, recorded and generic, for four targets: {out}")
inspected = r.tool("cache", "inspect", pack).stdout
for target in gpu + ["x86-64-v3", "x86-64:"]:
    r.holds(inspected, f"target {target}", "the pack has every target")
r.equal(r.tool("cache", "verify", pack).stdout, f"{counts[0]} entries intact, 0 bad\n", "the pack is whole")
few = warm(recorded, "--target", "x86-64-v3", "--no-generic", "-o", r.dir / "few.pack").stdout
r.holds(few, "3 of 3 variants", "--no-generic leaves the generic variants out")

# --- the same bytes, whatever the number of processes, the directory, the environment and the order of the records
one, two = r.dir / "one.pack", r.dir / "elsewhere"
two.mkdir()
two = two / "two.pack"
reverse = r.dir / "reverse.rec"
r.tool("merge", recorded, recorded, "-o", reverse)
warm(recorded, "--target", "x86-64-v3,x86-64-v2", "-o", one, "-j", 1)
warm(reverse, recorded, "--target", "x86-64-v2,x86-64-v3", "-o", two, "-j", 3,
     env=r.env(LC_ALL="C.UTF-8", PADDING="x" * 3000, HOME="/nonexistent"), cwd=two.parent)
r.equal(two.read_bytes(), one.read_bytes(), "packs of one manifest are byte-identical")

# --- it writes its output and nothing else, opens no GPU and no connection
if shutil.which("strace") and not a.sanitize:
    log = r.dir / "strace"
    before = sorted(p for p in r.dir.rglob("*"))
    r.run("strace", "-f", "-qq", "-e", "trace=openat,open,creat,mkdir,mkdirat,unlink,rename,socket,connect", "-o", log, tool,
          "warmup", recorded, "--target", "x86-64-v3", "-o", r.dir / "traced.pack")
    text = log.read_text(errors="replace")
    written = {m for m in re.findall(r'"([^"]*)", [^)]*(?:O_WRONLY|O_RDWR|O_CREAT)', text)}
    strange = {w for w in written if "traced.pack" not in w and w != "/dev/null"}
    r.equal(strange, set(), "only the output is opened for writing")
    r.check("socket(" not in text and "connect(" not in text, "no socket is opened")
    r.check("libcuda.so" not in text and "/dev/nvidia" not in text, "no driver and no GPU is looked for")
    after = sorted(p for p in r.dir.rglob("*"))
    r.equal(set(after) - set(before), {log, r.dir / "traced.pack"}, "nothing else is left")

# --- bad records: each costs itself, is named, and the exit status says "some"
good = [("good_a", rig.kernel("good_a", 1)), ("good_b", rig.kernel("good_b", 2)), ("good_c", rig.kernel("good_c", 3))]
seconds = 3
hostile = {"crash": "signal", "abort": "LLVM ERROR: on purpose", "quit": "exit status 0", "hang": f"after {seconds} s",
           "steps": f"after {seconds} s"}
if not a.sanitize:
    hostile["hungry"] = "memory"  # under a sanitizer there is no limit of address space
bad_ir = {"nonsense": "this is no tile IR", "unknown": 'func "unknown"() {\n  %0 = levitate : f32\n}\n'}
records = good + [(n, rig.kernel(n, 9)) for n in hostile] + list(bad_ir.items())
bad = r.dir / "bad.rec"
bad.write_bytes(rig.manifest(*records))
prefix = rig.prefix_with(a, r.dir / "prefix", a.broken)
broken_env = r.env(LD_LIBRARY_PATH=prefix, BROKEN_COMPILER_REAL=a.build / "libtileweave_jit.so")


def warm_broken(manifest, name, status):
    return r.run(prefix / tool.name, "warmup", manifest, "--target", "x86-64-v3", "--timeout", seconds, "--memory", 1024,
                 "-j", 2, "--no-generic", "-o", r.dir / name, "--progress", "always", status=status, env=broken_env)


start = time.monotonic()
done = warm_broken(bad, "some.pack", 3)
took = time.monotonic() - start
for name, why in hostile.items():
    line = next((l for l in done.stderr.splitlines() if f"failed: kernel '{name}'" in l), "")
    r.holds(line, why, f"the record '{name}' fails with its reason")
for name in bad_ir:
    r.holds(done.stderr, f"failed: kernel '{name}'", "records that are no kernels are named")
r.holds(done.stdout, f"{len(good)} of {len(records)} variants", "the others are compiled")
r.holds(done.stderr, f"{len(records)}/{len(records)}", "the progress bar reaches the end")
r.check(took < 60 + 2 * seconds, f"two hanging records cost no more than their time limit: {took:.0f} s")
listed = r.tool("cache", "verify", r.dir / "some.pack").stdout
r.equal(listed, f"{len(good)} entries intact, 0 bad\n", "the pack has the good ones")
only_good = r.dir / "good.rec"
only_good.write_bytes(rig.manifest(*good))
warm_broken(only_good, "good.pack", 0)
r.equal((r.dir / "good.pack").read_bytes(), (r.dir / "some.pack").read_bytes(), "bad records change nothing else")
for child in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        left = (child / "cmdline").read_bytes().startswith(str(prefix).encode())
    except OSError:
        left = False
    r.check(not left, f"no process is left: {child}")

# --- exit statuses are told apart
none = r.dir / "none.rec"
none.write_bytes(rig.manifest(("crash", rig.kernel("crash"))))
warm_broken(none, "none.pack", 1)
r.check(not (r.dir / "none.pack").exists(), "where nothing compiles nothing is written")
empty = r.dir / "empty.rec"
empty.write_bytes(rig.manifest())
for words, why in (([empty, "--target", "native"], "no records"), ([r.dir / "no.rec", "--target", "native"], "cannot read"),
                   ([tool, "--target", "native"], "not a manifest"), ([recorded, "--target", "sm_12"], "no target"),
                   ([recorded, "--target", ""], "target")):
    r.holds(warm(*words, "-o", r.dir / "x.pack", status=2).stderr, why, "a call that cannot work says why")
for words, why in ((["--timeout", "-5"], "--timeout"), (["--timeout", "0"], "--timeout"), (["--memory", "9" * 20], "--memory"),
                   (["-j", "-3"], "--processes"), (["--bogus"], "--bogus")):
    r.holds(warm(only_good, "--target", "x86-64-v3", *words, "-o", r.dir / "x.pack", status=2).stderr, why,
            "a limit or an option that means nothing is refused by name")
refused = warm(only_good, "--target", "x86-64-v3", "--no-generic", "-o", "/nonexistent/x.pack", status=2)
r.holds(refused.stderr, "cannot write", "an output that cannot be written is a failure of the call")

# --- an output that is no file stays what it is
pipe = r.dir / "pipe"
os.mkfifo(pipe)
refused = warm(only_good, "--target", "x86-64-v3", "--no-generic", "-o", pipe, status=2)
r.holds(refused.stderr, "not a regular file", "a pipe or device is not replaced by a pack")
r.check(pipe.is_fifo(), "the pipe is still a pipe")

# --- hostile manifests: bounded, and an error or a failed record, never a crash
for name, text in (("deep", "x(" * 500000), ("long", 'func "long"() {\n' + "  %0 = program_id {axis = 0} : i64\n" * 20000 + "}\n"),
                   ("names", 'func "' + "n" * 100000 + '"() {\n}\n')):
    odd = r.dir / f"{name}.rec"
    odd.write_bytes(rig.manifest((name, text)))
    start = time.monotonic()
    warm(odd, "--target", "x86-64-v3", "-o", r.dir / "odd.pack", status=(0, 1))
    r.check(time.monotonic() - start < 30, f"the manifest '{name}' is over quickly")

if not shutil.which("ptxas") and not pathlib.Path("/usr/local/cuda/bin/ptxas").exists():
    print("SKIP(ptxas): the GPU targets were warmed as PTX")
r.done()
