"""docs/reference/support_matrix.md, from the record; `tools/generate.py` writes it."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

from .matrix import COLUMNS, rows
from .record import load
from .verdict import NOT_OFFERED, RAISES, RIGHT, WARNED, WRONG

_MARKS = {RIGHT: "right", RAISES: "raises", WRONG: "**silently wrong**", WARNED: "**wrong**, warns", NOT_OFFERED: "–"}
_TOP = """<!-- Made by `python tools/generate.py` from benchmarks/results/details/support_matrix.json: run
`python -m corpora.support_matrix.record` where jax and autograd are installed, to make that again. -->

# What a custom gradient survives

Each cell is a small program that was run ({date}, {device}, Python {python}, torch {torch}; the peers {peers}, jax
{jax}, HIPS autograd {HIPS autograd}), and is run again by the tests. The custom gradients in it are 2.5 times the
derivative on purpose: a transform that drops the custom backward gives other numbers, and is called silently wrong.
A dash: the system offers no such thing. The functions stand in `corpora/support_matrix/columns`, the programs in
`corpora/support_matrix/programs`. Compiled cells ran with Inductor and with `aot_eager`, with the same outcome.

*Function* is `torch.autograd.Function`, once with `forward(ctx, ...)` (combined), once with `setup_context` and
`generate_vmap_rule`. A peer is asked in its own words: `jax.jit` for compile, `make_jvp` and `jacobian` in HIPS
autograd.
"""
_BOTTOM = """## What was not run

Triton kernels (no GPU on the machine of the tests): opaque forwards are NumPy, and the C library called with pointers,
as a C++ extension would do it. DDP is two processes on one machine, over gloo.

A tensor that the forward closes over, instead of taking it as an input, gets no gradient. `gw.custom_gradient` says so
at the first eager call; under `torch.compile` alone nothing does, as nothing does with `torch.autograd.Function`.
"""
_HEADS = {
    "gw.custom_gradient": "gw.custom_gradient",
    "autograd.Function, combined": "Function, combined",
    "autograd.Function, setup_context": "Function, setup_context",
    "torch.library.custom_op": "library.custom_op",
    "jax.custom_vjp": "jax.custom_vjp",
    "HIPS autograd": "HIPS autograd",
}


def page() -> str:
    """The whole page: the counts, a table per section, and what each row asks and each cell said."""
    recorded = load()
    cells = recorded["cells"]
    parts = [_TOP.format(**recorded["machine"]), _counts(cells)]
    told = ["## What each row asks, and what was said\n"]
    for section, group in groupby(rows(), key=lambda row: row.section):
        members = list(group)
        parts.append(f"## {section}\n\n{_table(members, cells)}")
        told += [_asked(row, cells[row.name]) for row in members]
    return "\n".join([*parts, _together(recorded["together"]), _BOTTOM, *told])


def _together(words: dict[str, dict[str, str]]) -> str:
    """What came of every kind of custom gradient under every transform."""
    counted = Counter(word for kinds in words.values() for word in kinds.values())
    most = len(max(words.values(), key=len))
    lines = [
        "## Every kind under every transform\n",
        f"{most} kinds of `gw.custom_gradient` (what is saved, what goes in and comes out, how the gradient is given) "
        f"under {len(words)} transforms and transforms of transforms, against torch's own operators: {counted[RIGHT]} "
        f"right, {counted[RAISES]} raise, {counted[WRONG] + counted[WARNED]} silently wrong. Those that raise:\n",
    ]
    for transform, kinds in words.items():
        raising = [kind for kind, word in kinds.items() if word == RAISES]
        if raising:
            said = "all" if len(raising) == len(kinds) else ", ".join(raising)
            lines.append(f"- {transform.replace('_', ' ')}: {said}")
    return "\n".join(lines) + "\n"


def _counts(cells: dict[str, Any]) -> str:
    counted = {name: Counter(row[name]["word"] for row in cells.values()) for name in COLUMNS}
    lines = [f"| of {len(cells)} cells | " + " | ".join(_HEADS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for word in (RIGHT, RAISES, WRONG, NOT_OFFERED):
        numbers = (counted[name][word] + (counted[name][WARNED] if word == WRONG else 0) for name in COLUMNS)
        lines.append(f"| {word} | " + " | ".join(str(number) for number in numbers) + " |")
    return "\n".join(lines) + "\n"


def _table(members: list[Any], cells: dict[str, Any]) -> str:
    lines = ["| | " + " | ".join(_HEADS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for row in members:
        words = (_MARKS[cells[row.name][name]["word"]] for name in COLUMNS)
        lines.append(f"| {row.title} | " + " | ".join(words) + " |")
    return "\n".join(lines) + "\n"


def _asked(row: Any, cells: dict[str, dict[str, str]]) -> str:
    """The row's question, and beside it all that was told in its cells, said once where several say the same."""
    lines = [f"**{row.section}, {row.title}.** {row.asks}\n"]
    said: dict[tuple[str, str], list[str]] = {}
    for name in COLUMNS:
        cell = cells[name]
        if cell["told"]:
            said.setdefault((cell["word"], cell["told"]), []).append(_HEADS[name])
    for (word, told), names in said.items():
        lines.append(f"- {', '.join(names)}: {_MARKS[word] if word != NOT_OFFERED else word}: {_quoted(word, told)}")
    return "\n".join(lines) + "\n"


def _quoted(word: str, told: str) -> str:
    return told if word == NOT_OFFERED else f"`{told}`"
