"""What does a custom gradient cost, beside a torch.autograd.Function written by hand?

The cost of a call, not of arithmetic: tensors of one element, one input (``x * x``) or thirteen (the first plus the
last; the backward names all of them and hands its cotangent to each), one with a residual (``x * sigmoid(x)``) and one
with two outputs (``x * x, x + 1``). In every round each contestant makes a block of
calls in turn: under no_grad; the forward where a gradient is needed; forward and backward (``torch.autograd.grad``).
Time is CPU time of the calling thread (the CPU's backward runs in it), so that another process's turn doesn't count;
the figure is the median over rounds, the ratio the median of the rounds' ratios, with its quartiles. Saved bytes are
those that pass saved_tensors_hooks. The aim: at most 1.1 times the combined Function.

    python benchmarks/what_does_a_custom_gradient_cost.py [--rounds 3000] [--calls 20] [--no-save]
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from recording import describe_machine, save
from torch import Tensor
from torch.autograd import Function

from gradwright import custom_gradient, residuals


class CombinedSquare(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


class SetupContextSquare(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


class CombinedThirteen(Function):
    @staticmethod
    def forward(ctx: Any, a, b, c, d, e, f, g, h, i, j, k, n, m) -> Tensor:
        ctx.save_for_backward(a, b, c, d, e, f, g, h, i, j, k, n, m)
        return a + m

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, ...]:
        _a, _b, _c, _d, _e, _f, _g, _h, _i, _j, _k, _n, _m = ctx.saved_tensors
        return (grad_output,) * 13


class SetupContextThirteen(Function):
    @staticmethod
    def forward(a, b, c, d, e, f, g, h, i, j, k, n, m) -> Tensor:
        return a + m

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, ...]:
        _a, _b, _c, _d, _e, _f, _g, _h, _i, _j, _k, _n, _m = ctx.saved_tensors
        return (grad_output,) * 13


@torch.library.custom_op("cost::square", mutates_args=())
def square_op(x: Tensor) -> Tensor:
    return x * x


@torch.library.custom_op("cost::thirteen", mutates_args=())
def thirteen_op(
    a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor, g: Tensor,
    h: Tensor, i: Tensor, j: Tensor, k: Tensor, n: Tensor, m: Tensor,
) -> Tensor:  # fmt: skip
    return a + m


square_op.register_autograd(SetupContextSquare.backward, setup_context=SetupContextSquare.setup_context)
thirteen_op.register_autograd(SetupContextThirteen.backward, setup_context=SetupContextThirteen.setup_context)


@custom_gradient
def square(x):
    return x * x


@square.backward
def _(grad_output, x):
    return 2 * x * grad_output


@custom_gradient
def thirteen(a, b, c, d, e, f, g, h, i, j, k, n, m):
    return a + m


@thirteen.backward
def _(grad_output, a, b, c, d, e, f, g, h, i, j, k, n, m):
    return (grad_output,) * 13


class CombinedSwish(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        gate = torch.sigmoid(x)
        ctx.save_for_backward(x, gate)
        return x * gate

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        x, gate = ctx.saved_tensors
        return grad_output * gate * (1 + x * (1 - gate))


class CombinedPair(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        return x * x, x + 1

    @staticmethod
    def backward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * first + second


@custom_gradient
def swish(x):
    gate = torch.sigmoid(x)
    return x * gate, residuals(gate=gate)


@swish.backward
def _(grad_output, x, gate):
    return grad_output * gate * (1 + x * (1 - gate))


@custom_gradient
def pair(x):
    return x * x, x + 1


@pair.backward
def _(grad_outputs, x):
    first, second = grad_outputs
    return 2 * x * first + second


CONTESTANTS: dict[str, dict[str, Callable[..., Any]]] = {
    "1 input": {
        "ours": square,
        "combined": CombinedSquare.apply,
        "setup_context": SetupContextSquare.apply,
        "custom_op": square_op,
        "plain torch": lambda x: x * x,
    },
    "13 inputs": {
        "ours": thirteen,
        "combined": CombinedThirteen.apply,
        "setup_context": SetupContextThirteen.apply,
        "custom_op": thirteen_op,
        "plain torch": lambda *given: given[0] + given[-1],
    },
    "1 input, a residual": {
        "ours": swish,
        "combined": CombinedSwish.apply,
        "plain torch": torch.nn.functional.silu,
    },
    "1 input, two outputs": {
        "ours": pair,
        "combined": CombinedPair.apply,
        "plain torch": lambda x: (x * x, x + 1),
    },
}


def forward(function: Callable[..., Tensor], inputs: tuple[Tensor, ...], cotangent: Tensor, calls: int) -> None:
    for _ in range(calls):
        function(*inputs)


def without_grad(function: Callable[..., Tensor], inputs: tuple[Tensor, ...], cotangent: Tensor, calls: int) -> None:
    with torch.no_grad():
        forward(function, inputs, cotangent, calls)


def both(function: Callable[..., Tensor], inputs: tuple[Tensor, ...], cotangent: Tensor, calls: int) -> None:
    for _ in range(calls):
        output = function(*inputs)
        seeds = cotangent if isinstance(output, Tensor) else (cotangent,) * len(output)
        torch.autograd.grad(output, inputs, seeds, allow_unused=True)


MODES = {"no_grad": without_grad, "forward": forward, "forward and backward": both}


def saved_bytes(function: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> int:
    sizes: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        sizes.append(tensor.nbytes)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function(*inputs)
    return sum(sizes)


def measure(row_of: str, mode: str, rounds: int, calls: int) -> dict[str, Any]:
    """Microseconds per call: medians, contestants in turn, whose turn is first going round."""
    inputs = tuple(torch.ones(1, requires_grad=True) for _ in range(13 if row_of == "13 inputs" else 1))
    cotangent = torch.ones(1)
    contestants = list(CONTESTANTS[row_of].items())
    times: dict[str, list[float]] = {name: [] for name, _ in contestants}
    for number in range(-3, rounds):
        first = number % len(contestants)
        for name, function in contestants[first:] + contestants[:first]:
            gc.collect(0)
            started = time.thread_time_ns()
            MODES[mode](function, inputs, cotangent, calls)
            if number >= 0:
                times[name].append((time.thread_time_ns() - started) / calls / 1e3)
    ratios = sorted(ours / theirs for ours, theirs in zip(times["ours"], times["combined"], strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4)
    row: dict[str, Any] = {f"{name} us": round(statistics.median(found), 2) for name, found in times.items()}
    row |= {"ours / combined": round(middle, 2), "quartiles": f"{low:.2f} to {high:.2f}"}
    for name in (name for name in ("ours", "combined", "custom_op") if name in CONTESTANTS[row_of]):
        if mode != "no_grad":
            row[f"{name} saves bytes"] = saved_bytes(CONTESTANTS[row_of][name], inputs)
        else:
            row[f"{name} saves bytes"] = 0
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--no-save", action="store_true", help="print only")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for row_of in CONTESTANTS:
        for mode in MODES:
            title = f"{row_of}, {mode}"
            print(title, file=sys.stderr)
            results[title] = measure(row_of, mode, asked.rounds, asked.calls)
    if asked.no_save:
        print(json.dumps(results, indent=1))
    else:
        data = {"machine": describe_machine(), "threads": 1, "rounds": asked.rounds, "results": results}
        save("what_does_a_custom_gradient_cost", data)


if __name__ == "__main__":
    main()
