#!/usr/bin/env bash
# The GPU tests, from a bundle made by `./dev pack`, on a machine with a GPU: samples, surface programs, the language's
# tests, processes (threads, faults, forks, exits), and the property and unit tests where the bundle has them.
# Usage: run_on_gpu.sh [BUNDLE] [RESULTS_DIR]. Exit status: the number of programs that failed.
set -u
bundle=$(cd "${1:-$(dirname "$0")}" && pwd)
results=${2:-$bundle/results}
mkdir -p "$results"
export LD_LIBRARY_PATH=$bundle/lib:${LD_LIBRARY_PATH:-}
export TILEWEAVE_DEVICE=cuda TILEWEAVE_CACHE_DIR=$results/cache
failed=0
for program in "$bundle"/bin/[01]* "$bundle"/bin/surface_* "$bundle"/bin/tileweave_run "$bundle"/bin/tileweave_gpu; do
  [ -x "$program" ] || continue
  if timeout 400 "$program" >"$results/$(basename "$program").log" 2>&1; then
    echo "pass $(tail -n 1 "$results/$(basename "$program").log")"
  else
    echo "FAIL $(basename "$program") (status $?): $(tail -n 3 "$results/$(basename "$program").log")"
    failed=$((failed + 1))
  fi
done
if [ -x "$bundle/bin/tileweave_property" ]; then
  timeout 500 "$bundle/bin/tileweave_property" "--source-file=*/property/cuda_test.cpp" >"$results/property.log" 2>&1 || failed=$((failed + 1))
  tail -n 3 "$results/property.log"
fi
if [ -x "$bundle/bin/tileweave_unit" ]; then
  timeout 300 "$bundle/bin/tileweave_unit" "--test-case=gpu:*" >"$results/unit.log" 2>&1 || failed=$((failed + 1))
  tail -n 3 "$results/unit.log"
fi
# Kernels held by globals, statics, thread_locals and leaked pointers, and every way to end, with a warm and without a cache.
if [ -x "$bundle/bin/deploy_app" ]; then
  for how in return exit quick_exit _exit; do
    for cache in rw off; do
      said=$(TILEWEAVE_CACHE=$cache timeout 60 "$bundle/bin/deploy_app" --layouts=all --exit=$how 2>&1)
      if [ $? != 7 ] || [ -n "$said" ]; then
        echo "FAIL ending by $how, cache $cache: $said"
        failed=$((failed + 1))
      fi
    done
  done
fi
rm -rf "$results/cache"
echo "$failed programs failed"
exit "$failed"
