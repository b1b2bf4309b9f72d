"""A Function beside plain autograd through its own forward: does it need to be a Function at all?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import saved_tensors_hooks

from gradwright.checking.context import FunctionType, run_forward
from gradwright.checking.copies import copy_in_graph, fresh_copy, is_expanded
from gradwright.checking.enginecall import draw_cotangents
from gradwright.checking.oracles.reverse import plain_gradient
from gradwright.checking.trial import TimeUp, settle, tensors_in
from gradwright.ground.graphs import graph_of

SAME = 1e-9  # relative to the largest entry, in float64: the same formula evaluated in another order


@dataclass(frozen=True)
class PlainTwin:
    """``same_gradient``: plain autograd gives the same gradient for every wanted input; ``reason`` says why not.

    The closures take nothing and leave their arguments as they are. The forwards return what they computed (graph and
    all), for :func:`saved_bytes`; the steps do forward and backward on the same inputs, for timing.
    """

    same_gradient: bool
    reason: str
    function_forward: Callable[[], Any]
    plain_forward: Callable[[], Any]
    function_step: Callable[[], None]
    plain_step: Callable[[], None]


def plain_forward(function: FunctionType, wanted: Sequence[bool]) -> Callable[..., Any]:
    """The Function's own forward as a plain callable, which autograd sees through."""

    def forward(*args: Any) -> Any:
        return run_forward(function, args, wanted)[0]

    return forward


def plain_twin(
    function: FunctionType,
    args: Sequence[Any],
    wanted: Sequence[bool],
    *,
    seed: int = 0,
    deadline: float | None = None,
) -> PlainTwin:
    """Set the Function beside plain autograd of its own forward, on ``args`` (never changed).

    The gradients are compared in float64 for two draws of cotangents; the closures run in the arguments' own dtypes.
    Where the Function can't be judged in float64, the gradients count as not the same. Never raises what it raises.
    """
    reason = _difference(function, args, wanted, seed, deadline)
    twin = plain_forward(function, wanted)

    def runs(call: Callable[..., Any]) -> tuple[Callable[[], Any], Callable[[], None]]:
        copied = fresh_copy(args).args
        targets = [
            value.requires_grad_()
            for index, value in enumerate(copied)
            if isinstance(value, torch.Tensor) and value.is_floating_point() and index < len(wanted) and wanted[index]
        ]
        leaves = {id(target) for target in targets}
        cotangents: list[torch.Tensor] = []

        def forward() -> Any:
            handed = [
                copy_in_graph(value)
                if id(value) in leaves and not isinstance(value, torch.nn.Parameter) and not is_expanded(value)
                else value
                for value in copied
            ]
            with torch.enable_grad():
                return call(*handed)

        def step() -> None:
            outputs = [output for output in tensors_in(forward()) if output.requires_grad]
            if [one.shape for one in cotangents] != [output.shape for output in outputs]:
                # At the first step: drawing them may take longer than the step.
                cotangents[:] = draw_cotangents(outputs, seed)
            torch.autograd.grad(outputs, targets, [one.clone() for one in cotangents], allow_unused=True)

        return forward, step

    function_forward, function_step = runs(function.apply)
    twin_forward, twin_step = runs(twin)
    return PlainTwin(not reason, reason, function_forward, twin_forward, function_step, twin_step)


def _difference(
    function: FunctionType, args: Sequence[Any], wanted: Sequence[bool], seed: int, deadline: float | None
) -> str:
    """Why plain autograd's gradient is not the same; "" if it is."""
    indices = [
        index
        for index, value in enumerate(args)
        if index < len(wanted) and wanted[index] and isinstance(value, torch.Tensor) and value.is_floating_point()
    ]
    if not indices:
        return "no input asks for a gradient"
    try:
        trial = settle(function, args, indices, seed=seed, deadline=deadline)
        if trial.precision.name != "float64":
            return "the Function does not run in float64"
        for draw in (seed, seed + 1):
            trial.cotangents = trial.redrawn(draw)
            ours, plain = trial.gradient(), plain_gradient(trial)
            if plain is None:
                return "autograd does not see the forward"
            for index in indices:
                apart, largest = (ours[index] - plain[index]).abs(), plain[index].abs()
                if apart.numel() and not float(apart.max()) <= SAME * float(largest.max()) + trial.noise(index):
                    return f"the gradients of input {index} differ"
    except TimeUp:
        return "time limit"
    except Exception as error:  # the Function is someone else's code
        return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    return ""


def saved_bytes(forward: Callable[[], Any]) -> int:
    """Bytes of distinct storage that a forward keeps for its backward, inputs included where they are kept.

    Counts what goes through saved-tensor hooks, and tensors parked on the ``ctx`` of any custom Function in the graph.

    >>> x = torch.ones(1000, requires_grad=True)
    >>> saved_bytes(lambda: x.exp()), saved_bytes(lambda: x + 1)
    (4000, 0)
    """
    storages: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is torch.strided:
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    kept: list[torch.Tensor] = []  # a freed storage's address may be used again: hold on until all are counted

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(keep(tensor).detach())
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = tensors_in(forward())
    for node in graph_of(outputs):
        if isinstance(node, BackwardCFunction):
            for value in vars(node).values():
                for tensor in tensors_in(value):
                    keep(tensor)
    return sum(storages.values())
