#!/usr/bin/env python3
"""Memory-bound kernels beside PyTorch, torch.compile, Triton and a copy of as many bytes, in one process. Markdown.

  bench/gpu_memory_bound.py LIBRARY [--only REGEX] [--no-peers] [--graph] [--warm I/N] [--json FILE]

LIBRARY: libgpu_cells.so, beside libtileweave.so. A cell's name, for --only, is "op dtype shape".

Timing: a 256 MB buffer is overwritten before each timed call, so that inputs start outside the L2; device events; the
contestants of a cell are called in turn; medians. With --graph: calls inside a CUDA graph of 20, the L2 warm, 4096x1024 only.
Inputs are random. Every result is compared with float64 first (relative error in the Frobenius norm), outputs filled with
NaN before. --warm I/N compiles the peers of every N-th cell and times nothing: N processes fill the caches at once.
"""
import argparse
import ctypes
import json
import re
import sys

import torch
import torch.nn.functional as F

import gpu_peers

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
NAMES = {F16: "f16", BF16: "bf16", F32: "f32"}
ROWS = [(16384, 4096), (8192, 8192), (32768, 768), (16384, 4097), (16384, 1000), (4096, 1024), (128, 131072)]
EPS = 1e-5


class Cell:
    """An op on given tensors. `ours` runs it into `outs`, `reference` gives what they should hold in float64, `eager` is the
    peer in PyTorch (and what torch.compile gets), `triton` makes one of a configuration; None where we wrote none."""

    def __init__(self, op, dtype, shape, bytes_moved, ours, outs, reference, eager, triton):
        self.op, self.dtype, self.shape, self.bytes = op, dtype, shape, bytes_moved
        self.ours, self.outs, self.reference, self.eager, self.triton = ours, outs, reference, eager, triton


def gelu_exact(x):
    return F.gelu(x)


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def gelu_composite(x):
    v = x.float()
    return (v * 0.5 * (1.0 + torch.tanh(0.7978845608 * (v + 0.044715 * v * v * v)))).to(x.dtype)


def randn(n, dtype, shift=0):
    return torch.randn(n + shift, device="cuda", dtype=F32).to(dtype)[shift:]


def flat_cells(call, dtype, n, shift, shape):
    size = torch.tensor([], dtype=dtype).element_size()
    x, y = randn(n, dtype, shift), randn(n, dtype, shift)
    out = torch.empty(n + shift, device="cuda", dtype=dtype)[shift:]
    run = lambda op, *t: lambda: call(op, dtype, t, n, 1)  # noqa: E731
    yield Cell("add", dtype, shape, 3 * n * size, run("add", x, y, out), [out], lambda: [x.double() + y.double()],
               lambda: torch.add(x, y), lambda c: gpu_peers.flat(x, y, "add", c))
    cells = (("gelu exact", gelu_exact, F.gelu), ("gelu tanh", gelu_tanh, gelu_tanh),
             ("fused gelu", gelu_composite, gelu_tanh), ("decorated gelu", gelu_composite, gelu_tanh))
    for op, function, exact in cells:
        if op == "decorated gelu" and shape != "2^28":
            continue
        yield Cell(op, dtype, shape, 2 * n * size, run(op, x, out), [out], lambda e=exact: [e(x.double())],
                   lambda f=function: f(x), lambda c, o=op: gpu_peers.flat(x, None, o, c))
    if shape == "2^28":
        dx = torch.empty_like(x)

        def both():
            d = x.double().requires_grad_()
            value = F.gelu(d)
            return [value.detach(), torch.autograd.grad(value, d, y.double())[0]]

        eager_back = lambda: (F.gelu(x), torch.ops.aten.gelu_backward(y, x))  # noqa: E731
        yield Cell("gelu forward+backward", dtype, shape, 4 * n * size, run("gelu forward+backward", x, y, out, dx),
                   [out, dx], both, eager_back, None)


def rms_norm(x, w):
    return F.rms_norm(x, (x.shape[1],), w, EPS)


def layer_norm(x, w, b):
    return F.layer_norm(x, (x.shape[1],), w, b, EPS)


def layer_norm_gelu(x, w, b):
    return F.gelu(F.layer_norm(x, (x.shape[1],), w, b, EPS))


def row_cells(call, dtype, r, c):
    size = torch.tensor([], dtype=dtype).element_size()
    x = torch.randn(r, c, device="cuda").to(dtype)
    w, b = torch.randn(c, device="cuda").to(dtype), torch.randn(c, device="cuda").to(dtype)
    out = torch.empty_like(x)
    shape = f"{r}x{c}"
    cells = (("softmax", (), lambda x: torch.softmax(x, 1)), ("RMSNorm", (w,), rms_norm), ("LayerNorm", (w, b), layer_norm),
             ("LayerNorm+GELU", (w, b), layer_norm_gelu))
    for op, weights, function in cells:
        yield Cell(op, dtype, shape, 2 * r * c * size, lambda o=op, t=weights: call(o, dtype, (x, *t, out), r, c), [out],
                   lambda f=function, t=weights: [f(x.double(), *(a.double() for a in t))],
                   lambda f=function, t=weights: f(x, *t), lambda k, o=op: gpu_peers.rows(x, w, b, o, EPS, k))


def strided_cells(call, dtype):
    size = torch.tensor([], dtype=dtype).element_size()
    n = 8192
    x, y = torch.randn(n, n, device="cuda").to(dtype), torch.randn(n, n, device="cuda").to(dtype)
    wide = torch.randn(n, n + 64, device="cuda").to(dtype)[:, 8:8 + n]
    row = torch.randn(n, device="cuda").to(dtype)
    out = torch.empty_like(x)
    for op, a, b, function, operands in (("x^T + y", x, y, lambda a, b: a.t() + b, 3), ("sliced add", wide, y, torch.add, 3),
                                         ("broadcast add", x, row, torch.add, 2)):
        yield Cell(op, dtype, f"{n}x{n}", operands * n * n * size, lambda o=op, p=a, q=b: call(o, dtype, (p, q, out), n, n), [out],
                   lambda f=function, p=a, q=b: [f(p.double(), q.double())], lambda f=function, p=a, q=b: f(p, q),
                   lambda k, o=op, p=a, q=b: gpu_peers.strided(p, q, o, k))
    image = torch.randn(64, 256, 56, 56, device="cuda").to(dtype)
    nhwc = torch.empty(64, 56, 56, 256, device="cuda", dtype=dtype)
    to_nhwc = lambda x: torch.add(x.permute(0, 2, 3, 1), 1).contiguous()  # noqa: E731
    yield Cell("NCHW to NHWC, + 1", dtype, "64x256x56x56", 2 * image.numel() * size,
               lambda: call("NCHW to NHWC, + 1", dtype, (image, nhwc), 1, 1), [nhwc], lambda: [to_nhwc(image.double())],
               lambda: to_nhwc(image), None)


def dequantise_cells(call):
    r, c = 16384, 8192
    q = torch.randint(-127, 128, (r, c), device="cuda", dtype=torch.int8)
    scale = torch.rand(r, device="cuda")
    out = torch.empty(r, c, device="cuda", dtype=F16)
    function = lambda q, s: (q.float() * s[:, None]).half()  # noqa: E731
    yield Cell("dequantise", F16, f"i8 {r}x{c}", 3 * r * c, lambda: call("dequantise", F16, (q, scale, out), r, c), [out],
               lambda: [q.double() * scale.double()[:, None]], lambda: function(q, scale),
               lambda k: gpu_peers.dequantise(q, scale, k))


def cells(call):
    for dtype in (F16, BF16, F32):
        for n, shift, shape in ((1 << 28, 0, "2^28"), ((1 << 27) + 3, 0, "2^27+3"), (1 << 27, 1, "2^27 base+1")):
            yield lambda d=dtype, n=n, s=shift, t=shape: flat_cells(call, d, n, s, t)
        for r, c in ROWS:
            yield lambda d=dtype, r=r, c=c: row_cells(call, d, r, c)
        yield lambda d=dtype: strided_cells(call, d)
    yield lambda: dequantise_cells(call)


def median(values):
    return sorted(values)[len(values) // 2]


class Timer:
    def __init__(self):
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    def race(self, calls, rounds=22):
        """Median milliseconds of each call, called in turn."""
        event = lambda: torch.cuda.Event(enable_timing=True)  # noqa: E731
        marks = [[] for _ in calls]
        for _ in range(rounds):
            for i, call in enumerate(calls):
                pair = event(), event()
                self.flush.zero_()
                pair[0].record()
                call()
                pair[1].record()
                marks[i].append(pair)
        torch.cuda.synchronize()
        return [median([a.elapsed_time(b) for a, b in m[2:]]) for m in marks]

    @staticmethod
    def graphs(calls, per_graph=20, replays=20):
        """The same inside CUDA graphs, replayed in turn; None where a call cannot be captured."""
        graphs = []
        for call in calls:
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                call()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(per_graph):
                    call()
            graphs.append(graph)
        times = [[] for _ in calls]
        for _ in range(replays + 3):
            for graph, t in zip(graphs, times):
                a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                a.record()
                graph.replay()
                b.record()
                torch.cuda.synchronize()
                t.append(a.elapsed_time(b) / per_graph)
        return [median(t[3:]) for t in times]


def relative_error(cell):
    for out in cell.outs:
        out.fill_(float("nan"))
    cell.ours()
    worst = 0.0
    for out, exact in zip(cell.outs, cell.reference()):
        expected = exact.to(out.dtype).double()  # as near as the type comes: f16 has few bits below 2^-14
        worst = max(worst, float((out.double() - expected).norm() / expected.norm()))
    return worst if worst == worst else float("inf")


BOUND = {F16: 1e-3, BF16: 8e-3, F32: 2e-6}  # two units in the last place and less


def peers_of(cell, timer, do_time):
    """Names and functions: eager, torch.compile, and the fastest of Triton's candidates."""
    found = [("eager", cell.eager)]
    torch._dynamo.reset()
    compiled = torch.compile(cell.eager, dynamic=False)
    try:
        compiled()
        found.append(("compile", compiled))
    except Exception as error:  # a peer that cannot run a cell is named, and the rest goes on
        print(f"<!-- torch.compile, {cell.op} {cell.shape}: {repr(error)[:100]} -->")
    best = None
    for candidate in gpu_peers.candidates(cell.op) if cell.triton else []:
        try:
            run = cell.triton(candidate)
            run()
            torch.cuda.synchronize()
            ms = timer.race([run], rounds=7)[0] if do_time else 0.0
            if best is None or ms < best[0]:
                best = ms, run
        except Exception:  # a configuration out of resources
            continue
    if best:
        found.append(("Triton", best[1]))
    return found


def main():
    options = argparse.ArgumentParser()
    options.add_argument("library")
    options.add_argument("--only", default="")
    options.add_argument("--no-peers", action="store_true")
    options.add_argument("--graph", action="store_true")
    options.add_argument("--warm", default="")
    options.add_argument("--json", default="")
    o = options.parse_args()
    function = ctypes.CDLL(o.library).tileweave_cell
    function.restype = ctypes.c_char_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]

    def call(op, dtype, tensors, r, c):
        buffers = (ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors))
        error = function(torch.cuda.current_stream().cuda_stream, op.encode(), NAMES[dtype].encode(), buffers, r, c)
        if error:
            raise RuntimeError(error.decode())

    torch.manual_seed(1)
    timer, lines, number = Timer(), [], 0
    warm = [int(v) for v in o.warm.split("/")] if o.warm else None
    for make in cells(call):
        for cell in make():
            name = f"{cell.op} {NAMES[cell.dtype]} {cell.shape}"
            number += 1
            if (o.only and not re.search(o.only, name)) or (o.graph and cell.shape != "4096x1024"):
                continue
            if warm:
                if number % warm[1] == warm[0]:
                    peers_of(cell, timer, False)
                continue
            try:
                lines.append(measure(cell, name, timer, o))
            except RuntimeError as error:
                print(f"FAIL {name}: {error}", file=sys.stderr)
                lines.append({"name": name, "error": str(error)})
        torch.cuda.empty_cache()
    if not warm:
        report(lines, o)


def measure(cell, name, timer, o):
    error = relative_error(cell)
    peers = [] if o.no_peers else peers_of(cell, timer, True)
    calls = [cell.ours] + [run for _, run in peers]
    half = cell.bytes // 2
    source, target = (torch.empty(half, dtype=torch.uint8, device="cuda") for _ in range(2))
    ms = timer.graphs(calls) if o.graph else timer.race(calls + [lambda: target.copy_(source)])
    line = {"name": name, "op": cell.op, "dtype": NAMES[cell.dtype], "shape": cell.shape, "bytes": cell.bytes, "error": error,
            "is_right": error < BOUND[cell.dtype], "ms": ms[0], "copy": None if o.graph else ms[-1],
            "peers": {n: t for (n, _), t in zip(peers, ms[1:])}}
    print(name, f"{ms[0]:.4f}", "" if o.graph else f"{100 * ms[-1] / ms[0]:.1f} % of copy", line["peers"],
          "" if line["is_right"] else f"WRONG: {error:.2e}", file=sys.stderr, flush=True)
    return line


def report(lines, o):
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}, Triton {gpu_peers.VERSION}\n")
    print("| op | dtype | shape | ms | GB/s | % of copy | best peer, ms | peer / ours | error |\n|---|---|---|---|---|---|---|---|---|")
    ratios = []
    share = lambda line: line["copy"] / line["ms"] if line.get("copy") else 0  # noqa: E731
    for line in sorted((x for x in lines if "ms" in x), key=share):
        best = min(line["peers"].items(), key=lambda p: p[1]) if line["peers"] else None
        if best:
            ratios.append(best[1] / line["ms"])
        print(f"| {line['op']} | {line['dtype']} | {line['shape']} | {line['ms']:.4f} | {line['bytes'] / line['ms'] / 1e6:.0f} | "
              f"{100 * share(line):.1f} | " + (f"{best[1]:.4f} ({best[0]}) | {ratios[-1]:.2f}" if best else " | ") +
              f" | {line['error']:.1e}{'' if line['is_right'] else ' WRONG'} |")
    if ratios:
        product = 1.0
        for ratio in ratios:
            product *= ratio ** (1 / len(ratios))
        print(f"\n{len(ratios)} cells beside the best peer: geometric mean {product:.3f}, worst {min(ratios):.3f}")
    for line in lines:
        if "ms" not in line:
            print(f"\nFAILED {line['name']}: {line['error']}")
    if o.json:
        with open(o.json, "w") as file:
            json.dump(lines, file)


if __name__ == "__main__":
    main()
