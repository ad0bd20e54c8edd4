#!/usr/bin/env bash
# The CPU benchmarks beside their peers and the compiler's times, as Markdown on standard output. Run by `./dev bench`; needs a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --build build/dev --target cpu_memory_bound launch_overhead first_result cache_lookup compile_time tileweave_tool tileweave_shim_libcuda >&2
grep -m1 'model name' /proc/cpuinfo | sed 's/.*: /processor: /'
build/dev/bench/cpu_memory_bound
echo
TILEWEAVE_DEVICE=cpu build/dev/bench/launch_overhead
echo
build/dev/bench/compile_time
echo
# The same launches on the CUDA path, against a stand-in for the driver whose launch returns at once.
LD_LIBRARY_PATH=$PWD/build/dev/shim TILEWEAVE_DEVICE=cuda TILEWEAVE_ASSEMBLER=driver TILEWEAVE_CACHE=off build/dev/bench/launch_overhead
echo
build/dev/bench/cache_lookup
echo
TILEWEAVE_DEVICE=cpu bench/deployment.py build/dev
