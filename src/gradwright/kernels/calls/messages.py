"""What the errors of a call say: what happened, where, why, what to do."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from gradwright.errors import UsageError


def refusal(what: str, *, do: str, where: str = "", why: str = "") -> UsageError:
    """The error to raise.

    >>> print(refusal("e is missing", where="pinball(e, q)", do="hand it over"))
    e is missing
      where  pinball(e, q)
      do     hand it over
    """
    lines = [f"  {label:<5}  {text}" for label, text in (("where", where), ("why", why), ("do", do)) if text]
    return UsageError("\n".join([what, *lines]))


def told(value: object) -> str:
    """A value in few words.

    >>> import torch
    >>> told(torch.ones(3, 4)), told(None), told([1.5])
    ('float32[3, 4]', 'None', 'a list')
    """
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def listed(names: Iterable[str]) -> str:
    """``x, w and q``."""
    *most, last = list(names) or ["nothing"]
    return f"{', '.join(most)} and {last}" if most else last
