"""What per-sample gradients are judged by: a loop of one backward for each sample."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradwright.derivatives.graph.engine import Heard
from gradwright.derivatives.per_sample import alone, captured, gradients, per_sample_gradients
from gradwright.derivatives.per_sample.asked import read_asked
from gradwright.derivatives.per_sample.followed import follow

TIGHT = 1e-10


@dataclass(frozen=True)
class Case:
    """A network as a function of a generator of random numbers: losses [B] and the parameters they depend on."""

    name: str
    make: Callable[[torch.Generator], tuple[Tensor, list[Tensor]]]

    def __call__(self) -> tuple[Tensor, list[Tensor]]:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(5)  # torch.manual_seed formats the stack for each kind of device
            return self.make(torch.Generator().manual_seed(7))


def ids(cases: Sequence[Case]) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in cases]


def drawn(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def weight(generator: torch.Generator, *shape: int) -> Tensor:
    return drawn(generator, *shape).requires_grad_()


def per_sample_loss(y: Tensor) -> Tensor:
    """[B, ...] to [B], with a second derivative."""
    return y.flatten(1).square().mean(1)


def of_module(name: str, build: Callable[[], nn.Module], *shape: int) -> Case:
    def make(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
        net = build().double()
        for parameter in net.parameters():  # no scale of ones, no shift of zeros
            parameter.data += 0.3 * drawn(generator, *parameter.shape)
        return per_sample_loss(net(drawn(generator, *shape))), list(net.parameters())

    return Case(name, make)


def loop_truth(losses: Tensor, params: Sequence[Tensor], create_graph: bool = False) -> list[Tensor]:
    """d losses[b] / d parameter, by B backwards."""
    rows = [
        torch.autograd.grad(losses[b], params, retain_graph=True, allow_unused=True, create_graph=create_graph)
        for b in range(len(losses))
    ]
    return [
        torch.stack([torch.zeros_like(parameter) if row[place] is None else row[place].to_dense() for row in rows])
        for place, parameter in enumerate(params)
    ]


def largest_error(made: Sequence[Tensor], truth: Sequence[Tensor]) -> float:
    """Relative to the largest entry of all parameters' truth."""
    assert [part.shape for part in made] == [part.shape for part in truth]
    assert [part.dtype for part in made] == [part.dtype for part in truth]
    size = max((float(part.detach().abs().max()) for part in truth if part.numel()), default=0.0)
    gaps = [float((one - other).detach().abs().max()) for one, other in zip(made, truth, strict=True) if one.numel()]
    return max(gaps, default=0.0) / (size or 1.0)


def is_quick(losses: Tensor, params: Sequence[Tensor]) -> bool:
    """Whether the rules know the way, with no assumption."""
    found = follow(read_asked(losses, params))
    return not found.open and found.lost is None and found.meeting is None


def second_gradients(made: Sequence[Tensor], params: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of a number that bends with every entry of the per-sample gradients."""
    generator = torch.Generator().manual_seed(11)
    total = sum(((torch.randn(part.shape, generator=generator, dtype=part.dtype) + part) * part).sum() for part in made)
    assert isinstance(total, Tensor)
    found = torch.autograd.grad(total, params, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(parameter) if one is None else one for one, parameter in zip(found, params, strict=True)]


def judge(case: Case, quick: bool = True) -> None:
    """First and second order, against the loop; ``quick``: by the rules, no backward for each sample."""
    losses, params = case()
    assert is_quick(losses, params) == quick
    assert largest_error(per_sample_gradients(losses, params), loop_truth(losses, params)) < TIGHT
    made = per_sample_gradients(losses, params, create_graph=True)
    truth = loop_truth(losses, params, create_graph=True)
    assert largest_error(second_gradients(made, params), second_gradients(truth, params)) < TIGHT


@contextmanager
def engine_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many edges each call of the engine went to; as if no hook had ever been registered."""
    calls: list[int] = []
    run = captured.run_engine  # type: ignore[attr-defined]

    def counted(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(len(args[3]))
        return run(outputs, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(captured, "run_engine", counted)
        patch.setattr(gradients, "hooks_ever", lambda: 0)
        for module in (gradients, alone):
            patch.setattr(module, "hooks_heard", _nobody)
        yield calls


@contextmanager
def _nobody() -> Iterator[Heard]:
    yield Heard()
