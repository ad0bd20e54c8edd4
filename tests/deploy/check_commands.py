#!/usr/bin/env python3
"""record, merge, and every `tileweave cache` and `tileweave doctor` command on caches in every condition."""
import json
import os
import socket
import pathlib

import rig

a = rig.arguments()
r = rig.Rig(a)
root = r.dir / "cache"
env = r.env(TILEWEAVE_CACHE_DIR=root)


def cache(*command, **kw):
    return r.tool("cache", *command, **{"env": env, **kw})


# --- a second process hits what the first stored
first, second = r.counters(r.app(env=env)), r.counters(r.app(env=env))
r.check(first["compiled"] > 0 and first["stored"] == first["compiled"], f"the first run compiles and stores: {first}")
r.check(second["compiled"] == 0 and second["disk"] == first["compiled"], f"the second run hits: {second}")
kernels = first["compiled"]

# --- looking
stat = cache("stat").stdout
r.holds(stat, f"{kernels} entries", "stat counts")
r.holds(stat, "locks work", "stat tries the locks")
as_json = json.loads(cache("stat", "--json").stdout)
r.equal(as_json["entries"], kernels, "stat --json")
r.equal(len(as_json["profiles"]), 1, "one profile")
r.check(as_json["profiles"][0]["target"].startswith("x86-64:"), "the profile's target is whole")
lines = cache("ls").stdout.splitlines()
r.equal(len(lines), kernels, "ls lists")
r.equal(cache("verify").stdout, f"{kernels} entries intact, 0 bad\n", "verify")
address = next(l.split()[0] for l in lines if " power " in l)
explained = cache("explain", address[:12]).stdout
r.holds(explained, "option warps", "explain shows the options")
r.holds(explained, "argument 1 aligned_base", "explain shows the facts")
cache("explain", "0" * 32, status=1)
entry = next(root.rglob("*.entry"))
r.holds(cache("inspect", entry).stdout, "key: llvm", "inspect shows the key")

# --- variants of one kernel are told apart by what differs
r.app("--layouts=all", env=env)
scales = [l.split()[0] for l in cache("ls").stdout.splitlines() if " scale " in l]
r.check(len(scales) > 1, "several variants of scale")
r.holds(cache("explain", scales[0]).stdout, "differs in\n  argument", "explain names the facts that differ")

# --- packs
pack, half = r.dir / "all.pack", r.dir / "half.pack"
r.holds(cache("pack", "-o", pack).stdout, "sha256", "pack says its digest")
r.holds(cache("inspect", pack).stdout, "digest", "inspect reads packs")
r.holds(cache("verify", pack).stdout, "0 bad", "verify reads packs")
total = len(cache("ls").stdout.splitlines())
plain = sum(f.stat().st_size for f in root.rglob("*.entry"))
r.check(pack.stat().st_size < plain * 0.8, f"a pack is compressed: {pack.stat().st_size} of {plain} bytes")
other = r.env(TILEWEAVE_CACHE_DIR=r.dir / "other")
r.equal(cache("diff", pack, root, status=0).stdout, "", "a pack and its root are equal")
r.holds(cache("unpack", pack, env=other).stdout, f"{total} entries stored", "unpack")
r.equal(cache("diff", root, r.dir / "other").stdout, "", "unpacked is equal")
unpacked = r.app("--layouts=all", "--expect=compiled:0", env=other)
cache("pack", "-o", r.dir / "again.pack", env=other)
r.equal((r.dir / "again.pack").read_bytes(), pack.read_bytes(), "packing what was unpacked gives the same bytes")
victim = next((r.dir / "other").rglob("*.entry"))
victim.unlink()
difference = cache("diff", root, r.dir / "other", status=1).stdout
r.check(len(difference.splitlines()) == 1 and difference.startswith("- "), f"diff names what is missing: {difference}")
cache("pack", pack, r.dir / "other", "-o", half)
r.equal(half.read_bytes(), pack.read_bytes(), "a pack of a pack and a part of it is the pack")
cache("pack", r.dir / "nothing", "-o", half, status=1)
bad = r.dir / "bad.pack"
bad.write_bytes(pack.read_bytes()[:-1])
r.holds(cache("inspect", bad, status=1).stderr, "cut short", "a cut pack is named")
cache("unpack", bad, status=1, env=other)

# --- recording and merging
recordings = r.dir / "recordings"
for layouts in ("recorded", "all", "all"):
    r.app(f"--layouts={layouts}", env=env | {"TILEWEAVE_RECORD": str(recordings)})
files = sorted(recordings.glob("*.rec"))
r.equal(len(files), 3, "one file for each process")
merged, single = r.dir / "merged.rec", r.dir / "single.rec"
r.holds(r.tool("merge", *files, "-o", merged).stdout, "from 3 files", "merge")
r.tool("merge", recordings, "-o", single)
r.equal(single.read_bytes(), merged.read_bytes(), "merging a directory is merging its files")
r.tool("merge", *reversed(files), merged, "-o", single)
r.equal(single.read_bytes(), merged.read_bytes(), "merging knows no order and no repetition")
r.holds(cache("inspect", merged).stdout, "kernel scale", "inspect reads manifests")
whole = files[0].read_bytes()
cut = r.dir / "cut.rec"
cut.write_bytes(whole[:-5])
r.holds(r.tool("merge", cut, "-o", single).stderr, "no record", "a cut tail is a warning")
r.tool("merge", entry, "-o", single, status=1)
r.tool("record", "-o", single, "--", a.app, "--layouts=all", env=env)
r.equal(r.tool("merge", single, "-o", r.dir / "sorted.rec").returncode, 0, "record writes a manifest")
r.equal((r.dir / "sorted.rec").read_bytes(), merged.read_bytes(), "record sees what TILEWEAVE_RECORD sees")
r.tool("record", "-o", r.dir / "none.rec", "--", "true", status=1)
r.tool("record", "-o", r.dir / "none.rec", "--", a.app, "--expect=compiled:77", status=4, env=env)
r.check(b"/" not in merged.read_bytes().replace(b"//", b""), "a manifest holds no path")
noisy = r.app(env=env | {"TILEWEAVE_RECORD": str(entry)})
r.equal(noisy.stderr.count("warning"), 1, "a directory that cannot be written costs one warning")

# --- keeping small, clearing
dry = cache("gc", "--dry-run", env=env | {"TILEWEAVE_CACHE_MAX_SIZE": "20K"}).stdout
r.equal(len(cache("ls").stdout.splitlines()), total, "a dry run removes nothing")
cache("gc", env=env | {"TILEWEAVE_CACHE_MAX_SIZE": "20K"})
r.check(sum(f.stat().st_size for f in root.rglob("*.entry")) <= 20 << 10, "gc keeps the cap")
foreign = root / "v1/p" / ("0123456789abcdef")
(foreign / "ab").mkdir(parents=True)
(foreign / "ab" / ("0" * 30 + ".entry")).write_bytes(b"x")
cache("gc", "--other-builds")
r.check(not foreign.exists(), "gc --other-builds drops what no process of this build can use")

# --- doctor: what is wrong, by name
healthy = r.tool("doctor", env=env)
for part in ("cpu", "codegen", "assembler", "NVRTC", "root", "uid", "file system", "locks", "no problems"):
    r.holds(healthy.stdout, part, "doctor on a healthy machine")
(root / "v1/surprise").write_text("x")
os.symlink("/nowhere", root / "v1/tmp/link")
os.mkfifo(root / "v1/p/pipe")
bound = socket.socket(socket.AF_UNIX)
os.chdir(root)
bound.bind("v1/p/socket")
os.chdir(r.dir)
sick = r.tool("doctor", env=env, status=1).stdout
for odd in ("v1/surprise", "v1/tmp/link", "v1/p/pipe", "v1/p/socket"):
    r.holds(sick, odd, "doctor names what does not belong")
r.equal(sick.count("problem:"), 4, "each oddity is one problem")
r.app("--expect=failed:0", env=env)  # and the cache works on
r.holds(cache("verify", status=1).stdout, "bad", "verify names them, too")
loose = r.dir / "loose"
loose.mkdir(mode=0o777)
loose.chmod(0o777)
report = r.tool("doctor", env=env | {"TILEWEAVE_CACHE_DIR": str(loose)}, status=1).stdout
r.holds(report, "problem:", "a loose root is a problem")
r.holds(report, str(loose), "and is named")
r.holds(r.tool("doctor", env=r.env(HOME="/nonexistent"), status=1).stdout, "/nonexistent", "a home that is not there is a problem")
layered = r.tool("doctor", env=env | {"TILEWEAVE_CACHE_LAYERS": f"{pack}:{r.dir}/none.pack"}, status=1).stdout
r.holds(layered, f"{pack}: {total} entries", "doctor counts a layer")
r.holds(layered, "none.pack", "doctor names a layer that is not there")
cache("clear")
r.equal(cache("ls").stdout, "", "clear removes every entry")
r.check((root / "v1/surprise").exists(), "clear leaves alone what it does not know")
r.done()
