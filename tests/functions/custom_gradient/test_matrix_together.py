"""Every kind of custom gradient under every transform, and transforms of transforms: right, or an error, never else."""

from collections.abc import Callable

import pytest
from corpora.support_matrix.record import load
from corpora.support_matrix.together.judged import CASES, judged
from corpora.support_matrix.together.kinds import Kind, scaled
from corpora.support_matrix.together.transforms import backward, double_backward, jacfwd, per_sample
from corpora.support_matrix.verdict import RAISES, RIGHT, WRONG

pytestmark = [  # torch's own, of forward mode and of linearize
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
]
RECORDED = load()["together"]
NAMED = [pytest.param(*case, id=f"{case[0].__name__}-{case[1].name}") for case in CASES]


@pytest.mark.parametrize(("transform", "kind"), NAMED)
def test_a_kind_under_a_transform_is_as_recorded(transform: Callable, kind: Kind) -> None:
    found = judged(transform, kind)
    assert found.word == RECORDED[transform.__name__][kind.name], found.told


def test_none_is_silently_wrong() -> None:
    assert {word for kinds in RECORDED.values() for word in kinds.values()} <= {RIGHT, RAISES}


@pytest.mark.parametrize("transform", [backward, double_backward, jacfwd, per_sample], ids=lambda it: it.__name__)
def test_a_backward_that_is_dropped_is_seen(transform: Callable) -> None:
    kind = Kind("planted", lambda x: (x * x,), lambda x: (scaled(x * x),))
    assert judged(transform, kind).word == WRONG
