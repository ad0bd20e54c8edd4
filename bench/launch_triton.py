"""The peer of launch_overhead.cpp: what one launch of an empty Triton kernel costs the host, by number of arguments. Medians of
batches smaller than the driver's queue. Needs a GPU, torch and triton."""
import os
import tempfile
import time

import torch
import triton


def kernel_of(pointers, numbers):
    names = [f"p{i}" for i in range(pointers)] + [f"n{i}" for i in range(numbers)]
    path = os.path.join(tempfile.gettempdir(), f"launch_triton_{pointers}_{numbers}.py")
    with open(path, "w") as file:  # Triton reads a kernel's source from its file
        file.write(f"import triton\n@triton.jit\ndef empty({', '.join(names)}):\n    pass\n")
    scope = {}
    exec(compile(open(path).read(), path, "exec"), scope)
    return scope["empty"]


def main():
    x = torch.zeros(16, device="cuda")
    print("| arguments | ns a launch, Triton " + triton.__version__ + " |\n|---|---|")
    for pointers, numbers in ((0, 0), (2, 3), (9, 10), (27, 31)):
        kernel = kernel_of(pointers, numbers)
        arguments = [x] * pointers + [1.5] * numbers
        grid = (1,)
        times = []
        for _ in range(102):
            start = time.perf_counter_ns()
            for _ in range(250):
                kernel[grid](*arguments)
            times.append((time.perf_counter_ns() - start) / 250)
            torch.cuda.synchronize()
        print(f"| {pointers + numbers} | {sorted(times[1:])[50]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
