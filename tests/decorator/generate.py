#!/usr/bin/env python3
"""Writes a file of random scalar C++ functions, decorated, for random_test.cpp: expressions, branches, loops, switches, early
returns, mixed integer and float types. No undefined behaviour (integers overflow in unsigned arithmetic only, divisors are never 0
or -1, shifts are in range, floats become integers within range; floats are IEEE 754), and no NaN whose bits are looked at, so that
every correct implementation gives the same bits; a function whose name ends in _t returns a transcendental function of such a value.

Usage: generate.py SEED COUNT OUT.cpp
"""
import random
import sys

seed, count, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dice = random.Random(seed)
FLOATS, INTS = ["float", "double"], ["int", "unsigned", "std::int64_t", "std::uint64_t", "std::int16_t", "std::uint8_t"]
SIGNATURES = {  # result, parameters
    "ffi": ("float", ["float", "float", "int"]),
    "ddi": ("double", ["double", "double", "int"]),
    "iiu": ("int", ["int", "int", "unsigned"]),
    "uuf": ("unsigned", ["unsigned", "unsigned", "float"]),
}


def is_float(t):
    return t in FLOATS


def is_wide_signed(t):  # whose overflow C++ leaves undefined; narrower ones compute in int, which holds their products
    return t in ("int", "std::int64_t")


def literal(t):
    if t == "float":
        return dice.choice(["0.5f", "-1.25f", "3.0f", "1e-3f", "0.0f", "2.0f", "-7.5f", "100.0f"])
    if t == "double":
        return dice.choice(["0.5", "-1.25", "3.0", "1e-3", "0.0", "2.0", "-7.5", "1e10"])
    if t == "unsigned":
        return dice.choice(["1u", "3u", "255u", "0x80000000u", "17u"])
    if t in ("std::int64_t", "std::uint64_t"):
        return f"{t}({dice.choice(['1', '5', '1000003', '255', '4294967297'])})"
    if t in ("std::int16_t", "std::uint8_t"):
        return f"{t}({dice.choice(['1', '5', '100', '0', '33'])})"
    return dice.choice(["1", "2", "-3", "7", "100", "-1000", "0"])


class Function:
    def __init__(self, name, signature, earlier):
        self.name, self.earlier = name, earlier
        self.result, self.parameters = SIGNATURES[signature]
        self.variables = []  # (name, type, assignable)
        self.lines, self.depth, self.next, self.budget = [], 1, 0, 8
        self.loops = 0

    def emit(self, text):
        self.lines.append("  " * self.depth + text)

    def fresh(self):
        self.next += 1
        return f"v{self.next}"

    def read(self, t):
        same = [v for v, vt, _ in self.variables if vt == t]
        if same and dice.random() < 0.85:
            return dice.choice(same)
        if self.variables and dice.random() < 0.6:
            v, vt, _ = dice.choice(self.variables)
            return self.converted(v, vt, t)
        return literal(t)

    def converted(self, e, s, t):
        if s == t:
            return e
        if is_float(s) and not is_float(t):  # in range, and a NaN becomes a bound
            e = f"std::fmax({s}(0), std::fmin({s}(100), {e}))"
        return f"static_cast<{t}>({e})"

    def cast(self, t, depth):
        s = dice.choice(FLOATS + INTS)
        return self.converted(self.expression(s, depth - 1), s, t)

    def expression(self, t, depth):
        if depth <= 0 or dice.random() < 0.15:
            return self.read(t)
        a = lambda: self.expression(t, depth - 1)
        k = dice.random()
        if k < 0.12:
            return self.cast(t, depth)
        if k < 0.24:
            return f"({self.condition(depth - 1)} ? {a()} : {a()})"
        if k < 0.32:
            f = dice.choice(["min", "max"])
            return f"std::{f}<{t}>({a()}, {a()})"
        if is_float(t):
            if k < 0.75:
                return f"({a()} {dice.choice('+-*/+-*')} {a()})"
            f = dice.choice(["fabs", "floor", "ceil", "trunc", "round", "nearbyint", "sqrt", "fma", "copysign", "bits", "neg", "fmod"])
            if f == "fma":
                return f"std::fma({a()}, {a()}, {a()})"
            if f == "copysign":
                return f"std::copysign({a()}, tame({a()}))"
            if f == "fmod":
                return f"std::fmod({a()}, {a()})"
            if f == "neg":
                return f"(-({a()}))"
            if f == "bits":
                u = "std::uint32_t" if t == "float" else "std::uint64_t"
                return f"tame(std::bit_cast<{t}>(std::bit_cast<{u}>(tame({a()})) ^ {u}({dice.choice([1, 8, 4096])})))"
            return f"std::{f}({a()})"
        if k < 0.60:
            return self.arithmetic(t, dice.choice("+-*&|^"), a(), a())
        if k < 0.72:
            divisor = f"(({a()} & 15) + 1)" if not is_wide_signed(t) or dice.random() < 0.6 else f"(({a()} & 15) - 17)"
            return f"static_cast<{t}>({a()} {dice.choice('/%')} {divisor})"
        if k < 0.82:
            return f"static_cast<{t}>({a()} {dice.choice(['<<', '>>'])} ({self.expression('int', depth - 1)} & 7))"
        if k < 0.88:
            return f"static_cast<{t}>(~{a()})"
        if k < 0.94 and self.earlier:
            name, signature = dice.choice(self.earlier)
            result, parameters = SIGNATURES[signature]
            call = f"{name}({', '.join(self.expression(p, 1) for p in parameters)})"
            return f"static_cast<{t}>({call if not is_float(result) else f'std::fmax({result}(0), std::fmin({result}(100), {call}))'})"
        return self.arithmetic(t, "-", "", a())

    def arithmetic(self, t, symbol, a, b):
        """a symbol b, or symbol b where a is empty: bounded or in unsigned arithmetic where t could overflow."""
        gap = " " if a else ""
        if not is_wide_signed(t) or symbol in "&|^":
            return f"static_cast<{t}>({a}{gap}{symbol}{gap}{b})"
        if dice.random() < 0.5:
            u = "unsigned" if t == "int" else "std::uint64_t"
            return f"static_cast<{t}>({a and f'static_cast<{u}>({a})'}{gap}{symbol}{gap}static_cast<{u}>({b}))"
        return f"({a and f'({a} % 10007)'}{gap}{symbol}{gap}({b} % 10007))"

    def condition(self, depth):
        k = dice.random()
        if k < 0.15 and depth > 0:
            return f"({self.condition(depth - 1)} {dice.choice(['&&', '||'])} {self.condition(depth - 1)})"
        if k < 0.22 and depth > 0:
            return f"!({self.condition(depth - 1)})"
        if k < 0.30:
            return f"{dice.choice(['std::isnan', 'std::isinf', 'std::isfinite'])}({self.expression(dice.choice(FLOATS), depth)})"
        t = dice.choice(FLOATS + INTS)
        return f"{self.expression(t, depth)} {dice.choice(['<', '<=', '>', '>=', '==', '!='])} {self.expression(t, depth)}"

    def block(self, statements, in_loop):
        mark = len(self.variables)
        self.depth += 1
        for _ in range(statements):
            self.statement(in_loop)
        self.depth -= 1
        del self.variables[mark:]

    def statement(self, in_loop):
        self.budget -= 1
        assignable = [(v, t) for v, t, w in self.variables if w]
        k = dice.random()
        if self.budget < 0 or k < 0.2 or not assignable:
            t = dice.choice(FLOATS + INTS)
            v = self.fresh()
            self.emit(f"{t} {v} = {self.expression(t, 2)};")
            self.variables.append((v, t, True))
        elif k < 0.45:
            v, t = dice.choice(assignable)
            if dice.random() < 0.5:
                self.emit(f"{v} = {self.expression(t, 3)};")
            elif is_float(t):
                self.emit(f"{v} {dice.choice(['+=', '-=', '*=', '/='])} {self.expression(t, 2)};")
            elif is_wide_signed(t) and dice.random() < 0.6:
                self.emit(f"{v} %= 10007;")
                steps = [f"{v}{dice.choice(['++', '--'])};", f"{v} {dice.choice(['+=', '-=', '*='])} {self.expression(t, 2)} % 10007;"]
                self.emit(dice.choice(steps))
            elif not is_wide_signed(t) and dice.random() < 0.6:
                steps = [f"{v}{dice.choice(['++', '--'])};", f"{v} {dice.choice(['+=', '-=', '*='])} {self.expression(t, 2)};"]
                self.emit(dice.choice(steps))
            else:
                self.emit(f"{v} {dice.choice(['&=', '|=', '^='])} {self.expression(t, 2)};")
        elif k < 0.62 and self.depth < 4:
            self.emit(f"if ({self.condition(2)}) {{")
            self.block(dice.randint(1, 2), in_loop)
            if dice.random() < 0.3:
                self.depth += 1
                self.leave(in_loop)
                self.depth -= 1
            if dice.random() < 0.5:
                self.emit("} else {")
                self.block(dice.randint(1, 2), in_loop)
            self.emit("}")
        elif k < 0.82 and self.loops < 2 and self.depth < 4:
            self.loop()
        elif k < 0.9 and self.depth < 4:
            self.emit(f"switch ({self.expression('int', 1)} & 3) {{")
            for case in dice.sample(range(4), 2):
                self.emit(f"  case {case}: {{")
                self.block(1, False)
                self.emit("    break;\n  }" if dice.random() < 0.8 else "  }")
            if dice.random() < 0.5:
                self.emit("  default: {")
                self.block(1, False)
                self.emit("  }")
            self.emit("}")
        else:
            self.emit(f"if ({self.condition(1)}) {{")
            self.depth += 1
            self.leave(in_loop)
            self.depth -= 1
            self.emit("}")

    def leave(self, in_loop):
        if in_loop and dice.random() < 0.7:
            self.emit(dice.choice(["break;", "continue;"]))
        else:
            self.emit(f"return {self.expression(self.result, 2)};")

    def loop(self):
        self.loops += 1
        i = self.fresh()
        k = dice.random()
        bound = str(dice.choice([3, 5])) if k < 0.5 else f"({self.expression('int', 1)} & 7)"
        if k < 0.8:
            self.emit(f"for (int {i} = 0; {i} < {bound}; {dice.choice([f'++{i}', f'{i} += 2'])}) {{")
        else:
            self.emit(f"int {i} = 0;")
            self.emit(f"while ({i}++ < {bound}{' && ' + self.condition(1) if dice.random() < 0.5 else ''}) {{")
        self.variables.append((i, "int", False))
        self.block(dice.randint(1, 3), True)
        self.emit("}")
        self.variables = [v for v in self.variables if v[0] != i]
        self.loops -= 1

    def text(self):
        for k, t in enumerate(self.parameters):
            self.variables.append((f"p{k}", t, True))
        for _ in range(dice.randint(1, 5)):
            self.statement(False)
        r = self.expression(self.result, 3)
        if self.name.endswith("_t"):
            f = dice.choice(["exp", "log", "sin", "cos", "tanh", "erf", "log1p", "expm1", "cbrt", "atan", "log2", "exp2"])
            # Only the last step is inexact: what comes before is the same in every implementation.
            self.lines = [l.replace("return ", "return 0 * ") for l in self.lines]
            r = f"std::{f}({r})"
        self.emit(f"return {r};")
        p = ", ".join(f"{t} p{k}" for k, t in enumerate(self.parameters))
        return f"TILEWEAVE_FUSION_GROUP inline {self.result} {self.name}({p}) {{\n" + "\n".join(self.lines) + "\n}\n"


functions, earlier = [], []
text = f"""// Written by tests/decorator/generate.py, seed {seed}.
#include <tileweave/dsl/element.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace random_{seed} {{
TILEWEAVE_FUSION_GROUP inline float tame(float x) {{ return x == x ? x : 1.0f; }}
TILEWEAVE_FUSION_GROUP inline double tame(double x) {{ return x == x ? x : 1.0; }}
"""
for n in range(count):
    signature = dice.choice(list(SIGNATURES))
    last = n % 5 == 4 and is_float(SIGNATURES[signature][0])
    name = f"f{n}" + ("_t" if last else "")
    f = Function(name, signature, earlier[-20:])
    text += f.text()
    if not last:
        earlier.append((name, signature))
    functions.append((name, signature))
text += f"""}}  // namespace random_{seed}
#include "{out.rsplit('/', 1)[-1].removesuffix('.cpp')}.fusion.h"
#include "random_table.h"

extern const Random random_{seed}_functions[] = {{
"""
for name, signature in functions:
    text += f"    RANDOM({seed}, {name}, {signature}),\n"
text += f"}};\nextern const int random_{seed}_count = {count};\n"
open(out, "w").write(text)
