"""Random programs of the loop IR's grammar: nests over elements and rows, renamed, guarded, nested, aliased, carried.

``random_program(seed)`` is the door. Values are small integers in float64, so that sums in another order are equal.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

NAMES = ["a", "b", "c", "d", "e", "f", "g", "h", "p", "q", "r", "u", "v", "w", "x", "y", "z", "left", "out", "rho"]
SIZE = 12


class Program(NamedTuple):
    """``source``: a function called ``program``; ``inputs()``: fresh arguments, the same every time."""

    source: str
    inputs: Callable[[], dict[str, Any]]


def random_program(seed: int) -> Program:
    """One loop nest between the creation of what it fills and a ``return`` of all it may have changed."""
    return _Writer(random.Random(seed)).program(seed)


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        names = rng.sample(NAMES, 14)
        self.vectors, self.matrices, self.scalars = names[:3], names[3:5], names[5:7]
        self.temporaries, self.index, self.rows = names[7:9], names[9], names[10]
        self.variables, self.list, self.size = ["i", "j", "k"], names[11], "n"
        self.lines: list[str] = []
        self.bound: list[str] = []
        self.readable: list[str] = []
        self.fills = self.appends = self.counts = False
        self.count = names[12]

    def program(self, seed: int) -> Program:
        rng = self.rng
        alias = rng.random() < 0.15
        self.fills = rng.random() < 0.2
        self.counts = rng.random() < 0.15
        start = [f"{self.scalars[0]} = {rng.choice(['0.0', '1.0', self.vectors[0] + '[0]', '0'])}"]
        start += [f"{self.scalars[1]} = 2.0"]
        if rng.random() < 0.3:
            start.append(f"{self.temporaries[0]} = 3.0")
            self.readable.append(self.temporaries[0])
        start += [f"{self.list} = []"] if self.fills else []
        start += [f"{self.count} = 0"] if self.counts else []
        self.loop(0, "    ")
        results = [*self.vectors, *self.matrices, *self.scalars]
        end = f"return {', '.join(results)}"
        if self.appends:
            end += f", torch.stack({self.list}) if {self.list} else 0"
        arguments = [*self.vectors, *self.matrices, self.index, self.size]
        body = [f"    {line}" for line in start] + self.lines + [f"    {end}"]
        source = f"def program({', '.join(arguments)}):\n" + "\n".join(body) + "\n"
        return Program(source, lambda: self.inputs(seed, alias))

    def inputs(self, seed: int, alias: bool) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(seed)

        def numbers(*shape: int) -> torch.Tensor:
            return torch.randint(-3, 4, shape, generator=generator).to(torch.float64)

        found: dict[str, Any] = {name: numbers(SIZE) for name in self.vectors}
        found |= {name: numbers(SIZE, SIZE) for name in self.matrices}
        if alias:
            found[self.matrices[1]] = found[self.matrices[0]].t()
            found[self.vectors[2]] = found[self.vectors[0]][: SIZE - 1]
        found[self.index] = torch.randint(0, 5, (SIZE,), generator=generator)
        found[self.size] = 4
        return found

    # --- loops --------------------------------------------------------------------------------------------------------

    def loop(self, depth: int, indent: str) -> None:
        rng = self.rng
        variable = self.variables[depth]
        header = self.header(variable, depth)
        self.lines.append(f"{indent}{header}")
        self.bound.append(variable)
        readable = list(self.readable)
        inside = indent + "    "
        before = len(self.lines)
        for _ in range(rng.randint(1, 3)):
            self.statement(inside)
        if depth < 1 and rng.random() < 0.6:
            if rng.random() < 0.5:
                accumulator = self.scalars[0]
                self.lines.append(f"{inside}{accumulator} = {rng.choice(['0.0', '1.0', '-9.0'])}")
                self.loop(depth + 1, inside)
                self.lines.append(f"{inside}{self.place()} = {accumulator}")
            else:
                self.loop(depth + 1, inside)
            if rng.random() < 0.4:
                self.statement(inside)
        if self.counts and depth == 0:
            self.lines.append(f"{inside}{self.count} += 1")
        assert len(self.lines) > before
        self.bound.pop()
        self.readable = readable

    def header(self, variable: str, depth: int) -> str:
        rng, size = self.rng, self.size
        ranges = [
            f"range({size})", f"range({size})", f"range(1, {size})", f"range({size} - 1, -1, -1)", "range(0, 6, 2)",
            f"range(len({self.index}) - 6)", "range(2, 5)",
        ]  # fmt: skip
        if depth:
            ranges += [f"range({self.bound[0]})", f"range({self.bound[0]}, {size})"]
        elif rng.random() < 0.2:
            return rng.choice(
                [
                    f"for {variable}, {self.rows} in enumerate({self.vectors[2]}[:5]):",
                    f"for {variable}, {self.rows} in enumerate({self.matrices[1]}):",
                    f"for {variable} in reversed(range({size})):",
                ]
            ).replace("[:5]", "")
        return f"for {variable} in {rng.choice(ranges)}:"

    # --- statements ---------------------------------------------------------------------------------------------------

    def statement(self, indent: str, guarded: bool = False) -> None:
        rng = self.rng
        kind = rng.random()
        if kind < 0.34:
            self.lines.append(f"{indent}{self.place()} = {self.value()}")
        elif kind < 0.5:
            self.lines.append(f"{indent}{self.place()} {rng.choice(['+=', '+=', '-=', '*='])} {self.value()}")
        elif kind < 0.6:
            scalar = rng.choice(self.scalars)
            term = self.value(scalars=False)
            forms = [f"{scalar} += {term}", f"{scalar} = {scalar} + {term}", f"{scalar} = max({scalar}, {term})"]
            self.lines.append(f"{indent}{rng.choice(forms)}")
        elif kind < 0.68:
            temporary = rng.choice(self.temporaries)
            self.lines.append(f"{indent}{temporary} = {self.value()}")
            if not guarded:
                self.readable.append(temporary)
        elif kind < 0.73:
            one, two = self.place(), self.place()
            self.lines.append(f"{indent}{one}, {two} = {self.value()}, {self.value()}")
        elif kind < 0.78:
            vector, variable = rng.choice(self.vectors), rng.choice(self.bound)
            prior = rng.choice(["- 1", "- 1", "+ 1", "- 2"])
            self.lines.append(f"{indent}{vector}[{variable}] = {vector}[{variable} {prior}] + {self.element()}")
        elif kind < 0.83 and self.fills and not guarded:
            self.appends = True
            self.lines.append(f"{indent}{self.list}.append({self.element()} + {self.value()})")
        elif kind < 0.87 and not guarded and len(self.bound) == 1:
            self.lines += [f"{indent}if {self.test()}:", f"{indent}    continue"]
            self.statement(indent, guarded=True)
        elif not guarded:
            self.lines.append(f"{indent}if {self.test()}:")
            for _ in range(rng.randint(1, 2)):
                self.statement(indent + "    ", guarded=True)
            if rng.random() < 0.4:
                self.lines.append(f"{indent}else:")
                self.statement(indent + "    ", guarded=True)
        else:
            self.lines.append(f"{indent}{self.place()} = {self.value()}")

    def test(self) -> str:
        rng = self.rng
        variable = rng.choice(self.bound)
        options = [
            f"{self.element()} > 0",
            f"{variable} % 2 == 0",
            f"{variable} < 2",
            f"{self.element()} <= {self.element()}",
        ]
        if len(self.bound) > 1:
            options.append("i < j")
        return rng.choice(options)

    # --- expressions --------------------------------------------------------------------------------------------------

    def index_of(self) -> str:
        rng = self.rng
        variable = rng.choice(self.bound)
        plain = [variable] * 8 + [
            f"{variable} + 1", f"{variable} - 1", f"2 * {variable}", f"{self.size} - 1 - {variable}", f"{variable} + 4",
            f"{self.index}[{variable}]", "0", f"{variable} // 2", f"-{variable} - 1",
        ]  # fmt: skip
        if self.counts:
            plain += [self.count] * 2
        if len(self.bound) > 1:
            plain += ["i + j", "i", "j", "i - j"]
        return rng.choice(plain)

    def element(self) -> str:
        if self.rng.random() < 0.6:
            return f"{self.rng.choice(self.vectors)}[{self.index_of()}]"
        matrix, comma = self.rng.choice(self.matrices), self.rng.choice([", ", ", ", "]["])
        return f"{matrix}[{self.index_of()}{comma}{self.index_of()}]"

    def place(self) -> str:
        return self.element()

    def value(self, scalars: bool = True) -> str:
        rng = self.rng
        kind = rng.random()
        if self.readable and rng.random() < 0.35:
            return rng.choice([f"{rng.choice(self.readable)} + {self.element()}", rng.choice(self.readable)])
        if kind < 0.45:
            return self.element()
        if kind < 0.75:
            return f"{self.element()} {rng.choice(['+', '-', '*'])} {self.element()}"
        if kind < 0.8:
            return f"max({self.element()}, {rng.choice(self.bound)})"
        if kind < 0.86:
            return f"({self.element()} if {self.test()} else {self.element()})"
        if kind < 0.93 and scalars:
            return f"{rng.choice(self.scalars)} + {self.element()}"
        return rng.choice(["1.0", f"{rng.choice(self.bound)} * 2.0", f"{self.vectors[0]}[1:4].sum()"])
