"""Patterns of a graph that cost more than they must: what is found in graphs, and when it is worth a word."""

import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from gradwright.doctor.observe.training.costly_nodes import Costly, costly
from gradwright.doctor.observe.training.costly_trials import seconds_of
from gradwright.doctor.rules.rule import Facts
from gradwright.doctor.rules.speed import cat_in_loop, dense_structured_matrix, index_backward_blow_up
from gradwright.doctor.session.facts import CostlyGraph, LoopsTreated
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location


def weights(*shape: int) -> torch.Tensor:
    return torch.ones(shape, requires_grad=True)


def found(output: torch.Tensor) -> list[tuple[str, int, tuple[int, ...], tuple[int, ...], int]]:
    costs = (one for one in costly(output.sum().grad_fn) if one.kind != "rows")  # see test_row_branches
    return [(one.kind, one.count, one.shape, one.other, one.dim) for one in costs]


def grown(parts: int, *, used: bool) -> torch.Tensor:
    w, out, seen = weights(1, 8192), torch.zeros(1, 8192), torch.zeros(())
    for _ in range(parts):
        out = torch.cat([out, w * 2])
        if used:
            seen = seen + out.tanh().sum()
    return out.sum() + seen


def test_rows_taken_of_a_tensor_are_found() -> None:
    y = weights(100, 256) * 2
    assert found(torch.stack([y[i].exp() for i in range(100)])) == [("entries", 100, (100, 256), (256,), -1)]


def test_rows_taken_of_a_leaf_and_slices_of_an_axis_are_found() -> None:
    w, y = weights(80, 512), weights(4, 80, 128) * 2
    rows = sum(w[i].exp().sum() for i in range(80))
    slices = sum(y[:, t : t + 1].exp().sum() for t in range(80))
    assert sorted(found(rows + slices)) == [
        ("entries", 80, (4, 80, 128), (4, 1, 128), -1),
        ("entries", 80, (80, 512), (512,), -1),
    ]


@pytest.mark.parametrize(
    "output",
    [
        lambda y: torch.stack([row.exp() for row in y.unbind(0)]),
        lambda y: torch.stack([row.exp() for row in y]),
        lambda y: sum(y[i].exp() for i in range(40)),
        lambda y: sum(y[i, :2].exp() for i in range(100)) if len(y) < 50 else y.exp(),
        lambda y: sum(part.exp().sum() for part in y.split(1)),
        lambda y: sum(y[:50].exp() for _ in range(100)),
    ],
)
def test_unbind_few_rows_and_large_parts_are_no_fault(output) -> None:
    assert found(output(weights(100, 256) * 2)) == []


def test_a_cat_in_loop_is_found_where_nothing_else_uses_it() -> None:
    assert found(grown(40, used=False)) == [("cat", 40, (41, 8192), (2, 8192), -1)]
    assert found(grown(40, used=True)) == []
    assert found(grown(10, used=False)) == []


def test_features_of_a_dense_block_and_one_cat_of_a_list_are_no_fault() -> None:
    features = torch.ones(2, 4, 64, 64)
    for _ in range(20):
        features = torch.cat([features, nn.functional.conv2d(features, weights(4, features.shape[1], 1, 1))], 1)
    assert found(features) == []
    assert found(torch.cat([weights(64, 64) * i for i in range(64)])) == []


def test_products_with_diagonal_matrices_are_found_with_their_side() -> None:
    v, b = weights(128), torch.ones(128, 128)
    assert found(torch.diag(v) @ b) == [("diagonal", 1, (128, 128), (128, 128), 0)]
    assert found(b @ torch.diag(v)) == [("diagonal", 1, (128, 128), (128, 128), 1)]
    assert found(torch.diag_embed(weights(3, 128)) @ torch.ones(3, 128, 7)) == [
        ("diagonal", 1, (3, 128, 128), (3, 128, 7), 0)
    ]
    assert found(torch.diag(v) @ torch.ones(128)) == [("diagonal", 1, (128, 128), (128,), 0)]
    assert found(torch.diag(weights(8)) @ torch.ones(8, 8)) == []
    assert found(torch.diag(v) + b) == []


@pytest.mark.parametrize(
    ("kind", "count", "shape", "other", "dim"),
    [
        ("entries", 300, (300, 200), (200,), -1),
        ("entries", 300, (4, 200, 50), (4, 50), -1),
        ("entries", 300, (4, 300, 50), (4, 1, 50), -1),
        ("entries", 300, (300, 200), (), -1),
        ("cat", 200, (4, 402, 40), (4, 4, 40), -1),
        ("diagonal", 1, (300, 300), (300, 64), 0),
        ("diagonal", 1, (300, 300), (64, 300), 1),
        ("diagonal", 1, (300, 300), (300,), 0),
        ("diagonal", 1, (3, 200, 200), (3, 200, 16), 0),
    ],
)
def test_what_a_pattern_takes_for_nothing_is_tried(kind, count, shape, other, dim) -> None:
    what = Costly(kind, count, shape, other, torch.float32, torch.device("cpu"), None, dim)
    with torch.no_grad():
        assert seconds_of(what) > 0
    assert seconds_of(replace(what, device=torch.device("meta"))) == 0


SUBJECT = Subject("gradient_call:x", "gradient_call", "backward in the script", Location("train.py", 20))
COST = CostlyGraph(
    id="cost", subject=SUBJECT.id, pattern="entries", count=400, shape=(32, 400, 64), other=(32, 64), bytes=1 << 30,
    looks=3, first=1, seconds=0.05, step_seconds=0.3, step_cpu_seconds=0.2, text="x[:, t]",
    location=Location("train.py", 12, 8, 12, 15),
)  # fmt: skip
TREATED = LoopsTreated(id="loops treated", subject="script", told=(Location("other.py", 1, 1, 90, 1),))


def judged(rule, *facts) -> list:
    return list(rule.judge(SUBJECT, Facts(facts, SUBJECT)))


def test_entries_are_told_with_what_they_cost_and_the_axis() -> None:
    (told,) = judged(index_backward_blow_up, COST, TREATED)
    assert told.location == COST.location
    assert "`x[:, t]` takes 400 entries" in told.message
    assert "50 ms together, 25 % of a step" in told.why
    assert "unbind(1)" in told.hints[0]


@pytest.mark.parametrize(
    "facts",
    [
        [COST],
        [COST, replace(TREATED, told=(Location("train.py", 11, 1, 13, 9),))],
        [replace(COST, looks=1), TREATED],
        [replace(COST, seconds=0.005), TREATED],
        [replace(COST, seconds=0.0005, step_seconds=0.001, step_cpu_seconds=0.001), TREATED],
        [replace(COST, step_seconds=9.0), TREATED],
        [replace(COST, location=None), TREATED],
    ],
    ids=["loops not tried yet", "a loop that is told", "seen once", "cheap", "tiny", "a step that waits", "no place"],
)
def test_what_is_not_worth_a_word_is_not_told(facts: list) -> None:
    assert judged(index_backward_blow_up, *facts) == []


def test_cat_and_diagonal_are_told_with_their_own_remedy() -> None:
    cat = replace(COST, pattern="cat", count=300, shape=(300, 64), other=(2, 64))
    (told,) = judged(cat_in_loop, cat, TREATED)
    assert "300 calls of cat" in told.message
    diagonal = replace(COST, pattern="diagonal", count=1, shape=(512, 512), other=(512, 32), dim=0)
    (told,) = judged(dense_structured_matrix, diagonal, TREATED)
    assert "scale the rows" in told.hints[0]


ROWS = """
    import torch
    torch.manual_seed(0)
    queries, keys = torch.randn(500, 60), torch.randn(500, 60, requires_grad=True)
    optimizer = torch.optim.SGD([keys], lr=0.1)
    def similarities(queries, keys):
        scores = []
        for b in range(queries.shape[0]):
            scores.append((queries[b] * keys[b]).sum())
        return torch.stack(scores)
    for step in range(4):
        optimizer.zero_grad()
        (1 - similarities(queries, keys)).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("fix_seconds", [60.0, 0.0])
def test_a_loop_over_rows_is_told_as_a_whole(fix_seconds: float, run: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(ROWS))
    ran = run(tmp_path / "train.py", fix_seconds=fix_seconds)
    assert [one for one in ran.codes if one in ("GW301", "GW304", "GW315")] == ["GW304"]
