"""Does my accumulation equal the big batch? The usual loop and the counted one, in each situation."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpora.asked.answer import NOTES, Answer, Rows, claim
from corpora.asked.measuring import error
from gradwright.training import GradientAccumulator

IGNORED = -100
Batch = tuple[Tensor, Tensor]
SIZES = {"equal pieces": (4, 4, 4), "the last piece is short": (5, 5, 2), "tokens, some ignored": (4, 4, 4)}


def batch_of(situation: str) -> Batch:
    torch.manual_seed(0)
    x, labels = torch.randn(12, 6, dtype=torch.float64), torch.randint(3, (12,))
    if "ignored" in situation:
        labels[:3] = labels[5] = IGNORED
    return x, labels


def model_of(situation: str) -> nn.Module:
    torch.manual_seed(1)
    middle = nn.BatchNorm1d(8) if "BatchNorm" in situation else nn.Tanh()
    model = nn.Sequential(nn.Linear(6, 8), middle, nn.Linear(8, 3)).double()
    return model.float() if "float32" in situation else model.bfloat16() if "bfloat16" in situation else model


def pieces_of(situation: str, batch: Batch) -> list[Batch]:
    sizes = (1,) * 12 if "12 pieces" in situation else SIZES.get(situation, (4, 4, 4))
    return list(zip(batch[0].split(sizes), batch[1].split(sizes), strict=True))


def loss_of(model: nn.Module, batch: Batch, reduction: str) -> Tensor:
    x = batch[0].to(next(model.parameters()).dtype)
    return F.cross_entropy(model(x).float() if x.dtype == torch.bfloat16 else model(x), batch[1], reduction=reduction)


def gradient(model: nn.Module) -> Tensor:
    return torch.cat(
        [parameter.grad.double().flatten() for parameter in model.parameters() if parameter.grad is not None]
    )


def of_the_batch(situation: str) -> Tensor:
    """In float64, whatever the pieces are taken in; the parameters as they are rounded."""
    model = model_of(situation).double()
    loss_of(model, batch_of(situation), "mean").backward()
    return gradient(model)


def usual(situation: str) -> Tensor:
    model, pieces = model_of(situation), pieces_of(situation, batch_of(situation))
    for piece in pieces:
        (loss_of(model, piece, "mean") / len(pieces)).backward()
    return gradient(model)


def counted(situation: str) -> Tensor:
    model, batch = model_of(situation), batch_of(situation)
    total = int((batch[1] != IGNORED).sum())
    for piece in pieces_of(situation, batch):
        (loss_of(model, piece, "sum") / total).backward()
    return gradient(model)


def ours(situation: str) -> Tensor:
    model, pieces = model_of(situation), pieces_of(situation, batch_of(situation))
    acc = GradientAccumulator(
        model,
        torch.optim.SGD(model.parameters(), lr=0.0),
        accumulation_steps=len(pieces),
        count=lambda batch: (batch[1] != IGNORED).sum(),
        accumulate_dtype=torch.float32 if "bfloat16" in situation else None,
    )
    for window in acc.windows(pieces):
        for piece in window:
            acc.backward(loss_of(model, piece, "sum"), reduction="sum")
        acc.step()
    return gradient(model)


SITUATIONS = (*SIZES, "a BatchNorm in the model", "float32, equal pieces", "bfloat16, 12 pieces")
WAYS: dict[str, Callable[[str], Tensor]] = {"mean / steps": usual, "sum / count": counted, "GradientAccumulator": ours}


def measure(rounds: int, quick: bool) -> Answer:
    import warnings

    rows: Rows = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a BatchNorm can't be accumulated exactly: measured here
        for situation in SITUATIONS:
            true = of_the_batch(situation)
            rows[situation] = {name: error(way(situation), true) for name, way in WAYS.items()}
    told = ", ".join(f"{rows[situation]['mean / steps']} ({situation})" for situation in SIZES)
    return Answer(
        "Accumulation beside the batch",
        rows,
        {
            "a step after several micro-batches is that of the large batch": claim(
                NOTES,
                float(rows["equal pieces"]["mean / steps"]) < 1e-12,
                f"mean / steps is off by {told}",
                so_far="for equal counts, without BatchNorm",
            )
        },
    )
