#!/usr/bin/env bash
# The benchmarks of the CPU, the compiler, launches and deployment beside their peers, as Markdown on standard output. Run by
# `./dev bench`, all or those named: cpu, compile, launch, cache, deployment, growth, decorator. Needs a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
built=build/dev

make_targets() { cmake --build $built --target "$@" >&2; }

cpu() {
  make_targets cpu_memory_bound
  $built/bench/cpu_memory_bound
}

compile() {
  make_targets compile_time
  $built/bench/compile_time
}

# On the CPU, and on the CUDA path against a stand-in for the driver whose launch returns at once.
launch() {
  make_targets launch_overhead tileweave_shim_libcuda
  TILEWEAVE_DEVICE=cpu $built/bench/launch_overhead
  echo
  LD_LIBRARY_PATH=$PWD/$built/shim TILEWEAVE_DEVICE=cuda TILEWEAVE_ASSEMBLER=driver TILEWEAVE_CACHE=off $built/bench/launch_overhead
}

cache() {
  make_targets cache_lookup
  $built/bench/cache_lookup
}

# main() to the first result; a warm-up in one and in two processes.
deployment() {
  make_targets first_result tileweave_tool
  TILEWEAVE_DEVICE=cpu bench/deployment.py $built
}

# What 100,000 kernels, each compiled, run and dropped, leave behind; GROWTH sets another number.
growth() {
  make_targets deploy_app
  echo "${GROWTH:-100000} distinct kernels, compiled, run and dropped:"
  TILEWEAVE_DEVICE=cpu TILEWEAVE_CACHE=off $built/tests/deploy/deploy_app --distinct="${GROWTH:-100000}" | grep bytes_kept_each
}

# Translating a file of 50 groups beside the compiler's parse of it; a translated group beside one written by hand.
decorator() {
  make_targets decorated tileweave_tool
  bench/decorator.py $built
  echo
  TILEWEAVE_DEVICE=cpu $built/bench/decorated
}

grep -m1 'model name' /proc/cpuinfo | sed 's/.*: /processor: /'
echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) cores"
for part in ${@:-cpu compile launch cache deployment growth decorator}; do
  echo
  $part
done
