#!/usr/bin/env python3
"""Translates every golden/NAME.cpp and compares the header with golden/NAME.fusion.h, twice: translations are stable.

Usage: golden_check.py TILEWEAVE_FUSE GOLDEN_DIR [--update]
"""
import difflib
import pathlib
import subprocess
import sys
import tempfile

tool, golden = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
update = "--update" in sys.argv
wrong = 0
sources = sorted(golden.glob("*.cpp"))
with tempfile.TemporaryDirectory() as temp:
    for source in sources:
        texts = []
        for _ in range(2):
            out = pathlib.Path(temp) / f"{source.stem}.fusion.h"
            # From the folder itself, so that #line names the file without its folders.
            subprocess.run([tool, source.name, "-o", str(out), "--", "-std=c++20"], cwd=golden, check=True)
            texts.append(out.read_text())
            out.unlink()
        expected = golden / f"{source.stem}.fusion.h"
        if update:
            expected.write_text(texts[0])
        before = expected.read_text()
        if texts[0] != texts[1]:
            wrong += 1
            print(f"{source.name}: two runs give two translations")
        if texts[0] != before:
            wrong += 1
            print("\n".join(difflib.unified_diff(before.splitlines(), texts[0].splitlines(), str(expected), "now", lineterm="")))
print(f"golden: {len(sources)} files, {wrong} differences")
sys.exit(1 if wrong or not sources else 0)
