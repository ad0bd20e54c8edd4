#!/usr/bin/env bash
# The CPU benchmarks beside their peers and the compiler's times, as Markdown on standard output. Run by `./dev bench`; needs a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --build build/dev --target cpu_memory_bound launch_overhead compile_time >&2
grep -m1 'model name' /proc/cpuinfo | sed 's/.*: /processor: /'
build/dev/bench/cpu_memory_bound
echo
TILEWEAVE_DEVICE=cpu build/dev/bench/launch_overhead
echo
build/dev/bench/compile_time
