#!/usr/bin/env python3
"""Keeps the documents true: every C++ and C example stands, line for line, in a sample or a surface program, which the tests
build and run; docs/reference.md is what `tileweave reference` prints; links between documents lead somewhere.

Usage: check.py SOURCE_DIR TILEWEAVE_PROGRAM
"""
import pathlib
import re
import subprocess
import sys

root, program = pathlib.Path(sys.argv[1]), sys.argv[2]
sources = [p.read_text() for d in ("samples", "tests/surface") for p in sorted((root / d).glob("*.c*"))]


def squeeze(code):
    """Without white space and comments."""
    return re.sub(r"\s+", "", re.sub(r"//.*", "", code))


squeezed = [squeeze(s) for s in sources]
wrong = []
pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
for page in pages:
    text = page.read_text()
    for block in re.findall(r"```c(?:pp)?\n(.*?)```", text, re.S):
        if not any(squeeze(block) in s for s in squeezed):
            wrong.append(f"{page.name}: this example stands in no sample:\n{block}")
    for target in re.findall(r"\]\(([^)#:]+)\)", re.sub(r"```.*?```", "", text, flags=re.S)):
        if not (page.parent / target).exists():
            wrong.append(f"{page.name}: links to {target}, which does not exist")
printed = subprocess.run([program, "reference"], check=True, capture_output=True, text=True).stdout
if printed != (root / "docs/reference.md").read_text():
    wrong.append("docs/reference.md differs from `tileweave reference`: write its output there")
for w in wrong:
    print(w)
print(f"docs: {len(pages)} pages, {len(wrong)} problems")
sys.exit(1 if wrong else 0)
