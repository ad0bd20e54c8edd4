#!/usr/bin/env python3
"""Prints which tests were skipped in the last CTest run and why; fails where a skipped test's tool is installed.

A test says `SKIP(<tool>): <reason>` on a line of its own; <tool> is a program or a library name.
Usage: skipped.py BUILD_DIR
"""
import ctypes.util
import pathlib
import re
import shutil
import sys

log = pathlib.Path(sys.argv[1]) / "Testing/Temporary/LastTest.log"
text = log.read_text(errors="replace") if log.exists() else ""
wrong = 0
for tool, reason in sorted(set(re.findall(r"^SKIP\(([^)]*)\): (.*)$", text, re.M))):
    present = shutil.which(tool) or ctypes.util.find_library(tool)
    print(f"skipped: {reason} ({tool} is {'installed: it must not be skipped' if present else 'not installed'})")
    wrong += bool(present)
sys.exit(1 if wrong else 0)
