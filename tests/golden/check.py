#!/usr/bin/env python3
"""Runs the golden tests: each .tir file here is a kernel with lines

    ; RUN: PREFIX --to=STAGE --target=TARGET

Each compiles the file to that stage and gives the text to FileCheck with the file's `; PREFIX:` lines. Stage `print` is
the round trip: the recorded stage, read back and printed again, is the same text.

Usage: check.py TILEWEAVE_PROGRAM FILECHECK
"""
import pathlib
import re
import subprocess
import sys

program, filecheck = sys.argv[1:3]
here = pathlib.Path(__file__).resolve().parent


def compile_to(file, options, text=None):
    return subprocess.run([program, "compile", file, *options], input=text, capture_output=True, text=True)


def round_trip(file):
    first = compile_to(file, ["--to=record", "--target=sm_90a"])
    second = compile_to("-", ["--to=record", "--target=sm_90a"], first.stdout)
    return first.stdout != "" and first.stdout == second.stdout


failures = checks = 0
for file in sorted(here.glob("*.tir")):
    runs = re.findall(r"^; RUN: (\S+) (.*)$", file.read_text(), re.M)
    if not runs:
        failures += 1
        print(f"{file.name}: no RUN line")
    for prefix, options in runs:
        checks += 1
        made = compile_to(str(file), options.split())
        if made.returncode != 0:
            failures += 1
            print(f"{file.name}: {prefix}: the compiler said\n{made.stderr}")
            continue
        checked = subprocess.run([filecheck, f"--check-prefix={prefix}", "--dump-input=never", str(file)],
                                 input=made.stdout, capture_output=True, text=True)
        if checked.returncode != 0:
            failures += 1
            print(f"{file.name}: {prefix} ({options}):\n{checked.stderr}")
    checks += 1
    if not round_trip(str(file)):
        failures += 1
        print(f"{file.name}: its text does not come back the same from the parser")
print(f"golden: {checks} checks, {failures} failed")
sys.exit(1 if failures else 0)
