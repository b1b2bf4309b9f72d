"""The Function that one would write by hand where there are residuals, or several outputs: see NOTE [written out].

The residuals leave the Function behind the outputs (see recomputed.py), and last comes the Call, which is the same for
all calls of such a kind; the first one shows it. What differs from it goes to the general code.

>>> import torch
>>> from gradwright.functions.custom_gradient.contract import Inputs
>>> from gradwright.functions.custom_gradient.rules import Definition
>>> from gradwright.functions.custom_gradient.trees import TENSOR
>>> rule = Rule.read(lambda g, x, mask: g * mask, "backward")
>>> definition = Definition(Inputs.read(lambda x: x.abs()), rule)
>>> kind = Kind.of(definition, Flat.of(definition, (torch.Tensor,)), TENSOR)
>>> print(text(kind))
def forward(ctx, a0):
    if autocast_is_on():
        return forward_of_any(ctx, a0)
    try:
        v0 = a0._version
    except RuntimeError:
        return forward_of_any(ctx, a0)
    result = function(a0)
    if a0._version != v0:
        require_unchanged((a0,), (v0,))
    try:
        o0, handed = result
        handed = handed.values
        r0 = handed['mask']
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return several(ctx, (a0,), result)
    if (type(result) is not tuple
            or type(o0) is not Tensor
            or type(r0) is not Tensor
            or o0 is a0
            or r0 is a0
            or r0 is o0):
        return several(ctx, (a0,), result)
    ctx.save_for_backward(a0, r0)
    ctx.set_materialize_grads(False)
    ctx.call = CALL
    return o0, r0, CALL
<BLANKLINE>
def backward(ctx, *given):
    if ctx.call is not CALL or autocast_is_on() or grad_is_on():
        return backward_of_any(ctx, *given)
    c0, d0, _ = given
    if c0 is None or d0 is not None:
        return backward_of_any(ctx, *given)
    s0, s1 = saved = ctx.saved_tensors
    row = result = rule(c0, s0, s1)
    try:
        if row.shape == s0.shape and row.dtype is s0.dtype:
            return row
    except (AttributeError, TypeError, ValueError):
        pass
    return settled(ctx, c0, saved, result)
<BLANKLINE>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from gradwright.functions.custom_gradient.call import Call
from gradwright.functions.custom_gradient.contract import OUTPUT, Rule
from gradwright.functions.custom_gradient.flat import Flat
from gradwright.functions.custom_gradient.returned import Meta
from gradwright.functions.custom_gradient.rules import Definition
from gradwright.functions.custom_gradient.trees import TENSOR, Layout
from gradwright.functions.custom_gradient.written import args_of, asking, guarded, kept, left, row


@dataclass(frozen=True)
class Kind:
    """Calls whose inputs are tensors, whose output is one or a tuple of them (``outs``), whose residuals asked for are
    tensors, ``handed`` by name; ``call`` stands for each of them."""

    rule: Rule
    flat: Flat
    outs: int
    handed: tuple[str, ...]
    call: Call

    @classmethod
    def of(cls, definition: Definition, flat: Flat, output: Layout) -> Kind | None:
        """``None``, where it is not as plain as that."""
        rule, count = definition.backward, len(flat.names)
        handed = tuple(name for name in definition.kept if name != OUTPUT and name not in flat.names)
        one = output is TENSOR
        if rule is None or len(flat.tensors) < count or flat.defaults or not (one or output.is_row) or not output.count:
            return None
        if (one and not handed) or (not one and (handed or OUTPUT in definition.kept)):
            return None
        call = Call(definition, flat.arguments([None] * count), count)
        call.output = output
        call.size = count + output.count + len(handed)
        places = {name: place for place, name in enumerate(flat.names)}
        places |= {OUTPUT: count} | {name: count + 1 + number for number, name in enumerate(handed)}
        call.named = {name: (TENSOR, [places[name]]) for name in definition.kept}
        call.saved = [places[name] for name in definition.kept]
        return cls(rule, flat, output.count, handed, call)


def metas_of_kind(kind: Kind, ctx: Any, given: Sequence[Any]) -> list[Meta]:
    """Of the whole pool, out of what was saved, or noted, and the cotangents; empty without any of those."""
    known = next((cotangent for cotangent in given if cotangent is not None), None)
    if known is None:
        return []
    saved = dict(zip(kind.call.saved, ctx.saved_tensors, strict=True))
    noted: dict[int, Any] = dict(zip(kind.flat.unsaved, getattr(ctx, "unsaved", ()), strict=True))
    found = []
    for place in range(kind.call.size):
        if place in saved:
            found.append(Meta.of(saved[place]))
        elif place in noted:
            shape, dtype = noted[place]
            found.append(Meta(shape, dtype, known.device))
        else:  # an output; without a cotangent it is not asked for
            cotangent = given[place - kind.call.count]
            found.append(Meta.of(known if cotangent is None else cotangent))
    return found


def text(kind: Kind) -> str:
    """Both functions; the names that they use besides those of arguments are the caller's to bind."""
    return f"{_forward(kind)}\n{_backward(kind)}"


def _forward(kind: Kind) -> str:
    flat = kind.flat
    args = args_of(flat)
    outs = [f"o{number}" for number in range(kind.outs)]
    residuals = [f"r{number}" for number in range(len(kind.handed))]
    pool = [*args, *outs, *residuals]
    unusual = ["type(result) is not tuple", *(f"type({name}) is not Tensor" for name in (*outs, *residuals))]
    unusual += [f"not {out}.is_floating_point()" for out in outs if kind.outs > 1]
    unusual += [f"{late} is {early}" for early, late in combinations(pool, 2) if late not in args]
    anyhow = f"several(ctx, ({row(args)}), result)"
    lines = [
        f"def forward(ctx, {', '.join(args)}):",
        "    if autocast_is_on():",
        f"        return forward_of_any(ctx, {', '.join(args)})",
        *guarded(flat, "result"),
        "    try:",
        f"        {row([*outs, *(['handed'] if residuals else [])])} = result",
        *(["        handed = handed.values"] if residuals else []),
        *(f"        {name} = handed[{key!r}]" for name, key in zip(residuals, kind.handed, strict=True)),
        "    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):",
        f"        return {anyhow}",
        "    if ({}):".format("\n            or ".join(unusual)),
        f"        return {anyhow}",
        *kept(flat, [pool[place] for place in kind.call.saved]),
    ]
    if residuals:
        lines.append("    ctx.set_materialize_grads(False)")
    return "\n".join([*lines, "    ctx.call = CALL", f"    return {', '.join([*outs, *residuals])}, CALL", ""])


def _backward(kind: Kind) -> str:
    rule = kind.rule
    cotangents = [f"c{number}" for number in range(kind.outs)]
    of_residuals = [f"d{number}" for number in range(len(kind.handed))]
    saved = [f"s{number}" for number in range(len(kind.call.saved))]
    at = dict(zip((name for name in kind.call.named), saved, strict=True))
    asked = [*(at[name] for name in rule.wants), *(f"{name}={at[name]}" for name in rule.keywords)]
    first = cotangents[0] if kind.outs == 1 and kind.handed else f"({row(cotangents)})"
    lines = [
        "def backward(ctx, *given):",
        "    if ctx.call is not CALL or autocast_is_on() or grad_is_on():",
        "        return backward_of_any(ctx, *given)",
        f"    {', '.join([*cotangents, *of_residuals])}, _ = given",
    ]
    if of_residuals:
        unusual = ["c0 is None", *(f"{name} is not None" for name in of_residuals)]
        lines += [f"    if {' or '.join(unusual)}:", "        return backward_of_any(ctx, *given)"]
    likes = dict(zip(kind.call.saved, saved, strict=True))
    return "\n".join([*lines, *left(kind.flat, saved), *asking(kind.flat, [first, *asked], likes, "c0"), ""])
