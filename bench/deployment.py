#!/usr/bin/env python3
"""The figures of a deployment, as Markdown: main() to the first result from a warm cache and from a sealed pack, beside
Triton where it and a GPU are here; and how warm-up scales over processes. Run by bench/run.sh; needs a quiet machine.

Usage: deployment.py BUILD_DIR [VARIANTS]
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

build = pathlib.Path(sys.argv[1]).resolve()
variants = int(sys.argv[2]) if len(sys.argv) > 2 else 500
here = pathlib.Path(__file__).resolve().parent
tool, program = build / "tools/tileweave", build / "bench/first_result"
rounds = 21


def values(command, env):
    out = subprocess.run([str(c) for c in command], env=env, check=True, capture_output=True, text=True).stdout
    return {k: float(v) for k, v in (line.split("=") for line in out.splitlines() if "=" in line)}


def medians(command, env):
    runs = [values(command, env) for _ in range(rounds)]
    return {k: statistics.median(r[k] for r in runs) for k in runs[0]}


def row(name, m):
    print(f"| {name} | {m['device']:.2f} | {m['tensors']:.2f} | {m['first_call']:.3f} | {m['second_call']:.3f} | "
          f"{m['device'] + m['tensors'] + m['first_call']:.2f} | {m.get('compiled', 0):.0f} |")


def first_results(temp):
    env = dict(os.environ, TILEWEAVE_CACHE_DIR=str(temp / "cache"))
    print(f"From main() to the first result, ms, median of {rounds} new processes\n")
    print("| what | device | tensors | first call | second call | all | compiled |\n|---|---|---|---|---|---|---|")
    cold = [values([program], env | {"TILEWEAVE_CACHE_DIR": str(temp / f"cold{i}")}) for i in range(3)]
    row("empty cache", {k: statistics.median(c[k] for c in cold) for k in cold[0]})
    values([program], env)
    warm = medians([program], env)
    row("warm cache", warm)
    recorded, pack = temp / "first.rec", temp / "first.pack"
    subprocess.run([tool, "record", "-o", recorded, "--", program], env=env, check=True, stdout=subprocess.DEVNULL)
    targets = ["native"] + ([t] if (t := gpu_target()) else [])
    subprocess.run([tool, "warmup", recorded, "--target", ",".join(targets), "-o", pack], check=True, stdout=subprocess.DEVNULL)
    sealed = medians([program], env | {"TILEWEAVE_CACHE": "ro", "TILEWEAVE_JIT": "forbid", "TILEWEAVE_CACHE_LAYERS": str(pack)})
    row("sealed pack", sealed)
    triton = triton_first_call()
    if triton:
        row("Triton, warm cache (its import took %.0f ms more)" % triton["import"], triton)
        print(f"\nTriton's first call takes {triton['first_call'] / warm['first_call']:.1f} times ours from a warm cache, "
              f"{triton['first_call'] / sealed['first_call']:.1f} times ours from a sealed pack.")
    print()


def gpu_target():
    out = subprocess.run([tool, "doctor"], capture_output=True, text=True).stdout
    line = next((l for l in out.splitlines() if l.strip().startswith("cuda:0")), "")
    return next((w.strip(",") for w in line.split() if w.startswith("sm_")), "")


def triton_first_call():
    script = [sys.executable, here / "first_result_triton.py"]
    try:
        values(script, dict(os.environ))
        return medians(script, dict(os.environ))
    except subprocess.CalledProcessError:
        print("| Triton | not here: no GPU, torch or triton | | | | | |")
        return None


def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c ^= b
        for _ in range(8):
            c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    return c ^ 0xFFFFFFFF


def manifest(count):
    """`count` softmax kernels of different constants."""
    def u32(n):
        return n.to_bytes(4, "little")
    out = b"TWREC\x00\x00\x01"
    for i in range(count):
        text = (f'func "soft{i}"(%0: view<const f32, 2>, %1: view<f32, 2>) {{\n  %2 = program_id {{axis = 0}} : i64\n'
                f'  %3 = constant {{value = 0}} : i64\n  %4 = load %0, %2, %3 {{extents = [1, {512 + i}]}} : f32[1,{512 + i}]\n'
                f'  %5 = exp %4 : f32[1,{512 + i}]\n  store %1, %2, %3, %5\n}}\n').encode()
        name = f"soft{i}".encode()
        payload = u32(len(name)) + name + u32(len(text)) + text
        out += u32(len(payload)) + u32(crc32c(u32(len(payload)) + payload)) + payload
    return out


def warmups(temp):
    record = temp / "many.rec"
    record.write_bytes(manifest(variants))
    seconds = {}
    for processes in (1, 2, 1, 2):
        start = time.perf_counter()
        subprocess.run([tool, "warmup", record, "--target", "x86-64-v3", "--no-generic", "-j", str(processes), "-o",
                        temp / f"{processes}.pack"], check=True, stdout=subprocess.DEVNULL)
        seconds.setdefault(processes, []).append(time.perf_counter() - start)
    one, two = min(seconds[1]), min(seconds[2])
    same = (temp / "1.pack").read_bytes() == (temp / "2.pack").read_bytes()
    print(f"Warm-up of {variants} variants: {one:.2f} s with 1 process, {two:.2f} s with 2: {one / two:.2f} times; "
          f"packs {'are' if same else 'ARE NOT'} byte-identical.")


with tempfile.TemporaryDirectory() as t:
    first_results(pathlib.Path(t))
    warmups(pathlib.Path(t))
