"""The peer of first_result.cpp: Triton's first call of the same kernel in a new process, its import and the context apart.
Prints milliseconds as "name=value". Needs a GPU, torch and triton; run it twice, so that its disk cache is warm."""
import time

start = time.perf_counter()
import torch
import triton
import triton.language as tl

imported = time.perf_counter()


@triton.jit
def softmax(x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = row * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + at, e / tl.sum(e, 0))


torch.cuda.init()
torch.cuda.synchronize()
opened = time.perf_counter()
x = torch.ones(128, 1024, device="cuda")
y = torch.empty_like(x)
torch.cuda.synchronize()
tensors = time.perf_counter()
softmax[(128,)](x, y, BLOCK=1024)
torch.cuda.synchronize()
first = time.perf_counter()
softmax[(128,)](x, y, BLOCK=1024)
torch.cuda.synchronize()
second = time.perf_counter()
assert y[0, 1000].item() == 1 / 1024
for name, seconds in (("import", imported - start), ("device", opened - imported), ("tensors", tensors - opened),
                      ("first_call", first - tensors), ("second_call", second - first)):
    print(f"{name}={1000 * seconds:.3f}")
