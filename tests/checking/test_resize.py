"""The same call at other sizes."""

import pytest
import torch

from gradwright.checking.problem import pose
from gradwright.checking.resize import NoSuchCall, has_idle_slices, is_interchangeable, resized


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_size_is_changed_wherever_it_occurs():
    x, w, order = resized((draw(5, 4), draw(4, 3), (4, 3)), {4: 2}, 0)
    assert (x.shape, w.shape, order) == ((5, 2), (2, 3), (2, 3))


def test_whole_slices_are_kept_and_belong_together():
    x, y = draw(5, 4), draw(5)
    smaller, beside = resized((x, y), {5: 3}, 0)
    for row, value in zip(smaller, beside, strict=True):
        at = int((y == value).nonzero())
        assert torch.equal(row, x[at])
    larger, _ = resized((x, y), {5: 7}, 0)
    assert torch.equal(larger[:5], x) and torch.equal(larger[5:], x[:2])


def test_one_axis_alone():
    (x,) = resized((draw(4, 4),), {}, 0, {0: {1: 3}})
    assert x.shape == (4, 3)


def test_indices_go_on_pointing_at_what_they_pointed_at():
    x = torch.arange(6.0)
    picked = torch.tensor([5, 0, 3])
    smaller, index = resized((x, picked), {6: 4}, 0)
    still = [value for value in picked.tolist() if float(value) in smaller.tolist()]
    assert int(index.max()) < 4
    for at, value in enumerate(picked.tolist()):
        if value in still:
            assert float(smaller[index[at]]) == float(value)


def test_permutations_stay_permutations_and_ignored_targets_ignored():
    _, order = resized((draw(6), torch.tensor([4, 2, 0, 5, 1, 3])), {6: 3}, 0)
    assert sorted(order.tolist()) == [0, 1, 2]
    _, target = resized((draw(4, 6), torch.tensor([5, -100, 2, 2])), {6: 3}, 0)
    assert target[1] == -100 and int(target.max()) < 3


def test_offsets_into_another_axis_are_no_such_call():
    with pytest.raises(NoSuchCall):
        resized((draw(6, 2), torch.tensor([0, 2, 5, 6])), {6: 3}, 0)


def test_a_structure_survives():
    (smaller,) = resized((draw(5, 4).softmax(-1),), {4: 2}, 0)
    assert torch.allclose(smaller.sum(-1), torch.ones(5, dtype=torch.float64))
    with pytest.raises(NoSuchCall):
        resized((draw(4, 4) @ draw(4, 4).mT + torch.eye(4),), {}, 0, {0: {1: 3}})


CALLS = [
    (lambda x: x.softmax(-1), (draw(3, 4),), 4, True),
    (lambda x, w: x @ w, (draw(3, 4), draw(4, 5)), 4, True),
    (lambda x: x.cumsum(-1), (draw(3, 4),), 4, False),
    (lambda x: x.cumsum(-1)[..., 0] + x.sum(-1), (draw(3, 2),), 2, False),
    (lambda x: x.sum(-1).expand(3), (draw(3),), 3, True),
    (lambda x: x * x.abs(), (torch.complex(draw(3, 2), draw(3, 2, seed=1)),), 2, True),
    (lambda x: x.cumsum(-1), (torch.complex(draw(3, 2), draw(3, 2, seed=1)),), 2, False),
    (lambda x: torch.complex(x[..., 0], x[..., 1]), (draw(3, 2),), 2, False),
    (lambda q: torch.cat([-q[..., :3], q[..., 3:]], -1), (draw(3, 4),), 4, False),
    (torch.nn.functional.cross_entropy, (draw(3, 4), torch.tensor([0, 3, 1])), 4, True),
    (torch.nn.functional.cross_entropy, (draw(3, 4), torch.tensor([0, 3, 1])), 3, True),
]


@pytest.mark.parametrize("subject, args, size, alike", CALLS)
def test_places_are_interchangeable_where_the_subject_treats_them_alike(subject, args, size, alike):
    assert is_interchangeable(pose(subject, args).trial, size, 0) is alike


def test_slices_that_nothing_reads_are_seen():
    problem = pose(lambda x: (x[..., 0] ** 2 + x[..., 1] ** 2).sqrt(), (draw(3, 2),))
    longer = resized(problem.args, {2: 5}, 0)
    assert has_idle_slices(problem.trial.at(list(longer)), problem.args)
    problem = pose(lambda x: x.softmax(-1), (draw(3, 2),))
    assert not has_idle_slices(problem.trial.at(list(resized(problem.args, {2: 5}, 0))), problem.args)
