#!/usr/bin/env python3
"""Matrix products beside cuBLAS (through torch) in one process, called in turn. Prints a Markdown table.

  bench/gpu_matmul.py LIBRARY [--quick] [--all]      LIBRARY: libgpu_matmul.so, beside libtileweave.so

The clock of a GPU drifts with its power, so contestants alternate: a burst is 0.12 s of rest and then about 6 ms of
launches, timed by events; the median of five. Inputs are standard normal. Each cell is checked against torch in f32
first: the relative error in the Frobenius norm must not pass 1e-2, and is printed.
"""
import argparse
import ctypes
import time

import torch

SHAPES = [(2048,) * 3, (4096,) * 3, (8192,) * 3, (16384,) * 3, (8192, 16384, 4096), (4104,) * 3, (8200,) * 3,
          (16, 4096, 4096), (256, 4096, 4096)]
# block m, n, k, warps, stages
BLOCKS = [(128, 256, 64, 8, 0), (128, 256, 64, 8, 4), (128, 128, 64, 8, 0), (64, 64, 64, 4, 0), (64, 128, 64, 4, 0),
          (16, 64, 128, 4, 4)]


def load(path):
    call = ctypes.CDLL(path).tileweave_matmul
    call.restype = ctypes.c_char_p
    p, i, n = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    call.argtypes = [p, i, p, p, p, n, n, n, i, i, i, i, i, i]
    return call


def burst(run, flops):
    run()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    launches = max(1, int(6e-3 / (flops / 7e14 + 5e-6)))
    times = []
    for _ in range(5):
        time.sleep(0.12)
        start.record()
        for _ in range(launches):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / launches)
    return sorted(times)[2]


def cell(call, dtype, shape, nt, blocks, every):
    m, n, k = shape
    a = torch.randn(m, k, device="cuda", dtype=dtype)
    b = torch.randn(*((n, k) if nt else (k, n)), device="cuda", dtype=dtype)
    c = torch.full((m, n), float("nan"), device="cuda", dtype=dtype)
    right = b.t() if nt else b
    expected = torch.matmul(a, right)
    stream = torch.cuda.current_stream().cuda_stream
    best = None
    for block in blocks:
        def run():
            error = call(stream, dtype == torch.bfloat16, a.data_ptr(), b.data_ptr(), c.data_ptr(), m, n, k, nt, *block)
            if error:
                raise RuntimeError(error.decode())
        try:
            run()
        except RuntimeError as e:
            print(f"<!-- {block}: {str(e)[:160]} -->")
            continue
        torch.cuda.synchronize()
        error = float((c.float() - expected.float()).norm() / expected.float().norm())
        if not error < 1e-2:
            raise SystemExit(f"{dtype} {shape} nt={nt} {block}: relative error {error}")
        theirs = burst(lambda: torch.matmul(a, right, out=expected), 2 * m * n * k)
        ours = burst(run, 2 * m * n * k)
        if every:
            print(f"<!-- {shape} {'NT' if nt else 'NN'} {block}: {theirs / ours:.3f} -->", flush=True)
        if best is None or theirs / ours > best[0]:
            best = (theirs / ours, ours, theirs, error, block)
    return best


def main():
    options = argparse.ArgumentParser()
    options.add_argument("library")
    options.add_argument("--quick", action="store_true", help="two shapes")
    options.add_argument("--all", action="store_true", help="the ratio of every block, as comments")
    options = options.parse_args()
    call = load(options.library)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print("| dtype | order | m x n x k | block | ms | TFLOP/s | cuBLAS TFLOP/s | ratio | error |\n|" + "---|" * 9)
    for dtype in (torch.float16, torch.bfloat16):
        for shape in SHAPES[:2] if options.quick else SHAPES:
            for nt in (True, False):
                best = cell(call, dtype, shape, nt, [b for b in BLOCKS if shape[0] > 16 or b[0] == 16],
                            options.all)
                if best is None:
                    continue
                ratio, ours, theirs, error, block = best
                flops = 2e-9 * shape[0] * shape[1] * shape[2]
                print(f"| {str(dtype)[6:]} | {'NT' if nt else 'NN'} | {'x'.join(map(str, shape))} | {block} | {ours:.3f} "
                      f"| {flops / ours:.0f} | {flops / theirs:.0f} | {ratio:.2f} | {error:.1e} |", flush=True)


if __name__ == "__main__":
    main()
