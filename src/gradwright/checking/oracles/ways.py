"""The gradient without one of the ways that it takes through the forward: one term of a product rule left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gradwright.checking.context import bound_arguments, is_function, run_forward
from gradwright.checking.trial import TimeUp, Trial, flat, quiet
from gradwright.ground.hooks import OnTheGraph
from gradwright.ground.torch_versions.trees import tree_map

MOST = 24


class _Uses(TorchFunctionMode):
    """Gives every use of a tensor that needs a gradient an alias of its own, through which that use's share flows."""

    def __init__(self) -> None:
        super().__init__()
        self.uses: dict[int, list[tuple[str, torch.autograd.graph.Node]]] = {}
        self.kept: list[torch.Tensor] = []  # so that no id is given twice
        self.at_work = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if self.at_work or name in ("__get__", "__set__") or (name.endswith("_") and not name.endswith("__")):
            return func(*args, **(kwargs or {}))
        self.at_work = True
        try:
            args, kwargs = tree_map(lambda value: self._alias(value, name), (args, kwargs or {}))
        finally:
            self.at_work = False
        return func(*args, **kwargs)

    def _alias(self, value: Any, name: str) -> Any:
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return value
        alias = value.view_as(value)
        node = alias.grad_fn
        assert node is not None
        self.kept.append(value)
        # The node, not the alias: asked for its hooks after its base was written to, a view takes the process down.
        self.uses.setdefault(id(value), []).append((name, node))
        return alias


def gradients_without_a_way(trial: Trial, index: int) -> Iterator[tuple[str, torch.Tensor]]:
    """For each use of a tensor that the forward uses more than once: its name, the flat gradient if it gave nothing.

    Nothing where autograd does not see the forward. Cost: one forward, and one backward a use (at most ``MOST``).
    """
    if not is_function(trial.subject):
        return
    mode = _Uses()
    trial.tick()
    handed = trial.handed()
    target = handed.targets[index]
    try:
        with quiet(trial.precision, trial.seed), torch.enable_grad(), mode:
            needs = [position in trial.wanted for position in range(len(handed.args))]
            result, _ = run_forward(trial.subject, bound_arguments(trial.subject, handed.args), needs)
            outputs = [o for o, on in zip(trial.outputs_of(result), trial.active, strict=True) if on]
        pairs = [(o, c) for o, c in zip(outputs, trial.cotangents, strict=True) if o.requires_grad]
    except TimeUp:
        raise
    except Exception:  # a forward that works in place is not one for aliases
        return
    several = [use for uses in mode.uses.values() if len(uses) > 1 for use in uses]
    for name, node in several[:MOST]:
        trial.tick()
        handle = OnTheGraph(node.register_prehook(_nothing))
        try:
            with quiet(trial.precision, trial.seed):
                (found,) = torch.autograd.grad(
                    [o for o, _ in pairs], [target], [c for _, c in pairs], retain_graph=True, allow_unused=True
                )
        except TimeUp:
            raise
        except Exception:  # as above
            return
        finally:
            handle.remove()
        yield name, torch.zeros_like(trial.inputs[index]) if found is None else flat(found)


def _nothing(cotangents: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.zeros_like(cotangent) for cotangent in cotangents)
