"""Half a block: one half of the state is changed by a law, with what a network makes of the other half.

A reversible network is a row of such steps. With a the half that changes, b the other one, and the law c:

    forward    t = F(b),   a' = c(a, t),    b' = b
    inverse    t = F(b'),  a = c⁻¹(a', t),  b = b'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradwright.errors import UsageError
from gradwright.functions.flow.reversible.coupling import Coupling, Terms


@dataclass(frozen=True)
class Step:
    """``network`` is F, ``changes`` the half that changes (0 or 1), ``name`` says which step it is for messages."""

    network: Callable[..., Any]
    coupling: Coupling
    changes: int
    name: str

    def terms(self, b: Tensor) -> Terms:
        """F(b). Raises: UsageError, if it is not the tensors that the law takes."""
        result = self.network(b)
        terms = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        if len(terms) != self.coupling.terms or not all(isinstance(term, Tensor) for term in terms):
            got = ", ".join(type(term).__name__ for term in terms)
            raise UsageError(
                f"{self.name} returns ({got}); {self.coupling!r} takes {self.coupling.terms} tensor(s).\n"
                f"  do     return {'a tensor' if self.coupling.terms == 1 else 'a tuple of tensors'} from {self.name}"
            )
        return terms

    def apply(self, a: Tensor, terms: Terms) -> Tensor:
        """c(a, t). Raises: UsageError, if it has another shape or dtype than a: no inverse could give those back."""
        changed = self.coupling.apply(a, *terms)
        if changed.shape != a.shape or changed.dtype != a.dtype:
            raise UsageError(
                f"{self.name} makes {_told(changed)} of x{self.changes + 1}, which is {_told(a)}.\n"
                f"  why    a step keeps the shape and dtype of the half that it changes, or it has no inverse\n"
                f"  do     let {self.name} return {_told(a)}, or what broadcasts to it; it returned "
                f"{', '.join(map(_told, terms))}"
            )
        return changed

    def forward(self, halves: list[Tensor]) -> None:
        """One step forward in place of the list, as plain torch."""
        halves[self.changes] = self.apply(halves[self.changes], self.terms(halves[1 - self.changes]))

    def inverse(self, halves: list[Tensor]) -> None:
        """One step back in place of the list, as plain torch."""
        terms = self.terms(halves[1 - self.changes])
        halves[self.changes] = self.coupling.invert(halves[self.changes], *terms)


def _told(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
