"""How fast is the penalty on a hidden node's derivatives, beside the loop over the batch that people write?

The SimpleNet of the question: two linear layers 2 -> 1 -> 2 without biases; per sample j the derivatives l1, l2 of both
outputs with respect to the hidden node, by one ``torch.autograd.grad(output[j][k], hidden, create_graph=True)[0][j]``
each, and the loss | sqrt(l1^2 + l2^2) - 1 | summed over the batch, plus a mean squared error. A step is forward, loss
and backward. ``ours``: ``gw.batch_jacobian(y, wrt=z, create_graph=True)`` in place of the loop, the check included.
Also the same step with a deeper tail, 1 -> 128 -> 128 -> 2 with tanh, "as in the real one there are more layers in
between".

Every way takes its turn in every round; median over the rounds, and the ratio the median of the rounds' ratios. The
gradients of all parameters are compared with the loop's. On a CPU it is the CPU time of one thread. Aim: 100 times as
fast as the loop at B = 256, 400 times at B = 1024.

    python benchmarks/how_fast_is_the_batched_penalty.py [--device cuda] [--rounds 5] [--quick] [--no-save]
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

import torch
from on_device import machine_of, peak_bytes, read_setting, seconds
from recording import save
from torch import Tensor, nn

from gradwright.derivatives.jacobian import batch_jacobian


class SimpleNet(nn.Module):
    def __init__(self, deep: bool) -> None:
        super().__init__()
        self.linear1 = nn.Linear(2, 1, bias=False)
        layers = [nn.Linear(1, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 2)]
        self.linear2 = nn.Sequential(*layers) if deep else nn.Linear(1, 2, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.linear1(x)
        return self.linear2(z), z


def looped(y: Tensor, z: Tensor) -> Tensor:
    """As in the question."""
    total = torch.zeros((), device=y.device)
    for j in range(len(y)):
        l1 = torch.autograd.grad(y[j][0], z, create_graph=True)[0][j]
        l2 = torch.autograd.grad(y[j][1], z, create_graph=True)[0][j]
        total = total + abs(torch.sqrt(l1**2 + l2**2) - 1).sum()
    return total


def by_sums(y: Tensor, z: Tensor) -> Tensor:
    """The sum trick, by hand: what is known by those who know it."""
    l1 = torch.autograd.grad(y[:, 0].sum(), z, create_graph=True)[0]
    l2 = torch.autograd.grad(y[:, 1].sum(), z, create_graph=True)[0]
    return (torch.sqrt(l1**2 + l2**2) - 1).abs().sum()


def ours(y: Tensor, z: Tensor) -> Tensor:
    jacobian = batch_jacobian(y, wrt=z, create_graph=True)
    return (torch.linalg.vector_norm(jacobian, dim=1) - 1).abs().sum()


WAYS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"ours": ours, "sum trick by hand": by_sums, "loop": looped}


def step(net: SimpleNet, x: Tensor, target: Tensor, penalty: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
    net.zero_grad(set_to_none=True)
    y, z = net(x)
    (nn.functional.mse_loss(y, target) + penalty(y, z)).backward()
    return [parameter.grad for parameter in net.parameters() if parameter.grad is not None]


def measure(samples: int, deep: bool, rounds: int, device: torch.device) -> dict[str, object]:
    torch.manual_seed(0)
    net = SimpleNet(deep).to(device)
    x, target = torch.randn(samples, 2, device=device), torch.randn(samples, 2, device=device)
    jobs = {name: partial(step, net, x, target, way) for name, way in WAYS.items()}
    truth = [grad.clone() for grad in jobs["loop"]()]
    for name, job in jobs.items():
        for grad, true in zip(job(), truth, strict=True):
            torch.testing.assert_close(grad, true, rtol=1e-3, atol=1e-4 * float(true.abs().max()), msg=name)
    quick = [name for name in jobs if name != "loop"]
    took: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        took["loop"].append(seconds(jobs["loop"], device))
        for name in quick:
            took[name].append(statistics.median(seconds(jobs[name], device) for _ in range(9)))
    middle = {name: statistics.median(times) for name, times in took.items()}
    row: dict[str, object] = {
        "times_as_fast": round(statistics.median(a / b for a, b in zip(took["loop"], took["ours"], strict=True))),
        "of_sum_trick": round(
            statistics.median(a / b for a, b in zip(took["ours"], took["sum trick by hand"], strict=True)), 2
        ),
    }
    row |= {f"{name}_ms": round(middle[name] * 1e3, 2) for name in WAYS}
    row |= {f"{name}_MiB": round(peak_bytes(jobs[name], device) / 2**20, 2) for name in WAYS}
    return row


def main() -> None:
    setting = read_setting(__doc__, rounds=5, quick=1, told=", without B = 1024")
    results: dict[str, dict[str, object]] = {}
    for deep in (False, True):
        for samples in (64, 256) if setting.quick else (64, 256, 1024):
            title = f"B={samples}, " + ("tail 1->128->128->2" if deep else "SimpleNet")
            rounds = min(setting.rounds, 2) if samples == 1024 else setting.rounds
            results[title] = measure(samples, deep, rounds, setting.device)
            print(title, results[title], flush=True)
    if setting.save:
        save("how_fast_is_the_batched_penalty", {"machine": machine_of(setting.device), "results": results})


if __name__ == "__main__":
    main()
