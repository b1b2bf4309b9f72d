"""The Function that one would write by hand, written out for one combination of argument types.

NOTE [written out]: in a call of a few microseconds, loops over the arguments are what costs. So the text of ``forward``
and ``backward`` is put together once, with every argument by its place, and compiled; what is out of the ordinary
(several outputs, residuals, autocast, a graph of the backward, a gradient that does not fit) goes to the general code.

>>> import torch
>>> from gradwright.functions.custom_gradient.contract import Inputs
>>> from gradwright.functions.custom_gradient.rules import Definition
>>> rule = Rule.read(lambda g, x, n: n * x ** (n - 1) * g, "backward")
>>> definition = Definition(Inputs.read(lambda x, n: x**n), rule)
>>> print(text(rule, Flat.of(definition, (torch.Tensor, int))))
def forward(ctx, a0, a1):
    try:
        v0 = a0._version
    except RuntimeError:
        return forward_of_any(ctx, a0, a1)
    ctx.autocast = autocast_of((a0,)) if autocast_is_on() else ()
    out = function(a0, a1)
    if a0._version != v0:
        require_unchanged((a0,), (v0,))
    if type(out) is not Tensor and not isinstance(out, Tensor):
        return several(ctx, (a0, a1), out)
    ctx.save_for_backward(a0)
    ctx.statics = (a1,)
    return out
<BLANKLINE>
def backward(ctx, cotangent, *more):
    if more or ctx.autocast or autocast_is_on() or grad_is_on():
        return backward_of_any(ctx, cotangent, *more)
    s0, = saved = ctx.saved_tensors
    t0, = ctx.statics
    row = result = rule(cotangent, s0, t0)
    if type(result) is not tuple or len(result) != 2:
        row = spread(result)
    try:
        g0, g1 = row
        if (g0 is None or (g0.shape == s0.shape and g0.dtype is s0.dtype)) and g1 is None:
            return row
    except (AttributeError, TypeError, ValueError):
        pass
    return settled(ctx, cotangent, saved, result)
<BLANKLINE>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradwright.functions.custom_gradient.contract import Rule
from gradwright.functions.custom_gradient.flat import Flat


def text(rule: Rule, flat: Flat) -> str:
    """Both functions; the names that they use besides those of arguments are the caller's to bind."""
    return f"{_forward(flat)}\n{_backward(rule, flat)}"


def row(names: list[str]) -> str:
    """What stands on either side of ``=``, or between the brackets of a tuple."""
    return f"{names[0]}," if len(names) == 1 else ", ".join(names)


def args_of(flat: Flat) -> list[str]:
    """The names of the arguments."""
    return [f"a{place}" for place in range(len(flat.names))]


def guarded(flat: Flat, result: str, before: Sequence[str] = ()) -> list[str]:
    """The call of the user's forward between two looks at the version counters."""
    args = args_of(flat)
    tensors = [args[place] for place in flat.tensors]
    versions = [f"v{place}" for place in flat.tensors]
    changed = " or ".join(f"{tensor}._version != {version}" for tensor, version in zip(tensors, versions, strict=True))
    return [
        "    try:",
        *(f"        {version} = {tensor}._version" for tensor, version in zip(tensors, versions, strict=True)),
        "    except RuntimeError:",
        f"        return forward_of_any(ctx, {', '.join(args)})",
        *before,
        f"    {result} = function({', '.join(args)})",
        f"    if {changed}:",
        f"        require_unchanged(({row(tensors)}), ({row(versions)}))",
    ]


def kept(flat: Flat, saved: Sequence[str]) -> list[str]:
    """What the backward is left: tensors by name, and what an input that is not among them looks like."""
    args = args_of(flat)
    unsaved = ", ".join(f"({args[place]}.shape, {args[place]}.dtype)" for place in flat.unsaved)
    return [
        *([f"    ctx.save_for_backward({', '.join(saved)})"] if saved else []),
        *([f"    ctx.unsaved = ({unsaved},)"] if unsaved else []),
    ]


def left(flat: Flat, saved: list[str]) -> list[str]:
    """The same, as the backward finds it."""
    return [
        f"    {row(saved)} = saved = ctx.saved_tensors" if saved else "    saved = ()",
        *(f"    shape{place}, dtype{place} = ctx.unsaved[{number}]" for number, place in enumerate(flat.unsaved)),
    ]


def _forward(flat: Flat) -> str:
    args = args_of(flat)
    tensors = [args[place] for place in flat.tensors]
    pool = [*args, "out"]
    lines = [
        f"def forward(ctx, {', '.join(args)}):",
        *guarded(flat, "out", [f"    ctx.autocast = autocast_of(({row(tensors)})) if autocast_is_on() else ()"]),
        "    if type(out) is not Tensor and not isinstance(out, Tensor):",
        f"        return several(ctx, ({row(args)}), out)",
        *kept(flat, [pool[place] for place in flat.saved]),
    ]
    if flat.statics:
        lines.append(f"    ctx.statics = ({row([args[place] for place in flat.statics])})")
    return "\n".join([*lines, "    return out", ""])


def _backward(rule: Rule, flat: Flat) -> str:
    saved = [f"s{number}" for number in range(len(flat.saved))]
    statics = [f"t{number}" for number in range(len(flat.statics))]
    bag = [*saved, *statics, *(f"defaults[{number}]" for number in range(len(flat.defaults)))]
    picked = [bag[pick] for pick in flat.picks(rule)]
    asked = [*picked[: len(rule.wants)], *map("=".join, zip(rule.keywords, picked[len(rule.wants) :], strict=True))]
    lines = [
        "def backward(ctx, cotangent, *more):",
        "    if more or ctx.autocast or autocast_is_on() or grad_is_on():",
        "        return backward_of_any(ctx, cotangent, *more)",
        *left(flat, saved),
    ]
    if statics:
        lines.append(f"    {row(statics)} = ctx.statics")
    likes = dict(zip(flat.saved, saved, strict=True))
    return "\n".join([*lines, *asking(flat, ["cotangent", *asked], likes, "cotangent"), ""])


def asking(flat: Flat, asked: Sequence[str], likes: Mapping[int, str], cotangent: str) -> list[str]:
    """The call of the rule; what it returns is returned where it is a row of gradients as the engine expects it.
    ``likes``: the names of saved inputs by place. ``cotangent``: one of them, for the others."""
    count = len(flat.names)

    def fits(gradient: str, place: int) -> str:
        if place in likes:
            return f"{gradient}.shape == {likes[place]}.shape and {gradient}.dtype is {likes[place]}.dtype"
        return f"{gradient}.shape == shape{place} and {gradient}.dtype is dtype{place}"

    if count == 1:
        lines = ["    try:", f"        if {fits('row', 0)}:"]
    else:
        each = [
            f"(g{place} is None or ({fits(f'g{place}', place)}))" if place in flat.tensors else f"g{place} is None"
            for place in range(count)
        ]
        lines = [
            f"    if type(result) is not tuple or len(result) != {count}:",
            "        row = spread(result)",
            "    try:",
            f"        {', '.join(f'g{place}' for place in range(count))} = row",
            f"        if {' and '.join(each)}:",
        ]
    return [
        f"    row = result = rule({', '.join(asked)})",
        *lines,
        "            return row",
        "    except (AttributeError, TypeError, ValueError):",
        "        pass",
        f"    return settled(ctx, {cotangent}, saved, result)",
    ]
