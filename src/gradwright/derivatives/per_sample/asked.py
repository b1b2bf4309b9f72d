"""What was asked for: the losses of the samples, and the parameters, in whatever structure they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor, nn

from gradwright.derivatives.graph.recording import recording
from gradwright.derivatives.graph.target import Target, read_target
from gradwright.errors import DerivativeError, UsageError

#: Parameters as people hold them.
Parameters: TypeAlias = Tensor | nn.Module | Mapping[str, Tensor] | Iterable[Tensor]

#: The gradients, in the same structure.
PerSample: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class Asked:
    """``losses``: [B].  ``targets``: each parameter once.  ``names``: what the caller calls them.

    ``places``: which of the targets stands at each place of the caller's structure, which ``restore`` builds.
    """

    losses: Tensor
    targets: tuple[Target, ...]
    names: tuple[str, ...]
    places: tuple[int, ...]
    restore: Callable[[list[Tensor]], PerSample]

    @property
    def samples(self) -> int:
        return self.losses.shape[0]


def read_asked(losses: Tensor | Callable[[], Tensor], params: Parameters) -> Asked:
    """Read and judge the arguments.  Raises: UsageError, DerivativeError, each saying what to do."""
    if not isinstance(losses, Tensor) and callable(losses):
        with recording():
            losses = losses()
    _judge_losses(losses)
    named, restore = _named(params)
    if not named:
        raise UsageError("params holds no parameter that requires gradients: nothing to differentiate with respect to")
    for name, parameter in named:
        _judge_parameter(name, parameter)
    distinct = {id(parameter): (name, parameter) for name, parameter in reversed(named)}
    order = list(distinct)
    return Asked(
        losses,
        tuple(read_target(parameter) for _, parameter in distinct.values()),
        tuple(name for name, _ in distinct.values()),
        tuple(order.index(id(parameter)) for _, parameter in named),
        restore,
    )


def _named(params: Parameters) -> tuple[list[tuple[str, Tensor]], Callable[[list[Tensor]], PerSample]]:
    if isinstance(params, Tensor):
        return [("params", params)], lambda made: made[0]
    if isinstance(params, nn.Module):
        params = {name: parameter for name, parameter in params.named_parameters() if parameter.requires_grad}
    if isinstance(params, Mapping):
        keys = list(params)
        return [(f"params[{key!r}]", params[key]) for key in keys], lambda made: dict(zip(keys, made, strict=True))
    if not isinstance(params, Iterable):
        raise UsageError(
            f"params is a {type(params).__name__}: give a tensor, a module, or a list, tuple or dict of parameters"
        )
    as_tuple = isinstance(params, tuple)
    found = [(f"params[{place}]", parameter) for place, parameter in enumerate(params)]
    return found, lambda made: tuple(made) if as_tuple else made


def _judge_parameter(name: str, parameter: Any) -> None:
    if not isinstance(parameter, Tensor):
        raise UsageError(
            f"{name} is a {type(parameter).__name__}, not a tensor"
            + (": give a dict of them, dict(model.named_parameters())" if isinstance(parameter, tuple) else "")
        )
    if not parameter.requires_grad:
        raise UsageError(
            f"{name} ({list(parameter.shape)}) is frozen: its requires_grad is False, so no graph leads to it. "
            "Leave it out, or call requires_grad_() before the forward"
        )


def _judge_losses(losses: Any) -> None:
    if not isinstance(losses, Tensor):
        raise UsageError(
            f"losses is a {type(losses).__name__}: give the tensor of the losses, one for each sample, [B]"
        )
    if losses.ndim == 0:
        raise UsageError(
            "losses is one number, already summed or averaged over the batch: give one loss for each sample, [B] "
            "(reduction='none' in torch's losses; no .mean() or .sum() over the batch)"
        )
    if losses.ndim > 1:
        raise UsageError(
            f"losses has shape {list(losses.shape)}: give one number for each sample, [B]; with the batch first, "
            "losses.flatten(1).sum(1), or .mean(1)"
        )
    if not losses.is_floating_point():
        raise UsageError(f"losses are {losses.dtype}: gradients are of real, floating-point losses")
    if not losses.requires_grad:
        raise DerivativeError(
            f"losses ({list(losses.shape)}) belong to no graph: they were computed under torch.no_grad() or "
            "torch.inference_mode(), or detached, or nothing they were computed from requires gradients"
        )
