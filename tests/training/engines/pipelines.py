"""Cases of pipelines: two stages (and replicas of them), against the full batch in one process."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tests.training.token_model import IGNORED, Batch, cross_entropy, drawn, flat, joined, kept, model_of, relative
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.nn.parallel import DistributedDataParallel

from gradwright.training.pipelining import PipelineAccumulator

SAMPLES, MICRO_BATCHES = 8, 4
SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


@dataclass(frozen=True)
class Case:
    """``batches``: of a window, each of 8 samples in 4 micro-batches; ``empty``: those that hold no items."""

    schedule: str = "gpipe"
    batches: int = 1
    dtype: str = "float64"
    how: str = "count"
    empty: tuple[int, ...] = ()
    replicas: str = ""
    max_norm: float | None = None
    seed: int = 0


CASES = [
    Case(),
    Case("1f1b", seed=1),
    Case("1f1b", batches=3, seed=2),
    Case("gpipe", batches=2, how="items", seed=3),
    Case("1f1b", batches=2, how="samples", seed=4),
    Case("gpipe", batches=3, empty=(2,), seed=5),
    Case("1f1b", batches=3, empty=(0, 1), seed=6),
    Case("1f1b", dtype="float32", batches=2, seed=7),
    Case("gpipe", max_norm=0.01, batches=2, seed=8),
    Case("interleaved", batches=2, seed=9),
]
REPLICATED = [
    Case("1f1b", batches=2, replicas="ddp", seed=10),
    Case("1f1b", batches=2, how="items", replicas="ddp", empty=(1,), seed=11),
    Case("1f1b", batches=1, replicas="ddp", max_norm=0.01, seed=12),
    Case("1f1b", batches=2, replicas="fsdp", max_norm=0.01, seed=13),
    Case("gpipe", batches=2, replicas="fsdp", empty=(0,), seed=14),
]


def summed(output: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(output, labels, reduction="sum", ignore_index=IGNORED)


def batches_of(case: Case, pipeline: int) -> list[Batch]:
    """Of one pipeline. Some micro-batches have no items."""
    dtype = getattr(torch, case.dtype)
    batches = drawn([SAMPLES] * case.batches, dtype, 100 * case.seed + pipeline, empty=case.empty)
    for _, labels in batches:
        labels[:2] = IGNORED
    return batches


def accumulator(case: Case, *, schedule: dict[str, Any] | None = None, **options: Any) -> PipelineAccumulator:
    """The stages of this rank. Two pipelines of two stages are the rows of a mesh."""
    parts = model_of(getattr(torch, case.dtype))
    interleaved = case.schedule == "interleaved"
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("replica", "stage"))
    rank, device = mesh.get_local_rank("stage"), torch.device("cpu")
    pieces = [parts[:1], parts[1:2], parts[2:], nn.Identity()] if interleaved else [parts[:2], parts[2:]]
    mine = range(rank, len(pieces), 2)
    stages = [
        PipelineStage(_replicated(pieces[at], case, mesh), at, len(pieces), device, group=mesh.get_group("stage"))
        for at in mine
    ]
    made = {"loss_fn": summed, "scale_grads": False} | (schedule or {})
    if interleaved:
        run: Any = ScheduleInterleaved1F1B(stages, MICRO_BATCHES, **made)
    else:
        run = SCHEDULES[case.schedule](stages[0], MICRO_BATCHES, **made)
    hows: dict[str, dict[str, Any]] = {"count": {"count": kept}, "items": {}, "samples": {"normalize": "samples"}}
    how = hows[case.how]
    options = {"accumulation_steps": case.batches, "max_norm": case.max_norm, "time_limit": 20.0} | how | options
    parameters: list[torch.Tensor] = [one for stage in stages for one in stage.submod.parameters()]
    parameters = parameters or [torch.zeros(1, requires_grad=True)]
    optimizer = torch.optim.SGD(parameters, 0.1)
    return PipelineAccumulator(
        run, stages if interleaved else stages[0], optimizer, progress=False, **options
    )  # fmt: skip


def _replicated(module: nn.Module, case: Case, mesh: Any) -> nn.Module:
    if case.replicas == "ddp":
        return DistributedDataParallel(module, process_group=mesh.get_group("replica"))
    if case.replicas == "fsdp":
        fully_shard(module, mesh=mesh["replica"])
    return module


def run_all(acc: PipelineAccumulator, case: Case, batches: list[Batch]) -> Any:
    (update,) = [_update(acc, case, window) for window in acc.windows(batches)]
    return update


def _update(acc: PipelineAccumulator, case: Case, window: Any) -> Any:
    for x, y in window:
        acc.run(x, target=y, items=kept((x, y)) if case.how == "items" else None)
    return acc.step()


def _here(acc: PipelineAccumulator, whole: nn.Module) -> list[Any]:
    """The same parameters of the whole model, in the order of this rank's."""
    by_name = dict(whole.named_parameters())
    mine = [name.removeprefix("module.") for stage in acc._stages for name, _ in stage.submod.named_parameters()]
    return [by_name[name] for name in mine]


def _off(acc: PipelineAccumulator, whole: nn.Module) -> float:
    """Of a rank whose stages hold parameters."""
    here = [one for stage in acc._stages for one in stage.submod.parameters()]
    return relative(flat(here), flat(_here(acc, whole))) if here else 0.0


def errors(cases: list[Case], mutant: str = "") -> list[dict[str, Any]]:
    """On this rank: how far the gradient of its stages is off, the loss, the norm."""
    if mutant:
        globals()[mutant]()
    told = []
    for case in cases:
        pipelines = dist.get_world_size() // 2
        everything = [batch for pipeline in range(pipelines) for batch in batches_of(case, pipeline)]
        whole = model_of(getattr(torch, case.dtype))
        items = len(joined(everything)[1]) if case.how == "samples" else int(kept(joined(everything)))
        loss = cross_entropy(whole, joined(everything), "sum") / items
        loss.backward()
        norm = float(flat(whole.parameters()).norm())
        if case.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(whole.parameters(), case.max_norm)
        acc = accumulator(case, **({} if case.max_norm else {"max_norm": 1e9}))
        update = run_all(acc, case, batches_of(case, dist.get_rank() // 2))
        told.append(
            asdict(case)
            | {
                "gradient": _off(acc, whole),
                "loss": abs(update.loss - float(loss.detach())) / float(loss.detach()),
                "norm": abs(float(update.gradient_norm) - norm) / norm,
            }
        )
    return told


def items_counted_on_every_stage() -> None:
    PipelineAccumulator._counted_once = lambda self, fetched: fetched  # type: ignore[method-assign]


def replicas_forgotten() -> None:
    from gradwright.training.engines.pipelining import Pipeline

    Pipeline.replicas = property(lambda self: 1.0)  # type: ignore[method-assign, assignment]


def norm_of_one_stage() -> None:
    from gradwright.training.engines.engine import Engine
    from gradwright.training.engines.pipelining import Pipeline

    Pipeline.norm = Engine.norm  # type: ignore[method-assign]


def fault(which: str) -> Any:
    """Something that goes wrong in a pipeline of two ranks."""
    case = Case("1f1b", batches=2)
    first = dist.get_rank() == 0
    if which == "scale_grads":
        return accumulator(case, schedule={"scale_grads": True})
    if which == "mean":
        acc = accumulator(
            case, schedule={"loss_fn": lambda output, labels: F.cross_entropy(output, labels)}, time_limit=3
        )
        return run_all(acc, case, drawn([SAMPLES] * 2, torch.float64, 0)).loss
    batches = batches_of(case, 0)
    acc = accumulator(case, time_limit=3.0)
    if which == "short":
        batches[1] = tuple(one[:4] for one in batches[1])  # type: ignore[call-overload,assignment]
    if which == "uneven" and first:
        batches = batches[:1]
    if which == "nan" and not first:
        acc.schedule._loss_fn = lambda output, labels: summed(output, labels) * float("nan")
    for window in acc.windows(batches):
        for step, (x, y) in enumerate(window):
            if step == 1 and first and which == "killed":
                raise SystemExit
            if step == 1 and first and which == "hangs":
                time.sleep(4.0)
            if which == "backward":
                acc.backward(torch.zeros(()), reduction="sum")
            acc.run(x, target=y)
        acc.step()
    return "stepped"
