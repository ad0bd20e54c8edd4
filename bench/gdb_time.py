#!/usr/bin/env python3
"""How long gdb takes on a kernel: from `run` to a breakpoint in it, and from there to a printed tile; three sessions.

Usage: gdb_time.py SAMPLE_10_PROGRAM SAMPLE_10_SOURCE
"""
import os
import pathlib
import re
import subprocess
import sys

program, source = sys.argv[1], pathlib.Path(sys.argv[2])
line = next(i for i, text in enumerate(source.read_text().splitlines(), 1) if "auto seen =" in text)
steps = ["set pagination off", "set confirm off", "set debuginfod enabled off", "set breakpoint pending on",
         "set startup-with-shell off", f"break {source.name}:{line}",
         "python import time; begin = time.monotonic()", "run", "python stop = time.monotonic()", "print row",
         "python print('seconds %.3f %.3f' % (stop - begin, time.monotonic() - stop))", "kill"]
command = ["gdb", "-nx", "-batch"]
for step in steps:
    command += ["-ex", step]
environment = dict(os.environ, TILEWEAVE_DEVICE="cpu", TILEWEAVE_DEBUG="full", TILEWEAVE_CACHE="off")
for session in range(3):
    log = subprocess.run([*command, "--args", program], capture_output=True, text=True, env=environment).stdout
    found = re.search(r"\$1 = (\{\{.*\}\})\nseconds ([\d.]+) ([\d.]+)", log)
    if found is None:
        sys.exit("gdb printed no tile:\n" + log)
    print(f"run to breakpoint {found[2]} s, breakpoint to printed tile {found[3]} s: {found[1]}")
