"""One call of a custom gradient: its tensors side by side, and how inputs, output and residuals hang together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from gradwright.functions.custom_gradient.contract import OUTPUT, Inputs
from gradwright.functions.custom_gradient.messages import complaint, did_you_mean, listed, told
from gradwright.functions.custom_gradient.residuals import Residuals
from gradwright.functions.custom_gradient.returned import Argument
from gradwright.functions.custom_gradient.rules import Definition
from gradwright.functions.custom_gradient.trees import TENSOR, Layout, flatten
from gradwright.ground.torch_versions.dynamo import uncompiled


class Call:
    """Holds no tensor. The pool of its tensors is: the ``count`` ones of the inputs, those of the output, those of the
    residuals that are neither. ``named`` says what each name asked for is, by places in the pool; ``saved`` are the
    places of the tensors that are kept. ``forward_mode``: all are kept. ``transformed``: it is made under torch.func.
    """

    __slots__ = ("arguments", "count", "definition", "forward_mode", "named", "output", "saved", "size", "transformed")

    def __init__(self, definition: Definition, arguments: list[Argument], count: int) -> None:
        self.definition = definition
        self.arguments = arguments
        self.count = count
        self.size = count
        self.output: Layout = UNKNOWN
        self.named: dict[str, tuple[Layout, Sequence[int]]] = {}
        self.saved: Sequence[int] = ()
        self.forward_mode = False
        self.transformed = False

    @classmethod
    def opened(
        cls, definition: Definition, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Call, list[Tensor]]:
        """The call, and the tensors of its arguments. Raises: TypeError, as any function, if they don't fit."""
        leaves: list[Tensor] = []
        arguments = []
        for name, value in definition.inputs.parameters.bind(args, kwargs):
            tensors, layout = flatten(value)
            arguments.append(Argument(name, layout, len(leaves)))
            leaves += tensors
        return cls(definition, arguments, len(leaves)), leaves

    def again(self) -> Call:
        """The same call, before it was run."""
        return Call(self.definition, self.arguments, self.count)

    @uncompiled  # by itself, with the watch of a first call in it; in a graph of Dynamo's it is traced
    def run(self, leaves: Sequence[Tensor]) -> list[Tensor]:
        """The forward on ``leaves``; the whole pool."""
        inputs = self.definition.inputs
        args, kwargs = inputs.parameters.spread(
            [
                (argument.name, argument.layout.fill(leaves[argument.start : argument.stop]))
                for argument in self.arguments
            ]
        )
        return self.close(leaves, inputs.forward(*args, **kwargs))

    def close(self, leaves: Sequence[Tensor], result: Any) -> list[Tensor]:
        """Take what the forward returned; the whole pool. Raises: UsageError, where it holds no tensor, or lacks a
        residual that is asked for."""
        inputs = self.definition.inputs
        output, handed = split(result, inputs)
        outputs, self.output = flatten(output)
        if not outputs:
            raise complaint(
                f"{inputs.name} returned {told(output)}, which holds no tensor",
                where=inputs.where,
                do="return a tensor, or a tuple, list or dict of them",
            )
        pool = [*leaves, *outputs]
        self._name(pool, handed)
        self.size = len(pool)
        if self.size == self.count + self.output.count:  # else the forward may be run again
            self._drop_what_is_not_named()
        if self.forward_mode:
            self.saved = range(len(pool))
        else:
            places = (place for name in self.definition.kept for place in self.named[name][1])
            self.saved = list(dict.fromkeys(places))
        return pool

    def _drop_what_is_not_named(self) -> None:
        """An array that came in beside the tensors is not kept alive, unless it is asked for."""
        kept = self.definition.kept
        self.arguments = [
            a if a.name in kept or a.layout is TENSOR else Argument(a.name, a.layout.emptied(), a.start)
            for a in self.arguments
        ]

    def _name(self, pool: list[Tensor], handed: Mapping[str, Any]) -> None:
        """Note what each name stands for; tensors of residuals that are no input and no output join the pool."""
        known = {a.name: (a.layout, range(a.start, a.stop)) for a in self.arguments}
        known[OUTPUT] = (self.output, range(self.count, len(pool)))
        definition = self.definition
        asked = definition.kept if definition.jvp is None else (*definition.kept, *definition.jvp.names)
        for name in asked:
            if name in known:
                self.named[name] = known[name]
            elif name in handed:
                tensors, layout = flatten(handed[name])
                self.named[name] = (layout, [_place(pool, tensor) for tensor in tensors])
            else:
                raise missing_residual(definition.inputs, name, handed)

    @property
    def leaf_names(self) -> list[str]:
        """The argument that each tensor of the inputs came with."""
        return [argument.name for argument in self.arguments for _ in range(argument.layout.count)]

    def values(self, names: Iterable[str], saved: Sequence[Tensor]) -> dict[str, Any]:
        """What the names stand for, out of the tensors that were saved."""
        at = dict(zip(self.saved, saved, strict=True))
        return {name: self.named[name][0].fill(at[place] for place in self.named[name][1]) for name in names}


def _place(pool: list[Tensor], tensor: Tensor) -> int:
    """Where a tensor is in the pool; it joins, if it is not there."""
    for place, known in enumerate(pool):
        if known is tensor:
            return place
    pool.append(tensor)
    return len(pool) - 1


UNKNOWN = flatten(())[1]


def split(result: Any, inputs: Inputs) -> tuple[Any, Mapping[str, Any]]:
    """What a forward returned: its output, and its residuals by name."""
    if type(result) is tuple and result and type(result[-1]) is Residuals:
        return (result[0] if len(result) == 2 else result[:-1]), result[-1].values
    if type(result) is Residuals or (type(result) is tuple and any(type(item) is Residuals for item in result)):
        raise complaint(
            f"{inputs.name} returned its residuals in the wrong place",
            where=inputs.where,
            do="put them last, after the output: return out, gw.residuals(...)",
        )
    return result, {}


def handed_out(args: Sequence[Any], result: Any) -> tuple[bool, ...] | None:
    """Of what a call's Function put out, which the caller is handed: the output's tensors; not residuals, not the Call.

    ``args``: what the Function was applied to, whose first one the Call may be. ``None`` of another Function's result,
    and of one tensor alone.
    """
    if type(result) is not tuple:
        return None
    call = next((item for item in (*result[-1:], *args[:1]) if type(item) is Call), None)
    return None if call is None else tuple(place < call.output.count for place in range(len(result)))


def missing_residual(inputs: Inputs, name: str, handed: Mapping[str, Any]) -> Exception:
    known = (*inputs.names, OUTPUT, *handed)
    return complaint(
        f"the backward asks for `{name}`{did_you_mean(name, known)}",
        where=inputs.where,
        why=f"in this call {inputs.name} handed over {listed(handed) if handed else 'no residual'}",
        do=f"hand it over on every path: return ..., gw.residuals({name}={name})",
    )
