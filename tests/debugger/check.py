#!/usr/bin/env python3
"""Drives gdb through samples/10_debugging: it stops at the lines of the kernel, steps, and prints tiles by their names; and
through samples/13_functions: it stops at the lines of a function and prints structured bindings.

Usage: check.py PROGRAM SOURCE FUNCTIONS_PROGRAM FUNCTIONS_SOURCE. Prints what failed with gdb's log; says so and passes where gdb cannot run.
"""
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

program, source = sys.argv[1], pathlib.Path(sys.argv[2])
text = source.read_text().splitlines()


def line_of(piece):
    return next(i for i, line in enumerate(text, 1) if piece in line)


def main():
    if shutil.which("gdb") is None:
        print("SKIP(gdb): kernels were not stopped in gdb")
        return 77
    lines = {name: line_of(piece) for name, piece in {
        "seen": "auto seen =", "total": "total += row", "mean": "auto mean =", "assert": "tw::device_assert(",
        "store": "tw::store(y"}.items()}
    steps = ["set pagination off", "set confirm off", "set debuginfod enabled off", "set breakpoint pending on",
             "set startup-with-shell off", "set print frame-arguments all",
             f"break {source.name}:{lines['seen']}", "run",
             "echo [row]", "print row", "echo [r]", "print r", "echo [view]", "print x.extents", "echo [element]",
             "print x.base[9]", "echo [program]", "print program", "backtrace",
             "next", "next", "echo [total]", "print total", "next", "echo [mean]", "print mean",
             f"tbreak {source.name}:{lines['store']}", "continue", "delete",
             f"break {source.name}:{lines['mean']} if r == 2", "continue", "echo [later]", "print total[0][7]",
             "delete", "continue"]
    command = ["gdb", "-nx", "-batch"]
    for s in steps:
        command += ["-ex", s]
    environment = dict(os.environ, TILEWEAVE_DEVICE="cpu", TILEWEAVE_DEBUG="full", TILEWEAVE_CACHE="off")
    begin = time.monotonic()
    run = subprocess.run([*command, "--args", program], capture_output=True, text=True, env=environment, timeout=300)
    log = run.stdout + run.stderr
    if "ptrace: Operation not permitted" in log or "Could not trace the inferior" in log:
        print("SKIP(ptrace): the system does not allow gdb to trace a program")
        return 77
    rows = {r: [8 * r + c for c in range(8)] for r in range(4)}

    def tile(values):
        return r"\{\{" + ", ".join(str(v) for v in values) + r"\}\}"

    expected = {
        "stops at the line after the load": rf"running_mean \(.*\) at .*{source.name}:{lines['seen']}\n",
        "shows the line": rf"\n{lines['seen']}\s+auto seen = ",
        "prints a loaded tile": r"\[row\]\$\d+ = " + tile(rows[0]),
        "prints a loop's index": r"\[r\]\$\d+ = 0\n",
        "prints a view's extents": r"\[view\]\$\d+ = \{4, 8\}",
        "follows a view's base": r"\[element\]\$\d+ = 9\n",
        "prints the program": r"\[program\]\$\d+ = \{0, 0, 0\}",
        "has a backtrace into the launch": r"#0\s+running_mean \(x=.*\n#1",
        "steps to the assignment": rf"\n{lines['total']}\s+total \+= row;",
        "steps over the assignment": rf"\n{lines['mean']}\s+auto mean = total / seen;",
        "prints a tw::Var": r"\[total\]\$\d+ = " + tile(rows[0]),
        "steps to the assertion": rf"\n{lines['assert']}\s+tw::device_assert\(",
        "prints an expression": r"\[mean\]\$\d+ = " + tile(rows[0]),
        "goes on to the store": rf"{source.name}:{lines['store']}\n",
        # At `auto mean` of r == 2 the sum holds rows 0, 1 and 2: 7 + 15 + 23.
        "takes a condition on a variable": r"\[later\]\$\d+ = 45\n",
        "runs to the end": r"ok\n",
    }
    failed = [what for what, pattern in expected.items() if re.search(pattern, log) is None]
    print(f"gdb: {len(expected)} expectations, {len(failed)} failed, {time.monotonic() - begin:.1f} s in all")
    if failed:
        print("\n".join(f"  not seen: {what}" for what in failed), log, sep="\n")
    return 1 if failed else 0


def function_failures(program, source):
    """What of samples/13_functions gdb does not show."""
    lines = source.read_text().splitlines()
    inside = next(i for i, line in enumerate(lines, 1) if "auto d = x - mean" in line)
    after = next(i for i, line in enumerate(lines, 1) if "(v - mean) * scale" in line)
    steps = ["set pagination off", "set confirm off", "set debuginfod enabled off", "set breakpoint pending on",
             "set startup-with-shell off", f"tbreak {source.name}:{inside + 1}", "run", "backtrace 1",
             f"tbreak {source.name}:{after}", "continue", "echo [mean]", "print mean", "echo [scale]", "print scale",
             "echo [count]", "print moments_count", "echo [inner]", "print moments_mean", "echo [d]", "print moments_d[0][0]"]
    command = ["gdb", "-nx", "-batch"]
    for s in steps:
        command += ["-ex", s]
    environment = dict(os.environ, TILEWEAVE_DEVICE="cpu", TILEWEAVE_DEBUG="full", TILEWEAVE_CACHE="off")
    run = subprocess.run([*command, "--args", program], capture_output=True, text=True, env=environment, timeout=300)
    log = run.stdout + run.stderr
    mean = sum(math.sin(i) for i in range(24)) / 24
    variance = sum((math.sin(i) - mean) ** 2 for i in range(24)) / 24

    def shows(name, value):
        found = re.search(rf"\[{name}\]\$\d+ = (?:\{{\{{)?([-+.e0-9]+)", log)
        return found is not None and abs(float(found[1]) - value) < 1e-6

    seen = {
        "stops at a function's own line": re.search(rf"#0\s+halves \(.*{source.name}:{inside + 1}\n", log),
        "prints the first binding": shows("mean", mean),
        "prints the second binding": shows("scale", 1 / math.sqrt(variance + 1e-5)),
        "prints a function's parameter": shows("count", 24),
        "prints a function's tile": shows("inner", mean),
        "prints an element of a function's tile": shows("d", 0 - mean),
    }
    failed = [what for what, ok in seen.items() if not ok]
    print(f"gdb on functions: {len(seen)} expectations, {len(failed)} failed")
    if failed:
        print("\n".join(f"  not seen: {what}" for what in failed), log, sep="\n")
    return len(failed)


status = main()
if status == 0 and function_failures(sys.argv[3], pathlib.Path(sys.argv[4])) != 0:
    status = 1
sys.exit(status)
