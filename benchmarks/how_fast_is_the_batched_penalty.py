"""How fast is the penalty on a hidden node's derivatives, beside the loop over the batch that people write?

An encoder 3 -> 2 makes a code, a decoder brings it back to 3; per sample b the penalty is | ||dy_b/dcode_b|| - 1 |, the
norm over its 3 x 2 derivatives, summed over the batch, plus a mean squared error. ``loop``: one backward for each
output of each sample, of which one row is kept. ``ours``: ``gw.batch_jacobian(y, wrt=code, create_graph=True)`` in
place of the loop, the check included. A step is forward, loss and backward. Two decoders: linear, without a bias, and
a deeper one, 2 -> 128 -> 128 -> 3 with tanh, as real ones are.

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


class CodeNet(nn.Module):
    """x [B, 3] -> its reconstruction [B, 3] and its code [B, 2]."""

    def __init__(self, deep: bool) -> None:
        super().__init__()
        layers = [nn.Linear(2, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 3)]
        self.decoder = nn.Sequential(*layers) if deep else nn.Linear(2, 3, bias=False)
        self.encoder = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.encoder(x)
        return self.decoder(code), code


def looped(y: Tensor, code: Tensor) -> Tensor:
    """A backward for each output of each sample, through the whole batch; one row of its result is kept."""
    samples, outputs = y.shape
    jacobian = y.new_zeros(samples, outputs, *code.shape[1:])  # [B, 3, 2]
    for sample in range(samples):
        for k in range(outputs):
            (slopes,) = torch.autograd.grad(y[sample, k], code, create_graph=True)  # [B, 2]
            jacobian[sample, k] = slopes[sample]
    return (jacobian.square().sum(dim=(1, 2)).sqrt() - 1).abs().sum()


def by_sums(y: Tensor, code: Tensor) -> Tensor:
    """The sum trick, by hand: what is known by those who know it."""
    slopes = [torch.autograd.grad(total, code, create_graph=True)[0] for total in y.sum(dim=0)]  # K times [B, 2]
    return (torch.stack(slopes).square().sum(dim=(0, 2)).sqrt() - 1).abs().sum()


def ours(y: Tensor, code: Tensor) -> Tensor:
    jacobian = batch_jacobian(y, wrt=code, create_graph=True)  # [B, 3, 2]
    return (torch.linalg.vector_norm(jacobian, dim=(1, 2)) - 1).abs().sum()


WAYS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"ours": ours, "sum trick by hand": by_sums, "loop": looped}


def step(net: CodeNet, x: Tensor, penalty: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
    net.zero_grad(set_to_none=True)
    y, code = net(x)
    (nn.functional.mse_loss(y, x) + penalty(y, code)).backward()
    return [parameter.grad for parameter in net.parameters() if parameter.grad is not None]


def measure(samples: int, deep: bool, rounds: int, device: torch.device) -> dict[str, object]:
    torch.manual_seed(0)
    net = CodeNet(deep).to(device)
    x = torch.randn(samples, 3, device=device)
    jobs = {name: partial(step, net, x, way) for name, way in WAYS.items()}
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
            title = f"B={samples}, " + ("decoder 2->128->128->3" if deep else "linear decoder")
            rounds = min(setting.rounds, 2) if samples == 1024 else setting.rounds
            results[title] = measure(samples, deep, rounds, setting.device)
            print(title, results[title], flush=True)
    if setting.save:
        save("how_fast_is_the_batched_penalty", {"machine": machine_of(setting.device), "results": results})


if __name__ == "__main__":
    main()
