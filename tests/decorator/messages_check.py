#!/usr/bin/env python3
"""Runs the decorator's tool on messages.cpp and compares every message with the comments there: whole text, line, no more and no less.

Also: a caret under each error, exit status 1, no output written, and the same messages from run to run.
Usage: messages_check.py TILEWEAVE_FUSE MESSAGES_CPP
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
with tempfile.TemporaryDirectory() as temp:
    out = pathlib.Path(temp) / "messages.fusion.h"
    command = [tool, str(source), "-o", str(out), "--", "-std=c++20"]
    run = subprocess.run(command, capture_output=True, text=True)
    again = subprocess.run(command, capture_output=True, text=True)
    written = list(pathlib.Path(temp).iterdir())
found = collections.Counter()
for line in run.stderr.splitlines():
    m = re.match(r".*messages\.cpp:(\d+):(\d+): (error|note): (.*)", line)
    if m:
        found[int(m[1]), m[3], m[4]] += 1
expected = collections.Counter()
errors = 0
for number, line in enumerate(source.read_text().splitlines(), 1):
    for kind, text in re.findall(r"// (error|note): (.*?)(?= // (?:error|note): |$)", line):
        if line.startswith("// `error:`"):
            continue
        expected[number, kind, text.strip()] += 1
        errors += kind == "error"
wrong = []
for key in sorted((expected - found) + (found - expected)):
    wrong.append(f"line {key[0]}: {key[1]}: {key[2]}: expected {expected[key]} times, found {found[key]}")
if run.returncode != 1:
    wrong.append(f"exit status {run.returncode}, 1 is expected")
if written:
    wrong.append(f"written although there were errors: {written}")
if run.stderr.count("^") < errors:
    wrong.append("an error without a caret")
if not re.search(rf"^{errors} errors: .* is not written$", run.stderr, re.M):
    wrong.append("the last line does not count the errors")
if run.stderr != again.stderr:
    wrong.append("two runs say different things")
print("\n".join(wrong) if wrong else f"{errors} messages as expected")
if wrong:
    print(run.stderr)
sys.exit(1 if wrong else 0)
