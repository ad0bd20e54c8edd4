#!/usr/bin/env python3
"""Checks mistakes that the C++ compiler finds: the first error stands at the user's line and says what to do.

usage: check_compile.py INCLUDE_DIR CASES_DIR COMPILER...
A case names its text in a first line "// says: ..." and marks its line with "// here". Exit status 1 and one line per miss.
"""
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

include, cases, compilers = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-fno-diagnostics-color"]


def precompile(compiler, folder):
    """The umbrella header, once for each compiler; each case then takes a fraction of a second."""
    header = pathlib.Path(folder, "all.h")
    header.write_text("#include <tileweave/tileweave.h>\n")
    clang = "clang" in compiler
    out = header.with_suffix(".pch") if clang else pathlib.Path(str(header) + ".gch")
    subprocess.run([compiler, *FLAGS, "-I", include, "-x", "c++-header", str(header), "-o", str(out)], check=True)
    return ["-include-pch", str(out)] if clang else ["-include", str(header)]


def check(compiler, pch, path):
    lines = path.read_text().splitlines()
    says = lines[0].removeprefix("// says: ")
    place = next(i for i, line in enumerate(lines, 1) if line.endswith("// here"))
    run = subprocess.run([compiler, *FLAGS, "-I", include, *pch, "-fsyntax-only", str(path)], capture_output=True, text=True)
    where = f"{path.name} with {compiler}"
    if run.returncode == 0:
        return f"{where}: compiles, but should be refused"
    first = re.search(r"^([^\s:][^:\n]*):(\d+):\d+: (?:fatal )?error: (.*)$", run.stderr, re.M)
    if not first:
        return f"{where}: no error line in\n{run.stderr[:500]}"
    if pathlib.Path(first[1]).name != path.name or int(first[2]) != place:
        return f"{where}: the first error is at {first[1]}:{first[2]}, not at line {place}: {first[3][:300]}"
    if says not in first[3]:
        return f"{where}: the first error says '{first[3][:400]}', not '{says}'"
    return None


def main():
    paths = sorted(cases.glob("*.cpp"))
    failures, done = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for compiler in compilers:
            sub = pathlib.Path(folder, compiler.replace("/", "_"))
            sub.mkdir()
            pch = precompile(compiler, sub)
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                results = list(pool.map(lambda p: check(compiler, pch, p), paths))
            done += len(results)
            failures += [r for r in results if r]
    for f in failures:
        print(f)
    print(f"{done - len(failures)} of {done} mistakes refused with their text and place")
    return 1 if failures or not done else 0


if __name__ == "__main__":
    sys.exit(main())
