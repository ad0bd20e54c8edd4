#!/usr/bin/env python3
"""Installs the build into a fresh prefix and uses it as a stranger would: from another directory, by CMake and by pkg-config.

Also checks the libraries themselves: libtileweave under 5 MB and without LLVM, libtileweave_jit with one exported function.
Usage: check.py BUILD_DIR
"""
import os
import pathlib
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1])
PROGRAM = r"""
#include <tileweave/tileweave.h>
#include <cstdio>
namespace tw = tileweave;
const auto twice = tw::kernel("twice", [](tw::View<const float, 1> x, tw::View<float, 1> y, tw::Const<int> block) {
  auto first = tw::program_id(0) * block;
  tw::store(y, {first}, 2.0f * tw::load(x, {first}, {block}));
});
int main() {
  auto device = tw::Device::best();
  auto x = tw::random_normal<float>(device, {1000}, 1);
  auto y = tw::Tensor<float>::empty(device, {1000});
  twice.launch(device.stream(), {tw::cdiv(1000, 64)}, x, y, 64);
  if (y.to_host()[999] != 2 * x.to_host()[999]) return 1;
  std::puts("installed tileweave works");
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(stranger LANGUAGES CXX)
find_package(tileweave REQUIRED)
add_executable(stranger main.cpp)
target_link_libraries(stranger PRIVATE tileweave::tileweave)
"""


def run(*command, **kw):
    print("+", " ".join(map(str, command)), flush=True)
    return subprocess.run([str(c) for c in command], check=True, text=True, **kw)


def exported(library):
    out = run("nm", "-D", "--defined-only", "-C", library, capture_output=True).stdout
    return [line.split(" ", 2)[-1] for line in out.splitlines()]


def check_libraries(lib):
    front = (lib / "libtileweave.so").resolve()
    jit = lib / "libtileweave_jit.so"
    size = front.stat().st_size
    assert size < 5_000_000, f"{front} has {size} bytes"
    needed = run("readelf", "-d", front, capture_output=True).stdout
    assert "LLVM" not in needed, "libtileweave needs LLVM"
    for library in (front, jit):
        leaked = [s for s in exported(library) if "llvm::" in s]
        assert not leaked, f"{library} exports {leaked[:3]}"
    names = [s for s in exported(jit) if not s.startswith("TILEWEAVE")]
    functions = [s.split()[-1] for s in names]
    assert functions == ["tileweave_jit_compile"], f"libtileweave_jit exports {functions[:5]}"
    print(f"libtileweave: {size / 1e6:.2f} MB, no LLVM; libtileweave_jit: {jit.stat().st_size / 1e6:.1f} MB, one function")


with tempfile.TemporaryDirectory() as temp:
    temp = pathlib.Path(temp)
    prefix, source = temp / "prefix", temp / "source"
    run("cmake", "--install", build, "--prefix", prefix, stdout=subprocess.DEVNULL)
    lib = next(p.parent for p in prefix.rglob("libtileweave_jit.so"))
    check_libraries(lib)
    source.mkdir()
    (source / "main.cpp").write_text(PROGRAM)
    (source / "CMakeLists.txt").write_text(CMAKE)
    env = dict(os.environ, TILEWEAVE_CACHE_DIR=str(temp / "cache"), PKG_CONFIG_PATH=str(lib / "pkgconfig"))
    run("cmake", "-S", source, "-B", temp / "build", f"-DCMAKE_PREFIX_PATH={prefix}", stdout=subprocess.DEVNULL)
    run("cmake", "--build", temp / "build", stdout=subprocess.DEVNULL)
    run(temp / "build/stranger", env=env)
    flags = run("pkg-config", "--cflags", "--libs", "tileweave", env=env, capture_output=True).stdout.split()
    run("g++", source / "main.cpp", "-o", temp / "by_pkg_config", *flags, f"-Wl,-rpath,{lib}")
    run(temp / "by_pkg_config", env=env)
    # The C interface, by a C compiler that knows no C++.
    in_c = [f for f in flags if not f.startswith("-std")]
    c_program = pathlib.Path(__file__).resolve().parent.parent / "c" / "c_api_test.c"
    run("gcc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", c_program, "-o", temp / "in_c", *in_c,
        f"-Wl,-rpath,{lib}")
    run(temp / "in_c", env=dict(env, TILEWEAVE_DEVICE="cpu"))
