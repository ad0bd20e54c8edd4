#!/usr/bin/env python3
"""Runs docs/deployment.md: every ```sh block in order in one shell's directory, the ```cmake block as a project against
an installed copy, and the ```dockerfile block as an image that is a directory."""
import os
import re
import shlex
import shutil
import subprocess

import rig

a = rig.arguments()
r = rig.Rig(a)
text = (a.source / "docs/deployment.md").read_text()
blocks = re.findall(r"```(\w+)\n(.*?)```", text, re.S)
sample = a.build / "samples/11_deployment"

# --- an installed copy, used from a directory of its own
prefix = r.dir / "prefix"
subprocess.run(["cmake", "--install", a.build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
library = next(p.parent for p in prefix.rglob("libtileweave_jit.so"))
work = r.dir / "work"
work.mkdir()
shutil.copy(sample, work / "app")
env = r.env(PATH=f"{prefix}/bin:{os.environ['PATH']}", LD_LIBRARY_PATH=library)

# --- the shell's blocks, each line a command that must succeed; exports last from block to block
exports = ""
for kind, block in blocks:
    if kind != "sh":
        continue
    for line in block.strip().splitlines():
        done = r.run("bash", "-euo", "pipefail", "-c", exports + line, env=env, cwd=work)
        print(f"$ {line}\n{done.stdout}{done.stderr}", end="")
        if line.startswith("export "):
            exports += line + "\n"
        if "TILEWEAVE_JIT=forbid" in line:
            r.holds(done.stdout, "0 kernels compiled", "the sealed run compiles nothing")
            r.holds(done.stderr, ": layer", "and hits the layer")
        if line.startswith("tileweave doctor") or line.endswith("tileweave doctor"):
            r.holds(done.stdout, "no problems", "doctor finds nothing wrong")
address = r.run("bash", "-c", exports + "./app >/dev/null && tileweave cache ls", env=env, cwd=work).stdout.split()[0]
r.run("bash", "-c", exports + f"tileweave cache explain {address[:10]}", env=env, cwd=work)

# --- the image
image = r.dir / "image"
lines = next(b for k, b in blocks if k == "dockerfile").strip().splitlines()
settings, command = {}, []
sources = {"app": work / "app", "kernels.pack": work / "kernels.pack", "libtileweave.so.0": library / "libtileweave.so.0"}
for line in lines:
    word, *rest = shlex.split(line)
    if word == "COPY":
        target = image / rest[1].lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sources[rest[0]], target)
    elif word == "ENV":
        name, value = rest[0].split("=", 1)
        settings[name] = value
    elif word == "CMD":
        command = rest
    else:
        r.check(False, f"an image's line that the test does not know: {line}")
for needed in ("libtileweave.so.0", "app", "kernels.pack"):
    r.check(any(needed in l for l in lines), f"the image has {needed}")
if os.geteuid() == 0 and shutil.which("setpriv"):
    # Only what the program links from the distribution comes along: no compiler, no home, no /tmp.
    linked = subprocess.run(["ldd", image / "opt/app/app", image / "opt/app/libtileweave.so.0"], capture_output=True, text=True,
                            env=env).stdout
    for path in set(re.findall(r"(/\S+\.so\S*)", linked)):
        if "libtileweave" in path:
            continue
        target = image / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for d in [r.dir, image, *[p for p in image.rglob("*") if p.is_dir()]]:
        d.chmod(0o755)
    r.check(not list(image.rglob("libtileweave_jit*")), "there is no compiler in the image")
    setpriv = shutil.which("setpriv")
    done = subprocess.run(["/usr/sbin/chroot", "--userspec=41004:41004", image, *command], env=settings | {"TILEWEAVE_DEVICE": "cpu"},
                          capture_output=True, text=True)
    print(done.stdout, done.stderr)
    r.equal((done.returncode, done.stderr), (0, ""), "the image runs")
    r.holds(done.stdout, "0 kernels compiled", "and never compiles")
else:
    print("SKIP(root): the image of docs/deployment.md is not entered")

# --- CMake: kernels warmed at build time
project = r.dir / "project"
project.mkdir()
shutil.copy(a.source / "samples/11_deployment.cpp", project / "main.cpp")
cmake = next(b for k, b in blocks if k == "cmake")
(project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(app LANGUAGES CXX)\n" + cmake)
plain = r.env()
r.run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}", env=plain)
r.run("cmake", "--build", project / "build", env=plain, timeout=600)
r.run("cmake", "--install", project / "build", "--prefix", project / "out", env=plain)
packed = project / "out/share/app/kernels.pack"
out = r.run(project / "build/app", env=r.env(TILEWEAVE_CACHE="ro", TILEWEAVE_JIT="forbid", TILEWEAVE_CACHE_LAYERS=packed)).stdout
r.holds(out, "0 kernels compiled", "what CMake warmed is what the program needs")
again = r.run("cmake", "--build", project / "build", env=plain).stdout
r.check("Compiling the kernels" not in again, "nothing is warmed again where nothing changed")
r.done()
