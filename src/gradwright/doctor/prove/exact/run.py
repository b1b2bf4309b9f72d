"""One exact evaluation of a callable: its outputs, what it leaves in its arguments, its vjps and theirs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from dataclasses import field as held_in
from typing import Any

import torch

from gradwright.doctor.prove.exact.detours import Detours, as_tensor, mathematics
from gradwright.doctor.prove.exact.evaluation import Evaluation
from gradwright.doctor.prove.exact.field import Field
from gradwright.doctor.prove.exact.inputs import Arguments, cotangent
from gradwright.doctor.prove.exact.number import ExactTensor, NotExaminedError, Number
from gradwright.ground.torch_versions.engine import run_engine
from gradwright.ground.torch_versions.modes import disable_current_modes
from gradwright.ground.torch_versions.trees import tree_flatten, tree_map

Result = Number | torch.Tensor | Any


@dataclass
class Outcome:
    """By name ("output 0", "the gradient of argument 1"), what came out. ``unsure``: see ``Arithmetic``.

    ``second``: gradients of gradients, each None where nothing connects them; None if the code doesn't support them.
    """

    results: dict[str, Result] = held_in(default_factory=dict)
    second: dict[str, Result] | None = None
    unsure: frozenset[str] = frozenset()
    raised: str = ""


def outcome(function: Callable[..., Any], arguments: Arguments, field: Field, deadline: float) -> Outcome:
    """Evaluate ``function``. Raises: NotExaminedError; any other exception is told in ``raised``."""
    evaluation = Evaluation(field, deadline)
    result = Outcome()
    try:
        with warnings.catch_warnings(), torch.enable_grad(), evaluation, Detours(), mathematics():
            warnings.simplefilter("ignore")  # the script's own, met elsewhere
            _evaluate(function, arguments, evaluation, result)
    except NotExaminedError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, NotExaminedError):
            raise error.__cause__ from None
        result.raised = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    result.unsure = frozenset(evaluation.arithmetic.unsure)
    return result


def _evaluate(function: Callable[..., Any], arguments: Arguments, evaluation: Evaluation, result: Outcome) -> None:
    leaves = [one for one in tree_flatten(arguments)[0] if isinstance(one, torch.Tensor)]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    # Not the leaves themselves: what writes into its argument may do so.
    passed = {id(leaf): leaf.clone() if leaf.requires_grad else leaf for leaf in leaves}
    given = tree_map(lambda one: passed.get(id(one), one), arguments)
    returned = function(*given)
    outputs = [as_tensor(one) for one in tree_flatten(returned)[0]]
    for index, output in enumerate(outputs):
        result.results[f"output {index}"] = output
    for index, leaf in enumerate(leaves):
        result.results[f"argument {index} afterwards"] = passed[id(leaf)]
    first, cotangents = _gradients([*outputs, *passed.values()], wanted, evaluation, seed=1)
    for index, (leaf, gradient) in enumerate(zip(wanted, first, strict=True)):
        result.results[f"the gradient of wanted argument {index}"] = (
            torch.zeros_like(leaf) if gradient is None else gradient
        )
    variables = {f"wanted argument {index}": leaf for index, leaf in enumerate(wanted)}
    variables |= {f"the cotangent of output {place}": one for place, one in cotangents.items()}
    try:
        second, _ = _gradients(first, list(variables.values()), evaluation, seed=1000)
    except NotExaminedError:
        raise
    except Exception:
        pass  # no second order: a custom Function that is differentiable once
    else:
        result.second = {
            f"the second-order gradient of {name}": gradient for name, gradient in zip(variables, second, strict=True)
        }
    for results in (result.results, result.second or {}):
        for name, value in results.items():
            if isinstance(value, ExactTensor):
                results[name] = value.number


def _gradients(
    outputs: Sequence[Any], variables: Sequence[torch.Tensor], evaluation: Evaluation, seed: int
) -> tuple[list[torch.Tensor | None], dict[int, torch.Tensor]]:
    """Of random cotangents, the same for the same place among ``outputs``; None where nothing connects them.

    And the cotangents, by place.
    """
    primals: dict[int, torch.Tensor] = {}
    for place, output in enumerate(outputs):
        if isinstance(output, ExactTensor) and output.requires_grad and not _among(output, primals.values()):
            primals[place] = output
    cotangents: dict[int, torch.Tensor] = {}
    for place, primal in primals.items():
        with disable_current_modes():
            drawn = cotangent(primal.shape, torch.Generator().manual_seed(seed + place))
            number = Number(drawn, evaluation.arithmetic.field.of_floats(drawn))
        cotangents[place] = ExactTensor(number, primal.dtype, requires_grad=True)
    if not primals or not variables:
        return [None] * len(variables), cotangents
    # What torch.autograd.grad ends in. That itself is overridable: while it runs, Detours would be out of force.
    found = run_engine(
        tuple(primals.values()),
        tuple(cotangents.values()),
        True,
        True,
        tuple(variables),
        allow_unreachable=True,
        accumulate_grad=False,
    )
    return list(found), cotangents


def _among(tensor: torch.Tensor, others: Iterable[torch.Tensor]) -> bool:
    return any(tensor is other for other in others)
