#!/usr/bin/env python3
"""Translation of a file with 50 groups beside `clang++ -fsyntax-only` of the same file, in one run: five rounds in turn, medians.

Usage: decorator.py BUILD_DIR
"""
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

build = pathlib.Path(sys.argv[1])
PIECE = """
TILEWEAVE_FUSION_GROUP float group_{n}(float x, float y) {{
  const float a = {n}.5f * x + y;
  if (a < 0) return 0.1f * a;
  float sum = a, term = a;
  for (int i = 1; i <= 6; ++i) {{
    term *= x / static_cast<float>(i + {n});
    sum += term;
  }}
  return std::fabs(y) < 1.0f ? sum / (1 + std::exp(-sum)) : std::tanh(sum);
}}
"""
text = "#include <tileweave/tileweave.h>\n#include <cmath>\n" + "".join(PIECE.format(n=n) for n in range(50)) + "int main() {}\n"
with tempfile.TemporaryDirectory() as temp:
    source = pathlib.Path(temp) / "groups.cpp"
    source.write_text(text)
    flags = ["-std=c++20", f"-I{build}/include"]
    commands = {
        "tileweave fuse": [build / "tools/tileweave", "fuse", source, "-o", source.with_suffix(".fusion.h"), "--", *flags],
        "clang++ -fsyntax-only": ["clang++-19", "-fsyntax-only", *flags, source],
    }
    times = {name: [] for name in commands}
    for _ in range(5):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run([str(c) for c in command], check=True)
            times[name].append(time.perf_counter() - start)
medians = {name: statistics.median(t) for name, t in times.items()}
for name, t in medians.items():
    print(f"{name:24} {t:.2f} s (of {', '.join(f'{x:.2f}' for x in times[name])})")
print(f"ratio {medians['tileweave fuse'] / medians['clang++ -fsyntax-only']:.2f} for 50 groups")
