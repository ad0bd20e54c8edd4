#!/usr/bin/env python3
"""Runs the C program on each host device, and again with what it left: a manifest, a cache root, a pack; and tile IR.

Usage: check.py PROGRAM TILEWEAVE_TOOL
"""
import os
import pathlib
import subprocess
import sys
import tempfile

program, tool = sys.argv[1:3]
text = pathlib.Path(__file__).resolve().parent / "scaled.tir"


def run(*command, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TILEWEAVE_")}
    done = subprocess.run([str(c) for c in command], env=dict(env, **environment), capture_output=True, text=True)
    print(done.stdout, end="")
    if done.returncode != 0:
        print("failed:", *command, environment, done.stderr)
        sys.exit(1)


with tempfile.TemporaryDirectory() as temp:
    temp = pathlib.Path(temp)
    cache, pack, records = temp / "cache", temp / "kernels.pack", temp / "records"
    for device in ("cpu", "interpret", "simt:sm_90a"):
        run(program, TILEWEAVE_DEVICE=device, TILEWEAVE_CACHE="off")
    cpu = {"TILEWEAVE_DEVICE": "cpu"}
    run(program, **cpu, TILEWEAVE_CACHE_DIR=str(cache), TILEWEAVE_RECORD=str(records))
    run(tool, "cache", "pack", "-o", pack, cache)
    manifest = next(records.glob("*.rec"))
    run(program, manifest, cache, pack, text, **cpu, TILEWEAVE_CACHE="off")
    # Nothing may be compiled: the pack's code is used.
    run(program, pack, text, **cpu, TILEWEAVE_CACHE_LAYERS=str(pack), TILEWEAVE_CACHE_DIR=str(temp / "none"),
        TILEWEAVE_JIT="forbid")
