"""The backward of one call: cotangents in, one gradient per input tensor out."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from gradwright.functions.custom_gradient.call import Call
from gradwright.functions.custom_gradient.messages import listed, not_implemented
from gradwright.functions.custom_gradient.returned import Meta, by_leaf
from gradwright.functions.custom_gradient.rules import Definition


def pulled_back(
    call: Call,
    cotangents: Sequence[Tensor | None],
    saved: Sequence[Tensor],
    metas: Sequence[Meta],
    needs: Sequence[bool],
    *,
    cast: bool = False,
) -> list[Tensor | None]:
    """``cotangents``: one per tensor of the output. ``metas``: of the whole pool; ``needs``: of the inputs' tensors.

    Raises: UsageError, where what the rules return does not fit the inputs.
    """
    outs = metas[call.count : call.count + call.output.count]
    cotangent = call.output.fill(materialized(cotangents, outs))
    definition = call.definition
    values = call.values(definition.kept, saved)
    ins = metas[: call.count]
    if definition.backward is not None:
        rule = definition.backward
        return by_leaf(rule.run(cotangent, values), call.arguments, ins, needs, rule.where, cast)
    found: list[Tensor | None] = [None] * call.count
    for argument in call.arguments:
        places = range(argument.start, argument.stop)
        if not any(needs[place] and ins[place].differentiable for place in places):
            continue
        rule_of = definition.vjps.get(argument.name)
        if rule_of is None:
            raise without_vjp(definition, argument.name)
        result = rule_of.run(cotangent, values)
        gradients = by_leaf(result, [argument], ins, needs, rule_of.where, cast)
        found[argument.start : argument.stop] = gradients[argument.start : argument.stop]
    return found


def without_vjp(definition: Definition, name: str) -> Exception:
    return not_implemented(
        name,
        definition.inputs.where,
        f"{definition.name} has vjps of {listed(definition.vjps)}, none of {name}",
        f"give it one, @{definition.name}.vjp({name!r}); or hand over {name}.detach(), if its gradient is not wanted",
    )


def materialized(cotangents: Sequence[Tensor | None], metas: Sequence[Meta]) -> list[Tensor | None]:
    """Zeros where a differentiable output was not used; ``None`` where an output can't have a cotangent."""
    return [
        None if not meta.differentiable else meta.zeros() if cotangent is None else cotangent
        for cotangent, meta in zip(cotangents, metas, strict=True)
    ]
