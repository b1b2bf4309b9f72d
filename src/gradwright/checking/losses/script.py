"""A finding as a script that needs torch alone: the loss's own source, and the numbers at which it shows."""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any

import torch

from gradwright.checking.context import is_function
from gradwright.checking.counterexample.literals import Named, NoLiteral, literal
from gradwright.checking.counterexample.source import Definitions, NoSource
from gradwright.checking.losses.case import Case
from gradwright.checking.losses.loss import Sample
from gradwright.checking.report import Finding

_MOST = 64  # numbers in a tensor that is written down


def script(case: Case, finding: Finding) -> str:
    """``finding`` as a script: it prints value and gradient where it was seen. "" where nothing can be written."""
    found = next((specimen for specimen in case.specimens if specimen[0].message == finding.message), None)
    if found is None:
        return ""
    _, samples, dtype = found
    samples = tuple(_smaller(case, sample, dtype) for sample in samples)
    definitions = Definitions()
    try:
        loss = _built(case.loss.inner, definitions)
        calls = [_call(case, sample, dtype, number) for number, sample in enumerate(samples)]
    except (NoSource, NoLiteral):
        return ""
    head = [f"# {finding.code} {finding.name}: {finding.message}", "import torch"]
    told = definitions.text()
    bound = _bound(case.loss.original)
    lines = [*head, *([told] if told else []), "", f"loss = {loss}"]
    if bound:
        lines.append(f"bound = {bound}")
    return "\n".join([*lines, *(line for call in calls for line in call)]) + "\n"


def _smaller(case: Case, sample: Sample, dtype: torch.dtype) -> Sample:
    """One error by itself, where every element has the same one and the value is the same then."""
    if not case.recognised.of_error or sample.extras or sample.mask is not None:
        return sample
    error = (sample.prediction - sample.target.reshape(sample.prediction.shape)).reshape(-1)
    rounded = torch.tensor([float(f"{float(error[0]):.9g}")], dtype=torch.float64)
    if not torch.allclose(error, rounded.expand_as(error).to(error), rtol=1e-9, atol=1e-9):
        return sample
    small = Sample(rounded, torch.zeros(1, dtype=torch.float64))
    values = [case.loss.attempt(one, dtype) for one in (sample, small)]
    both = abs(values[0] - values[1]) <= 1e-6 * abs(values[0]) or not any(map(math.isfinite, values))
    return small if both else sample


def _bound(original: Any) -> str:
    """What partials have bound, as keyword arguments."""
    keywords: dict[str, Any] = {}
    while isinstance(original, functools.partial):
        if original.args:
            raise NoLiteral("a partial with positional arguments")
        keywords = {**original.keywords, **keywords}
        original = original.func
    return literal(keywords) if keywords else ""


def _built(inner: Any, definitions: Definitions) -> str:
    """An expression for the loss, its definition among ``definitions``. Raises: NoSource."""
    if is_function(inner):
        return f"{definitions.name_of(inner)}.apply"
    if not isinstance(inner, torch.nn.Module):
        if not hasattr(inner, "__name__"):
            raise NoSource(type(inner).__name__)
        name = "subject" if inner.__name__ == "<lambda>" else inner.__name__
        return definitions.name_of(inner, name)
    if any(True for _ in inner.parameters()) or any(True for _ in inner.children()):
        raise NoSource(f"the parameters of {type(inner).__name__}")
    name = definitions.name_of(type(inner))
    given = {}
    for parameter in list(inspect.signature(type(inner)).parameters.values()):
        held = getattr(inner, parameter.name, parameter.default)
        if held is parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if held is not parameter.default:
            given[parameter.name] = literal(held)
    missing = [
        parameter.name
        for parameter in inspect.signature(type(inner)).parameters.values()
        if parameter.default is parameter.empty
        and parameter.name not in given
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if missing:
        raise NoSource(f"what {type(inner).__name__} was built with")
    return f"{name}({', '.join(f'{key}={value}' for key, value in given.items())})"


def _call(case: Case, sample: Sample, dtype: torch.dtype, number: int) -> list[str]:
    if sample.prediction.numel() > _MOST:
        raise NoLiteral("a large tensor")
    args, keywords = case.loss.arguments(sample, dtype)
    place = 1 if case.loss.swapped else 0
    prediction = literal(args[place].contiguous())
    args[place] = Named("prediction")
    bound = ", **bound" if _bound(case.loss.original) else ""
    given = ", ".join([*map(literal, args), *(f"{name}={literal(value)}" for name, value in keywords.items())])
    return [
        "",
        f"prediction = {prediction}.requires_grad_()",
        f"value = loss({given}{bound})",
        'print("loss", value.detach().mean().item())',
        "if value.requires_grad:",
        "    (gradient,) = torch.autograd.grad(value.mean(), prediction)",
        '    print("gradient", gradient.tolist())',
    ]
