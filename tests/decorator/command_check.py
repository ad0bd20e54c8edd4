#!/usr/bin/env python3
"""`tileweave fuse` as people and build systems use it: --list, flags, a file that is not there, a header that does not compile
yet, what is written and when, dependencies.

Usage: command_check.py TILEWEAVE_PROGRAM BUILD_DIR SOURCE_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

tileweave, build, source = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
include = ["-std=c++20", f"-I{build}/include"]


def fuse(*arguments, status=0):
    run = subprocess.run([tileweave, "fuse", *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == status, f"{arguments}: exit status {run.returncode}\n{run.stdout}{run.stderr}"
    return run


with tempfile.TemporaryDirectory() as temp:
    temp = pathlib.Path(temp)
    (temp / "shared.h").write_text(
        "#pragma once\n#include <tileweave/dsl/element.h>\n"
        "TILEWEAVE_FUSION_GROUP inline float twice(float x) { return FACTOR * x; }\n")
    user = temp / "user file.cpp"
    user.write_text(
        '#include <tileweave/tileweave.h>\n#include "shared.h"\n#include "user file.fusion.h"\n'
        "namespace tw = tileweave;\n"
        "namespace mine { TILEWEAVE_FUSION_GROUP float once(float x) { return twice(x) / 2; } }\n"
        'const auto lambda = tw::fusion_group("lambda", [](auto x, auto y) { return x + y; });\n'
        'const auto copy = tw::kernel("copy", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Const<int> n) {\n'
        "  tw::store(y, {0}, tw::fused::mine::once(tw::load(x, {0}, {n})));\n});\n"
        'template <class T> inline const auto scaled = tw::kernel("scaled", [](tw::View<T, 2> x, tw::Scalar<T> s) { tw::store(x, {0, 0}, s * tw::load(x, {0, 0}, {1, 4})); });\n'
        "int main() { return tw::fused::not_there_yet(1.0f) > 0; }\n")
    out = temp / "user file.fusion.h"
    depfile = temp / "user.d"
    flags = ["--", *include, "-DFACTOR=2", "-O2", "-Wno-such-warning", "-fno-plt", "-ffp-contract=off"]
    # The header does not exist and main uses what nobody will ever write: the decorated functions are translated all the same.
    fuse(user, "-o", out, "--depfile", depfile, *flags)
    text = out.read_text()
    assert "tileweave::fused::mine" in text and "once" in text and "twice" in text, text
    assert "2.0f" in text or "2 *" in text or "to<float>" in text or "float(2)" in text, text
    deps = depfile.read_text()
    # Real paths, each of a file that is there: a name with ".." in it, shortened as text, made every build a rebuild.
    named = [d.strip().replace("\\ ", " ") for d in deps.split(" \\\n")[1:]]
    assert len(named) > 2 and all(pathlib.Path(d).exists() and ".." not in d for d in named), deps
    assert "shared.h" in deps and "user\\ file.cpp" in deps and ".fusion.h:" in deps.replace("\\ ", " "), deps
    # A definition on the command line counts; an unchanged header is not another text.
    fuse(user, "-o", out, *[f.replace("FACTOR=2", "FACTOR=4") for f in flags])
    assert out.read_text() != text
    fuse(user, "-o", out, *flags)
    assert out.read_text() == text
    # The inventory.
    listed = json.loads(fuse("--list", user, *flags).stdout)
    groups = {g["name"]: g for g in listed["fusion_groups"]}
    kernels = {k["name"]: k for k in listed["kernels"]}
    assert groups["mine::once"]["type"] == "float (float)" and groups["mine::once"]["line"] == 5, groups
    assert groups["twice"]["kind"] == "decorated" and groups["twice"]["file"].endswith("shared.h"), groups
    assert groups["lambda"]["kind"] == "lambda", groups
    assert [p["name"] for p in kernels["copy"]["parameters"]] == ["x", "y", "n"], kernels
    assert "View<const float, 1>" in kernels["copy"]["parameters"][0]["type"], kernels
    assert kernels["scaled"]["template"] is True and kernels["copy"]["template"] is False, kernels
    # From compile_commands.json.
    (temp / "compile_commands.json").write_text(json.dumps([{
        "directory": str(temp), "file": str(user), "arguments": ["g++", "-c", "-o", "x.o", *flags[1:], str(user)]}]))
    fuse(user, "-o", out, "-p", temp)
    assert out.read_text() == text
    assert json.loads(fuse("--list", "-p", temp).stdout) == listed
    # Mistakes.
    out.unlink()
    missing = fuse(temp / "nowhere.cpp", "-o", out, status=2)
    assert "there is no file" in missing.stderr
    user.write_text('#include "no_such_header.h"\n')
    broken = fuse(user, "-o", out, *flags, status=1)
    assert "'no_such_header.h' file not found" in broken.stderr and not out.exists(), broken.stderr
    user.write_text("#include <tileweave/dsl/element.h>\nTILEWEAVE_FUSION_GROUP float f(float x) { return x + undeclared; }\n")
    broken = fuse(user, "-o", out, *flags, status=1)
    assert "use of undeclared identifier 'undeclared'" in broken.stderr and "user file.cpp:2:" in broken.stderr, broken.stderr
    assert not out.exists()
    fuse(status=2)
    user.write_text("int nothing_here;\n")
    fuse(user, "-o", out, *flags)
    assert "bodies" in out.read_text()
print("tileweave fuse works")
