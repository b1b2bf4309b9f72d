"""What an expression of a loop over samples is: see NOTE [Batched by the text]."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.rewrite.splices import Splices

Kind = Literal["uniform", "batched", "gradients", "gradient", "row"]


@dataclass(frozen=True)
class Value:
    """``uniform``: the same in every round. ``batched``: one sample's of its own; ``rank`` is that of one sample's.

    ``gradient``: as the script's, but row j holds what the gradient of round j has there; ``gradients``: the tuple that
    holds it. ``row``: the loop's variable.
    """

    kind: Kind
    rank: int | None = None


UNIFORM = Value("uniform")


@dataclass(frozen=True)
class Gradient:
    """What stands in the place of one call: ``outputs``, the new text of its first argument, or ``instead`` of it all.

    ``unpacked``: it is the gradient itself, no tuple of one. ``kind``: "gradient" where row j of it belongs to sample
    j; "batched" where it is one whole gradient a sample.
    """

    argument: ast.expr
    rank: int
    outputs: str = ""
    instead: str = ""
    kind: Literal["gradient", "batched"] = "gradient"

    @property
    def unpacked(self) -> bool:
        return bool(self.instead)

    def write(self, splices: Splices, node: ast.Call) -> None:
        if self.instead:
            splices.replace(node, self.instead)
        else:
            splices.replace(self.argument, self.outputs)
