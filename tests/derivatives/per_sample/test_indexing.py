"""Rows looked up in a table: against a loop, first and second order."""

from typing import Any

import pytest
import torch
from tests.derivatives.per_sample.judge import (
    TIGHT,
    Case,
    drawn,
    ids,
    judge,
    largest_error,
    loop_truth,
    per_sample_loss,
    weight,
)  # fmt: skip
from tests.derivatives.per_sample.test_meeting_samples import Sine
from torch import Tensor, nn
from torch.nn import functional as F

from gradwright.derivatives.per_sample import per_sample_gradients

IDS = torch.tensor([[1, 2, 2, 0], [3, 3, 3, 3], [8, 2, 1, 5]])


def table(name, look):  # type: ignore[no-untyped-def]
    """``look(table [9, 5], ids [3, 4])`` gives [3, ...]."""

    def make(generator):  # type: ignore[no-untyped-def]
        rows = weight(generator, 9, 5)
        return per_sample_loss(look(rows, IDS).tanh()), [rows]

    return Case(name, make)


class Tied(nn.Module):
    """The table is also the last layer's weight: both contributions add up."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(9, 5, padding_idx=2), nn.Linear(5, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.linear(self.layer(self.table(tokens)).tanh(), self.table.weight)


def tied(generator: torch.Generator) -> tuple[Tensor, list[Tensor]]:
    net = Tied().double()
    logits = net(IDS)
    return F.cross_entropy(logits.flatten(0, 1), IDS.flatten(), reduction="none").view(3, 4).mean(1), list(
        net.parameters()
    )


CASES = [
    table("embedding", lambda rows, found: F.embedding(found, rows)),
    table("embedding, padded", lambda rows, found: F.embedding(found, rows, padding_idx=2)),
    table("embedding, one token", lambda rows, found: F.embedding(found[:, 0], rows)),
    table("embedding, time first", lambda rows, found: F.embedding(found.T, rows).transpose(0, 1)),
    table("embedding, flattened", lambda rows, found: F.embedding(found.flatten(), rows).view(3, 20)),
    table("embedding, flattened, time first", lambda rows, found: F.embedding(found.T.flatten(), rows).view(4, 3, 5)
          .transpose(0, 1)),
    table("index", lambda rows, found: rows[found]),
    table("index, negative", lambda rows, found: rows[found - 9]),
    table("index, two tensors", lambda rows, found: rows[found, found % 5]),
    table("index, two tensors that broadcast", lambda rows, found: rows[found, torch.tensor([0, 1, 4, 2])]),
    table("index_select", lambda rows, found: rows.index_select(0, found[:, 1])),
    table("index_select of columns", lambda rows, found: rows.T.index_select(1, found[:, 1]).T),
    Case("tied", tied),
]  # fmt: skip


@pytest.mark.parametrize("case", ids(CASES))
def test_rows_of_a_table_are_those_of_a_loop(case: Case) -> None:
    judge(case)


BY_ONE_HOTS = [
    table("scale_grad_by_freq", lambda rows, found: F.embedding(found, rows, scale_grad_by_freq=True)),
    table("columns by an index", lambda rows, found: rows[:, torch.tensor([1, 4, 1])].T),
    table("a mask", lambda rows, found: rows[torch.tensor([True] * 3 + [False] * 6)]),
]


@pytest.mark.parametrize("case", ids(BY_ONE_HOTS))
def test_what_no_rule_takes_is_made_sample_by_sample(case: Case) -> None:
    judge(case, quick=False)


@pytest.mark.parametrize("batch", ["auto", "coupled"])
def test_a_sparse_gradient_comes_dense(batch: Any) -> None:
    rows = weight(torch.Generator().manual_seed(1), 9, 5)
    losses = per_sample_loss(Sine.apply(F.embedding(IDS, rows, sparse=True)))
    made = per_sample_gradients(losses, [rows], batch=batch)
    assert largest_error(made, loop_truth(losses, [rows])) < TIGHT
    losses = per_sample_loss(F.embedding(IDS, rows, sparse=True))
    assert largest_error([per_sample_gradients(losses, rows, batch=batch)], loop_truth(losses, [rows])) < TIGHT


def test_rows_that_only_one_sample_uses_are_its_own() -> None:
    """A parameter with a row for each sample: each sample's gradient is zero in the other rows."""
    generator = torch.Generator().manual_seed(3)
    codes, x = weight(generator, 3, 5), drawn(generator, 3, 5)
    judge(Case("latent codes", lambda generator: (per_sample_loss((codes * x).tanh()), [codes])))
    found = per_sample_gradients(per_sample_loss((codes * x).tanh()), codes)
    assert not found[0, 1:].any() and found[0, 0].all()
