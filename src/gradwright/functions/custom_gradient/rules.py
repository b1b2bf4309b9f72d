"""A custom gradient, whole: its forward, and the rules that give gradients and tangents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gradwright.functions.custom_gradient.contract import Inputs, Rule
from gradwright.ground.declared import MARK


@dataclass(frozen=True)
class Definition:
    """One backward for all inputs, or one vjp per input; a jvp where one is given. ``kept`` is what is kept for the
    backward, by name, in the order in which it is asked for. ``reason``: why its gradient is declared a surrogate."""

    inputs: Inputs
    backward: Rule | None = None
    vjps: Mapping[str, Rule] = field(default_factory=dict)
    jvp: Rule | None = None
    reason: str | None = None
    kept: tuple[str, ...] = field(init=False)

    @property
    def named(self) -> dict[str, Any]:
        """What a Function made of it tells of itself: where it comes from, and that it is a surrogate, if it is."""
        forward = self.inputs.forward
        return {"__module__": str(getattr(forward, "__module__", __name__)), "__wrapped__": forward, MARK: self.reason}

    @property
    def name(self) -> str:
        return self.inputs.name

    @property
    def complete(self) -> bool:
        return self.backward is not None or len(self.vjps) > 0

    @property
    def rules(self) -> Iterator[Rule]:
        """Those that give gradients."""
        if self.backward is not None:
            yield self.backward
        yield from self.vjps.values()

    def __post_init__(self) -> None:
        names = tuple(dict.fromkeys(name for rule in self.rules for name in rule.names))
        object.__setattr__(self, "kept", names)
