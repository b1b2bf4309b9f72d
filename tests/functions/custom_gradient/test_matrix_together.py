"""Every kind of custom gradient under every transform, and transforms of transforms: right, or an error, never else."""

from collections.abc import Callable

import pytest
from corpora.support_matrix.record import load
from corpora.support_matrix.together.judged import CASES, judged
from corpora.support_matrix.together.kinds import KINDS, Kind, scaled
from corpora.support_matrix.together.transforms import TRANSFORMS, backward, double_backward, jacfwd, per_sample
from corpora.support_matrix.verdict import RAISES, RIGHT, WRONG
from tests.laws import Laws

pytestmark = [  # torch's own, of forward mode and of linearize
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
]
RECORDED = load()["together"]

laws = Laws[Callable]()


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda it: it.__name__)
def test_every_kind_under_a_transform_is_as_recorded(transform: Callable) -> None:
    laws.hold(transform)


def verdict_of(kind: Kind) -> Callable[[Callable], None]:
    def is_as_recorded(transform: Callable) -> None:
        found = judged(transform, kind)
        assert found.word == RECORDED[transform.__name__][kind.name], found.told

    is_as_recorded.__name__ = kind.name
    return is_as_recorded


for kind in KINDS:
    laws.where(lambda transform, kind=kind: (transform, kind) in CASES)(verdict_of(kind))


def test_none_is_silently_wrong() -> None:
    assert {word for kinds in RECORDED.values() for word in kinds.values()} <= {RIGHT, RAISES}


@pytest.mark.parametrize("transform", [backward, double_backward, jacfwd, per_sample], ids=lambda it: it.__name__)
def test_a_backward_that_is_dropped_is_seen(transform: Callable) -> None:
    kind = Kind("planted", lambda x: (x * x,), lambda x: (scaled(x * x),))
    assert judged(transform, kind).word == WRONG
