#!/usr/bin/env python3
"""How long g++ takes for ten_kernels.cpp and for an empty main with the umbrella header: processor time, least of three.

Usage: cpp_compile_time.py INCLUDE_DIR [COMPILER]
"""
import pathlib
import resource
import subprocess
import sys
import tempfile

include, compiler = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "g++"
here = pathlib.Path(__file__).resolve().parent


def seconds(source, *flags):
    def used():
        r = resource.getrusage(resource.RUSAGE_CHILDREN)
        return r.ru_utime + r.ru_stime

    best = float("inf")
    for _ in range(3):
        before = used()
        subprocess.run([compiler, "-std=c++20", *flags, "-I", include, "-c", source, "-o", "/dev/null"], check=True)
        best = min(best, used() - before)
    return best


with tempfile.TemporaryDirectory() as folder:
    empty = pathlib.Path(folder, "empty.cpp")
    empty.write_text("#include <tileweave/tileweave.h>\nint main() {}\n")
    print("| file | -O1, s | -O2, s | -fsyntax-only, s |\n|---|---|---|---|")
    for name, source in (("empty main with the header", empty), ("ten kernels", here / "ten_kernels.cpp")):
        times = [seconds(source, *flags) for flags in (["-O1"], ["-O2"], ["-fsyntax-only"])]
        print(f"| {name} | " + " | ".join(f"{t:.1f}" for t in times) + " |")
