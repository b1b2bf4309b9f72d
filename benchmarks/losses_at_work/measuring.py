"""One cell of the benchmark: a loss on tensors, each way in turn; time, bytes moved, memory at its peak, errors."""

from __future__ import annotations

import inspect
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gradwright.ground.memory import memory_of
from losses_at_work.subject import IN_CACHE, Subject

ENOUGH = 0.005  # seconds that one turn takes at least
MOST = 3  # calls of one turn, where inputs do not stay in the cache
SETTLED = 8  # calls after which it is known whether what arrives at the loss can be foretold
CACHE_BYTES = 2**27  # read before each call: more than a last-level cache holds
WRONG = {torch.float32: 1e-4, torch.bfloat16: 2e-2}  # of the largest slope: no figure for what is not the same loss
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Task:
    """``tensors``: the prediction first; ``extra``: a weight or a mask."""

    subject: Subject
    cell: str
    size: int
    tensors: tuple[Tensor, ...]
    extra: dict[str, Tensor]

    @property
    def is_differentiated(self) -> bool:
        return self.cell != "no grad"

    @property
    def wanted(self) -> tuple[Tensor, ...]:
        return self.tensors[: self.subject.wanted]

    @property
    def elements(self) -> int:
        """What bytes are told of: elements of the predictions; logits, where they are only computed on the way."""
        return sum(tensor.numel() for tensor in self.wanted) if self.subject.passes else self.size


def task_of(subject: Subject, size: int, cell: str, device: torch.device = CPU) -> Task:
    generator = torch.Generator(device).manual_seed(size)
    extra = {}
    with device:  # so that everything is drawn there
        tensors = subject.draw(generator, size)
        if cell == "weighted":
            extra["weight"] = torch.rand(tensors[0].shape, generator=generator)
        if cell == "masked":
            extra["mask"] = torch.rand(tensors[0].shape, generator=generator) < 0.7
    if cell == "bfloat16":
        tensors = [tensor.bfloat16() if tensor.is_floating_point() else tensor for tensor in tensors]
    if cell == "strided":
        tensors = [_spread(tensor) for tensor in tensors]
    for tensor in tensors[: subject.wanted]:
        tensor.requires_grad_(cell != "no grad")
    return Task(subject, cell, size, tuple(tensors), extra)


def _spread(tensor: Tensor) -> Tensor:
    """The same, every second place of a larger one."""
    wide = tensor.new_zeros(*tensor.shape, 2)
    wide[..., 0] = tensor
    return wide[..., 0]


def upstreams(cell: str) -> Iterator[float]:
    """What arrives at the loss, call by call. Ours foretells the last one; "changes" is the case against it."""
    return itertools.cycle({"upstream 0.37": (0.37,), "upstream changes": (0.37, 0.61)}.get(cell, (1.0,)))


def step_of(task: Task, loss: Callable[..., Tensor]) -> Callable[[], list[Tensor]]:
    """A call of the loss and its gradients."""
    arriving = upstreams(task.cell)

    def step() -> list[Tensor]:
        value = loss(*task.tensors)
        if not task.is_differentiated:
            return [value]
        return list(torch.autograd.grad(value, task.wanted, torch.full_like(value, next(arriving))))

    return step


def reduced(values: Tensor, extra: dict[str, Tensor]) -> Tensor:
    """As plain torch code averages a loss."""
    if "weight" in extra:
        return (values * extra["weight"]).mean()
    if "mask" in extra:
        return torch.where(extra["mask"], values, 0).sum() / extra["mask"].sum()
    return values.mean()


def arguments_of(ours: Any, extra: dict[str, Tensor]) -> dict[str, Tensor]:
    """What our module is called with: a weight that it has of its own, as torch's BCE, becomes that."""
    if "weight" in extra and "weight" not in inspect.signature(ours.forward).parameters:
        ours.weight = extra["weight"]
        return {}
    return extra


def losses_of(task: Task, ours: Any) -> dict[str, Callable[..., Tensor]]:
    """Each way to compute the loss, of the task's tensors."""
    subject, extra = task.subject, task.extra
    ways: dict[str, Callable[..., Tensor]] = {
        "ours": lambda *tensors: ours(*tensors, **arguments_of(ours, extra)),
        "naive": lambda *tensors: (
            reduced(subject.naive(*tensors), extra) if subject.is_elementwise else subject.naive(*tensors)
        ),
    }
    for name, maker in subject.peers.items():
        loss = maker()
        if loss is not None:
            ways[name] = _of_peer(loss, subject.is_elementwise, extra)
    return ways


def _of_peer(loss: Callable[..., Tensor], is_elementwise: bool, extra: dict[str, Tensor]) -> Callable[..., Tensor]:
    if extra:
        return lambda *tensors: reduced(loss(*tensors, reduction="none").view_as(tensors[0]), extra)
    return (lambda *tensors: loss(*tensors, reduction="mean")) if is_elementwise else loss


def floor_bytes(task: Task) -> int:
    """What must move: every tensor read, once or twice, every gradient written."""
    read = sum(tensor.numel() * tensor.element_size() for tensor in (*task.tensors, *task.extra.values()))
    if not task.is_differentiated:
        return read
    written = sum(tensor.numel() * tensor.element_size() for tensor in task.wanted)
    return task.subject.passes * read + written


class Empty(torch.autograd.Function):
    """What autograd itself takes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.new_empty(())

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> None:
        return None


def floor_of(task: Task) -> Callable[[], Any]:
    """As many bytes copied, half of them read, between tensors that exist; and an empty Function."""
    count = max(1, floor_bytes(task) // 8)
    device = task.tensors[0].device
    source, target = torch.rand(count, device=device), torch.zeros(count, device=device)
    one = torch.ones((), requires_grad=True)

    def floor() -> Any:
        if task.is_differentiated:
            Empty.apply(one).backward()
        return target.copy_(source)

    return floor


class Moved(TorchDispatchMode):
    """Sums what every operation reads and writes: each distinct element of its tensors once. Views move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: int = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = operator(*args, **(kwargs or {}))
        returns = operator._schema.returns
        is_view = any(each.alias_info is not None and not each.alias_info.is_write for each in returns)
        if not is_view:
            leaves = tree_leaves((args, kwargs, found))
            self.bytes += sum(_distinct(leaf) for leaf in leaves if isinstance(leaf, Tensor))
        return found


def _distinct(tensor: Tensor) -> int:
    """Bytes; an axis that is expanded lies in memory once."""
    count = 1
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= length if stride else min(length, 1)
    return count * tensor.element_size()


class Beside(TorchFunctionMode):
    """Sums what torch's operations read and write that our code calls beside its kernels (counting a mask), which run
    as ever here: a dispatch mode would send them the way of plain torch. Of the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: int = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        read = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        made = [leaf for leaf in tree_leaves(found) if isinstance(leaf, Tensor)]
        places = {leaf.untyped_storage().data_ptr() for leaf in read}
        if read and made and not any(leaf.untyped_storage().data_ptr() in places for leaf in made):
            self.bytes += sum(_distinct(leaf) for leaf in (*read, *made))
        return found


def bytes_moved(step: Callable[[], Any]) -> int:
    with Moved() as moved:
        step()
    return moved.bytes


def bytes_of_ours(task: Task, ours: Any, plan: Any, step: Callable[[], Any]) -> int:
    """What the plan tells of its launches, and what torch does beside them; of plain torch all that it does."""
    if plan.is_fallback:
        return bytes_moved(step)
    with torch.set_grad_enabled(task.is_differentiated), Beside() as beside:
        ours(*task.tensors, **arguments_of(ours, task.extra))
    return int(plan.bytes) + beside.bytes


def truth_of(task: Task) -> list[Tensor]:
    """The naive loss, and its gradients, in float64."""
    exact = [tensor.detach().double() if tensor.is_floating_point() else tensor for tensor in task.tensors]
    for tensor in exact[: task.subject.wanted]:
        tensor.requires_grad_(task.is_differentiated)
    extra = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in task.extra.items()}
    in_double = Task(task.subject, task.cell, task.size, tuple(exact), extra)
    return step_of(in_double, losses_of(in_double, None)["naive"])()


def error_of(found: list[Tensor], truth: list[Tensor]) -> float:
    """The largest, relative to the largest slope."""
    return max(
        float((one.double() - other).abs().max() / other.abs().max()) for one, other in zip(found, truth, strict=True)
    )


def measured(task: Task, ours: Any, rounds: int, *, compiled: bool) -> dict[str, Any]:
    """Seconds of each way and the rounds' ratios to ours, bytes an element, errors, the plan."""
    torch.set_num_threads(1)
    losses = losses_of(task, ours)
    steps = {name: step_of(task, loss) for name, loss in losses.items()}
    figures: dict[str, Any] = {}
    truth = truth_of(task)
    errors = {"ours": error_of(steps["ours"](), truth)}
    for name in [name for name in steps if name != "ours"]:
        try:
            errors[name] = error_of(steps[name](), truth)
        except Exception as error:  # a peer's, of any kind: it does not take such tensors
            figures.setdefault("refused", {})[name] = f"{type(error).__name__}: {error}"
            del steps[name]
    assert errors["ours"] < WRONG[task.tensors[0].dtype], errors
    figures["error"] = errors
    figures["moved"] = {name: bytes_moved(step) / task.elements for name, step in steps.items() if name != "ours"} | {
        "floor": floor_bytes(task) / task.elements
    }
    for _ in range(SETTLED):
        steps["ours"]()
    with torch.set_grad_enabled(task.is_differentiated):
        plan = ours.plan(*task.tensors, **arguments_of(ours, task.extra))
    figures["plan"] = str(plan)
    figures["is fallback"] = plan.is_fallback
    figures["also"] = list(plan.also)
    figures["moved"]["ours"] = bytes_of_ours(task, ours, plan, steps["ours"]) / task.elements
    if compiled:
        try:
            faster = step_of(task, torch.compile(losses["naive"], dynamic=False))
            start = time.perf_counter()
            errors["compile"] = error_of(faster(), truth)
            figures["warm-up"] = time.perf_counter() - start
            steps["compile"] = faster
        except Exception as error:  # Dynamo's or Inductor's, of many kinds: it can't compile this one
            print(f"{task.subject.name}: not compiled: {type(error).__name__}: {error}", file=sys.stderr)
    figures["peak"] = {name: memory_of(step, CPU).peak_bytes / task.elements for name, step in steps.items()}
    if task.subject.passes:
        steps["floor"] = floor_of(task)
    return figures | times_of(steps, rounds, is_cached=task.cell == IN_CACHE)


def times_of(steps: dict[str, Callable[[], Any]], rounds: int, *, is_cached: bool) -> dict[str, Any]:
    """Every way in every round; the first two rounds are not counted."""
    clock = _cached if is_cached else _uncached(torch.ones(CACHE_BYTES // 4))
    kept: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(rounds + 2):
        for name, step in steps.items():
            took = clock(step)
            if turn >= 2:
                kept[name].append(took)
    ratios = {
        name: statistics.median(a / b for a, b in zip(times, kept["ours"], strict=True)) for name, times in kept.items()
    }
    return {"seconds": {name: statistics.median(times) for name, times in kept.items()}, "of ours": ratios}


def _cached(step: Callable[[], Any]) -> float:
    """CPU seconds of a call, one after the other, with what the last one left in the cache."""
    calls, start = 0, time.process_time()
    while (took := time.process_time() - start) < ENOUGH or not calls:
        step()
        calls += 1
    return took / calls


def _uncached(others: Tensor) -> Callable[[Callable[[], Any]], float]:
    """CPU seconds of a call that finds others' memory in the cache, as after the pass through a network."""

    def clock(step: Callable[[], Any]) -> float:
        took, calls = 0.0, 0
        while took < ENOUGH and calls < MOST:
            others.sum()
            start = time.process_time()
            step()
            took += time.process_time() - start
            calls += 1
        return took / calls

    return clock
