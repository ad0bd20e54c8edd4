#!/usr/bin/env python3
"""Runs cache_mutations: 4,000 mutations as built, or under ./dev long 100,000 in a build with ASan and UBSan, made first.

Usage: mutations_check.py BUILD_DIR PROGRAM SANITIZED_PROGRAM
"""
import os
import subprocess
import sys

build, program, sanitized = sys.argv[1:]
count = 4_000
if os.environ.get("TILEWEAVE_LONG") == "1":
    count, program = 100_000, sanitized
    subprocess.run(["cmake", "--build", build, "--target", "cache_mutations_sanitizer_build"], check=True)
sys.exit(subprocess.run([program, str(count), "1"]).returncode)
