"""What the deployment tests share: a clean environment, temporary directories, and runs that must end as expected."""
import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("build", "source", "tool", "app", "broken", "other-llvm", "plugin", "plugin-host", "odd", "without-sockets", "sanitize"):
        parser.add_argument("--" + name)
    a = parser.parse_args()
    for name in ("build", "source", "tool", "app", "broken", "other_llvm", "plugin", "plugin_host", "odd", "without_sockets"):
        setattr(a, name, pathlib.Path(getattr(a, name)))
    a.long = os.environ.get("TILEWEAVE_LONG") == "1"
    return a


class Rig:
    """A temporary directory with a home, and commands run there in an environment of their own."""

    def __init__(self, a):
        self.a = a
        self.temp = tempfile.TemporaryDirectory(prefix="tileweave_deploy_")
        self.dir = pathlib.Path(self.temp.name)
        self.home = self.dir / "home"
        self.home.mkdir()
        self.failures = 0

    def env(self, **more):
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS")}
        keep |= {"HOME": str(self.home), "TILEWEAVE_DEVICE": "cpu", "TMPDIR": str(self.dir)}
        return keep | {k: str(v) for k, v in more.items()}

    def run(self, *command, status=0, env=None, cwd=None, timeout=300, **kw):
        words = [str(c) for c in command]
        done = subprocess.run(words, env=env or self.env(), cwd=cwd or self.dir, capture_output=True, text=True,
                              errors="replace", timeout=timeout, **kw)
        expected = status if isinstance(status, (tuple, list, set)) else (status,)
        if done.returncode not in expected:
            print(f"+ {' '.join(words)}\nended with {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
            raise SystemExit(1)
        return done

    def tool(self, *command, **kw):
        return self.run(self.a.tool, *command, **kw)

    def app(self, *options, **kw):
        return self.run(self.a.app, *options, **kw)

    def counters(self, done):
        return {k: int(v) for k, v in (l.split("=") for l in done.stdout.splitlines() if "=" in l and "." not in l)}

    def check(self, ok, what):
        if not ok:
            print(f"FAILED: {what}", flush=True)
            self.failures += 1

    def equal(self, got, expected, what):
        self.check(got == expected, f"{what}: got {got!r}, expected {expected!r}")

    def holds(self, text, part, what):
        self.check(part in text, f"{what}: {part!r} is not in\n{text}")

    def done(self):
        self.temp.cleanup()
        print(f"{self.failures} failures")
        sys.exit(1 if self.failures else 0)


def record(name, text):
    """A frame of a manifest (cache/manifest.h)."""
    def u32(n):
        return n.to_bytes(4, "little")
    raw, ir = name.encode(), text.encode()
    payload = u32(len(raw)) + raw + u32(len(ir)) + ir
    return u32(len(payload)) + u32(crc32c(u32(len(payload)) + payload)) + payload


def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c ^= b
        for _ in range(8):
            c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    return c ^ 0xFFFFFFFF


def manifest(*records):
    return b"TWREC\x00\x00\x01" + b"".join(record(n, t) for n, t in records)


def kernel(name, value=1):
    """A small kernel in tile IR; other values give other code."""
    return (f'func "{name}"(%0: view<f32, 1>) {{\n  %1 = constant {{value = {value}}} : i64\n'
            f'  %2 = load %0, %1 {{extents = [8], pad = 0}} : f32[8]\n  store %0, %1, %2\n}}\n')


def prefix_with(a, directory, jit):
    """A copy of the command, the test program and libtileweave, with `jit` as its compiler (None: without one)."""
    directory.mkdir()
    library = next(a.build.glob("libtileweave.so.0.*"))
    shutil.copy(library, directory / "libtileweave.so.0")
    if jit:
        shutil.copy(jit, directory / "libtileweave_jit.so")
    for program in (a.tool, a.app):
        shutil.copy(program, directory / program.name)
    return directory
