"""Exercise 10: accumulation on purpose."""

from torch import Tensor, nn
from torch.optim import Optimizer


def accumulate(model: nn.Module, micro_batches: list[tuple[Tensor, Tensor]], optimizer: Optimizer) -> None:
    """One update, as with all micro-batches in one batch; the loss is the mean squared error over all samples."""
    total = sum(len(y) for _, y in micro_batches)
    optimizer.zero_grad()
    for x, y in micro_batches:
        loss = ((model(x) - y) ** 2).sum() / total
        loss.backward()
    optimizer.step()
