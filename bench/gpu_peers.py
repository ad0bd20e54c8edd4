"""The Triton kernels beside which gpu_memory_bound.py times ours: each op as its users write it, in a few configurations."""
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

VERSION = triton.__version__
FLAT = [(block, warps) for block in (1024, 2048, 4096, 8192) for warps in (4, 8)]
ROW = [(rows, warps) for rows in (1, 2, 4) for warps in (2, 4, 8, 16, 32)]
FLAT_OPS = {"add": 1, "gelu exact": 2, "gelu tanh": 3, "fused gelu": 4, "decorated gelu": 4}
ROW_OPS = {"softmax": 0, "LayerNorm": 1, "LayerNorm+GELU": 2, "RMSNorm": 3}


def candidates(op):
    return ROW if op in ROW_OPS else FLAT


@triton.jit
def erf_gelu(x):
    return 0.5 * x * (1.0 + tl.math.erf(x * 0.7071067811865476))


@triton.jit
def flat_kernel(x_ptr, y_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    if OP == 1:
        r = x + tl.load(y_ptr + at, mask=mask)
    else:
        v = x.to(tl.float32)
        if OP == 2:
            r = erf_gelu(v)
        elif OP == 3:
            r = v * tl.sigmoid(1.5957691216057308 * (v + 0.044715 * v * v * v))
        else:
            r = v * 0.5 * (1.0 + libdevice.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))
    tl.store(out_ptr + at, r.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def row_kernel(x_ptr, w_ptr, b_ptr, y_ptr, columns, eps, OP: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    inside = (c < columns)[None, :]
    at = r[:, None].to(tl.int64) * columns + c[None, :]
    if OP == 0:
        x = tl.load(x_ptr + at, mask=inside, other=-float("inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, 1)[:, None])
        y = e / tl.sum(e, 1)[:, None]
    else:
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + c, mask=c < columns, other=0.0).to(tl.float32)
        if OP == 3:
            y = x * tl.rsqrt(tl.sum(x * x, 1) / columns + eps)[:, None] * w[None, :]
        else:
            b = tl.load(b_ptr + c, mask=c < columns, other=0.0).to(tl.float32)
            d = tl.where(inside, x - (tl.sum(x, 1) / columns)[:, None], 0.0)
            y = d * tl.rsqrt(tl.sum(d * d, 1) / columns + eps)[:, None] * w[None, :] + b[None, :]
            if OP == 2:
                y = erf_gelu(y)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def strided_kernel(x_ptr, y_ptr, out_ptr, pitch_x, pitch_y, columns, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + r * columns + c, tl.load(x_ptr + r * pitch_x + c) + tl.load(y_ptr + r * pitch_y + c))


@triton.jit
def transposed_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    m, k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + k[:, None] * n + m[None, :])
    at = m[:, None] * n + k[None, :]
    tl.store(out_ptr + at, tl.trans(x) + tl.load(y_ptr + at))


@triton.jit
def dequantise_kernel(q_ptr, scale_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(q_ptr + r * columns + c).to(tl.float32) * tl.load(scale_ptr + r)
    tl.store(out_ptr + r * columns + c, q.to(out_ptr.dtype.element_ty))


def flat(x, y, op, candidate):
    block, warps = candidate
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), block),)
    other = y if y is not None else x
    return lambda: flat_kernel[grid](x, other, out, x.numel(), OP=FLAT_OPS[op], BLOCK=block, num_warps=warps)


def rows(x, w, b, op, eps, candidate):
    rows_each, warps = candidate
    r, c = x.shape
    block = triton.next_power_of_2(c)
    if block * rows_each > 32768 or block * rows_each < 32 * warps:
        raise ValueError("no such configuration")
    out = torch.empty_like(x)
    return lambda: row_kernel[(r // rows_each,)](x, w, b, out, c, eps, OP=ROW_OPS[op], BLOCK=block, ROWS=rows_each,
                                                 num_warps=warps)


def strided(x, y, op, candidate):
    block, warps = candidate
    r, c = x.shape
    out = torch.empty(r, c, device=x.device, dtype=x.dtype)
    if op == "x^T + y":
        side = {1024: 32, 2048: 64, 4096: 128}[block]
        return lambda: transposed_kernel[(r // side, c // side)](x, y, out, r, BLOCK=side, num_warps=warps)
    pitch = y.stride(0) if y.dim() == 2 else 0
    return lambda: strided_kernel[(r, c // block)](x, y, out, x.stride(0), pitch, c, BLOCK=block, num_warps=warps)


def dequantise(q, scale, candidate):
    block, warps = candidate
    r, c = q.shape
    out = torch.empty(r, c, device=q.device, dtype=torch.float16)
    return lambda: dequantise_kernel[(r, c // block)](q, scale, out, c, BLOCK=block, num_warps=warps)
