"""``gw.tap`` and ``gw.Tap``: a place where what flows can be seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.compiler import is_dynamo_compiling

from gradwright.errors import UsageError
from gradwright.functions.tap.busy import alone
from gradwright.functions.tap.records import Direction
from gradwright.functions.tap.session import ACTIVE, checked_every
from gradwright.functions.tap.traced import trace
from gradwright.functions.tap.unseen import NOTHING
from gradwright.ground.torch_versions.engine import current_graph_task_id
from gradwright.ground.torch_versions.modes import DisableTorchFunction

T = TypeVar("T")


def tap(name: str, value: T, *, every: int | None = None) -> T:
    """Show what flows through here, forward and backward; returns ``value`` itself, always.

    Off (it returns at once) unless a ``with gw.taps(): ...`` is active. Put it anywhere: in a module's forward, in
    the forward or backward of a Function, in the parts of a custom gradient, in a hook; as a statement, too.

    ``value``: a tensor, or lists, tuples and dicts of tensors (each has a row of its own, ``hidden[0]``), of any
    shape, dtype, layout and device; other leaves are passed over. ``every``: measure every n-th passage (default:
    what ``gw.taps`` says). Taps of one name share their rows.

    Directions: "forward" is a value that was passed, "backward" the gradient that came back to it, "in backward" a
    value passed while a backward runs: a cotangent in a hand-written backward, or a forward run again by a checkpoint.
    The gradient is the tensor's: what all its uses send back, as in ``Tensor.register_hook``. To see that of one use
    alone (a branch beside a skip connection), tap a view: ``x + block(gw.tap("into block", x[...]))``.
    It is not seen where a *view* is changed in place after the tap, for torch then drops the view's hooks.

    Nothing changes: not the values, strides, gradient (to the last bit) or history, nor the random state.
    Cost: off, 0.1 us beside that of the call; on, see ``gw.taps``.
    Raises: UsageError if ``name`` is no string, or for a wrong ``every`` while taps are on.

    >>> import torch
    >>> from gradwright.functions.tap import taps
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**2
    ...     @staticmethod
    ...     def backward(ctx, grad_output):
    ...         (x,) = ctx.saved_tensors
    ...         return tap("grad of x", 2 * x * grad_output)
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> with taps() as seen:
    ...     Square.apply(x).sum().backward()
    >>> seen.passages[0].name, seen.passages[0].direction, seen.passages[0].maximum
    ('grad of x', 'in backward', 4.0)
    """
    if is_dynamo_compiling():
        trace(name)
        return value
    if not isinstance(name, str):
        raise UsageError(f"tap takes the name first, then the value: tap('hidden', x), not a {type(name).__name__}")
    if ACTIVE:
        _show(name, value, every)
    return value


class Tap(nn.Module):
    """``gw.tap`` as a module, for ``nn.Sequential``: no parameter, no buffer, its output is its input itself.

    >>> import torch
    >>> from gradwright.functions.tap import taps
    >>> model = nn.Sequential(nn.Linear(3, 4), Tap("hidden"), nn.ReLU())
    >>> with taps() as seen:
    ...     _ = model(torch.ones(2, 3))
    >>> [(row.name, row.shape) for row in seen.rows]
    [('hidden', (2, 4))]
    """

    def __init__(self, name: str, *, every: int | None = None) -> None:
        super().__init__()
        if not isinstance(name, str):
            raise UsageError(f"Tap takes a name: Tap('hidden'), not a {type(name).__name__}")
        self.name = name
        self.every = None if every is None else checked_every(every)

    def forward(self, value: T) -> T:
        return tap(self.name, value, every=self.every)

    def extra_repr(self) -> str:
        return repr(self.name) + (f", every={self.every}" if self.every is not None else "")


def _show(name: str, value: Any, every: int | None) -> None:
    if every is not None:
        checked_every(every)
    direction: Direction = "forward" if current_graph_task_id() == -1 else "in backward"
    with alone() as free:
        if not free:
            return
        for session in tuple(ACTIVE):
            with DisableTorchFunction():  # no mode of the user's sees the tap at work
                if value is None:
                    session.miss(name, direction, NOTHING)
                for label, tensor in named_tensors(name, value):
                    session.meet(label, direction, tensor, every)
            session.settle()


def named_tensors(name: str, tree: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in nested lists, tuples and dicts, named by the way to it.

    >>> import torch
    >>> [label for label, _ in named_tensors("h", {"a": torch.ones(1), "b": [3, (torch.ones(1),)]})]
    ["h['a']", "h['b'][1][0]"]
    """
    if isinstance(tree, Tensor):
        yield name, tree
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from named_tensors(f"{name}[{key!r}]", item)
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        for field, item in zip(tree._fields, tree, strict=True):
            yield from named_tensors(f"{name}.{field}", item)
    elif isinstance(tree, (list, tuple)):
        for at, item in enumerate(tree):
            yield from named_tensors(f"{name}[{at}]", item)
