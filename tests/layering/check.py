#!/usr/bin/env python3
"""Checks the arrows of docs/architecture: which box includes which, and which foreign library it alone touches.

Also: getenv, throw and driver calls in their one place, no file called utils/common/misc/helpers, files under 700 lines.
Exit status 1 and one line per violation.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])

# box -> (its files, what it may include). Paths are prefixes of "tileweave/..." includes.
BASE = ["jit/base/"]
IR = BASE + ["jit/ir/"]
BOXES = {
    "jit/base": BASE,
    "jit/ir": IR,
    "jit/passes": IR + ["jit/passes/"],
    "jit/codegen": IR + ["jit/codegen/"],
    "jit/runtime": BASE + ["jit/runtime/"],
    "cache": BASE + ["cache/"],
    "dsl/decorator": BASE,
    "dsl": BASE + ["jit/ir/builder.h", "jit/ir/ops.h", "jit/ir/ops.def", "jit/ir/structural_ops.def", "jit/ir/type.h",
                   "jit/ir/function.h", "jit/ir/generic.h", "jit/ir/limits.h", "jit/ir/host_eval.h", "jit/jit.h",
                   "jit/stored_kernels.h", "jit/runtime/", "dsl/"],
    "ops": ["dsl/", "ops/", "tileweave.h"],
    "samples": ["tileweave.h"],
}
EXTRA = {"dsl/tileweave.h": ["ops/"]}  # the umbrella alone may name ops/

FOREIGN = [  # pattern of an include, files that may have it
    (r"llvm/", r"^jit/codegen/|^dsl/decorator/|^tests/"),
    (r"clang/", r"^dsl/decorator/"),
    (r"cuda|nvrtc|nvJitLink", r"^$"),
    (r"xxhash", r"^cache/|^tests/"),
    (r"zstd", r"^cache/|^tests/"),
    (r"tbb/|oneapi/", r"^jit/runtime/[a-z_]*pool\.cpp$"),
    (r"boost/", r"^jit/runtime/simt_"),
    (r"CLI/|nlohmann/", r"^tools/"),
]
WORDS = [  # pattern in code, files that may have it, what to do instead
    (r"\bgetenv\b", r"^jit/base/env\.cpp$|^tests/", "ask env()"),
    (r"\bthrow\s+[A-Za-z_:]+\(", r"^jit/base/error\.(h|cpp)$|^tests/", "call a throw_... function of jit/base/error.h"),
    (r"\bcu(Init|Launch|Mem|Ctx|Stream|Event|Module|Device)[A-Z]\w*\(", r"^jit/runtime/cuda|^tests/|^bench/", "go through jit/runtime/cuda_driver.h"),
    (r"\b(TODO|FIXME|XXX)\b", r"^tests/layering/", "finish it"),
]


def violations():
    files = [p for ext in ("h", "cpp", "def") for p in root.rglob(f"*.{ext}")]
    for path in sorted(files):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] in ("build", "out", "carry", ".git"):
            continue
        if re.fullmatch(r"(utils?|common|misc|helpers?)\.\w+", path.name):
            yield f"{name}: a file's name says its subject"
        text = path.read_text()
        lines = text.splitlines()
        if len(lines) > 700 and path.suffix != ".def":
            yield f"{name}: {len(lines)} lines: split by subject at 700"
        box = next((b for b in BOXES if name.startswith(b + "/")), None)
        for number, line in enumerate(lines, 1):
            where = f"{name}:{number}"
            include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if include:
                target = include.group(1)
                for pattern, allowed in FOREIGN:
                    if re.match(pattern, target) and not re.search(allowed, name):
                        yield f"{where}: includes {target}, which is not this box's to touch"
                if box and target.startswith("tileweave/"):
                    inner = target.removeprefix("tileweave/")
                    may = BOXES[box] + EXTRA.get(name, [])
                    if not any(inner.startswith(m) for m in may):
                        yield f"{where}: {box} may not include {target}"
                continue
            code = re.sub(r'"(\\.|[^"\\])*"', '""', line.split("//")[0])
            for pattern, allowed, advice in WORDS:
                if re.search(pattern, code) and not re.search(allowed, name):
                    yield f"{where}: {advice}: {line.strip()}"


found = list(violations())
for v in found:
    print(v)
print(f"layering: {len(found)} violations")
sys.exit(1 if found else 0)
