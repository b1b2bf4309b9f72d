"""Operations that move bytes are told from those that hand out views."""

import pytest
import torch

from gradwright.ground.operations import moved_bytes, only_views

aten = torch.ops.aten
X = torch.ones(4, 5)


@pytest.mark.parametrize("view", [aten.select.int, aten.view.default, aten.t.default, aten.expand.default])
def test_a_view_moves_nothing(view: torch._ops.OpOverload) -> None:
    assert only_views(view)
    assert moved_bytes(view, (X,), X) == 0


@pytest.mark.parametrize("work", [aten.mul.Tensor, aten.add_.Tensor, aten.copy_.default, aten.sum.default])
def test_what_writes_moves_what_it_reads_and_what_it_writes(work: torch._ops.OpOverload) -> None:
    assert not only_views(work)
    assert moved_bytes(work, (X, X), X) == 3 * 80


def test_lists_of_tensors_are_read_and_expanded_elements_once() -> None:
    row = torch.ones(5).expand(4, 5)
    assert moved_bytes(aten.cat.default, ([X, X],), torch.cat([X, X])) == 4 * 80
    assert moved_bytes(aten.mul.Tensor, (X, row), X * row) == 80 + 20 + 80
