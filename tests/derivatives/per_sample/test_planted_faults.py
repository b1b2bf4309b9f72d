"""The judge itself: a rule that is wrong in any common way is rejected, by the tests and, where it can, at run time."""

import gc
from collections.abc import Callable, Iterator

import pytest
import torch
from tests.derivatives.asking import asking
from tests.derivatives.per_sample import test_broadcast, test_convolution, test_indexing, test_matrices
from tests.derivatives.per_sample import test_normalisation as normalisation
from tests.derivatives.per_sample.judge import Case, judge
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes import Place
from gradwright.derivatives.per_sample import boundary
from gradwright.derivatives.per_sample.boundary import Boundary, Make

Spoil = Callable[[Tensor], Tensor]

FAULTS: dict[str, Spoil] = {
    "a factor": lambda part: 1.001 * part,
    "a sign": torch.neg,
    "the neighbour's": lambda part: part.roll(1, 0),
    "the mean of all": lambda part: part.mean(0, keepdim=True).expand_as(part),
    "a sample lost": lambda part: torch.cat([part[:-1], 0 * part[-1:]]),
    "no derivative": lambda part: part.detach(),
}


@pytest.fixture(autouse=True)
def no_finalizers() -> Iterator[None]:
    """What a finalizer does while the engine runs is heard as a hook is: then nothing is believed without a look."""
    gc.disable()
    yield
    gc.enable()


def spoiled(rule: Boundary, spoil: Spoil) -> Boundary:
    def wrong(step: Step, index: int, place: Place, samples: int) -> Make | None:
        make = rule(step, index, place, samples)
        return None if make is None else lambda cotangent: spoil(make(cotangent))

    return wrong


def case(cases: list[Case], name: str) -> Case:
    (found,) = (case for case in cases if case.name == name)
    return found


RULES = {
    "AddmmBackward0": case(test_matrices.MODULES, "MLP on a sequence"),
    "MmBackward0": test_matrices.product("left", test_matrices.on_the_left),
    "BmmBackward0": test_matrices.product("heads", test_matrices.heads),
    "BaddbmmBackward0": test_matrices.product("expanded", test_matrices.expanded),
    "MvBackward0": test_matrices.product("vector", test_matrices.vector),
    "AddmvBackward0": test_matrices.product("added", test_matrices.added_vector),
    "ConvolutionBackward0": case(test_convolution.CASES, "groups"),
    "EmbeddingBackward0": case(test_indexing.CASES, "embedding"),
    "IndexBackward0": case(test_indexing.CASES, "index"),
    "IndexSelectBackward0": case(test_indexing.CASES, "index_select"),
    "NativeLayerNormBackward0": case(normalisation.CASES, "LayerNorm"),
    "NativeGroupNormBackward0": case(normalisation.CASES, "GroupNorm"),
    "NativeBatchNormBackward0": case(normalisation.CASES, "BatchNorm, eval"),
    "AddBackward0": case(test_broadcast.CASES, "bias"),
    "SubBackward0": case(test_broadcast.CASES, "minus"),
    "RsubBackward0": case(test_broadcast.CASES, "rsub"),
    "MulBackward0": case(test_broadcast.CASES, "scale"),
    "DivBackward0": case(test_broadcast.CASES, "divided by"),
    "WhereBackward0": case(test_broadcast.CASES, "chosen"),
    "PreluKernelBackward0": case(test_broadcast.CASES, "PReLU"),
    "AddcmulBackward0": case(test_broadcast.CASES, "addcmul"),
    "ExpandBackward0": case(test_broadcast.CASES, "expanded"),
    "RepeatBackward0": case(test_broadcast.CASES, "repeated"),
}


def test_every_rule_is_spoiled_here() -> None:
    assert set(RULES) == set(boundary._rules())


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_right_and_wrong_in_any_way_is_rejected(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    judge(RULES[rule])
    right = boundary._rules()[rule]
    for fault, spoil in FAULTS.items():
        monkeypatch.setitem(boundary._rules(), rule, spoiled(right, spoil))
        with asking(fault=fault), pytest.raises((AssertionError, RuntimeError)):
            judge(RULES[rule])
