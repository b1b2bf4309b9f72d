"""Sessions for the page: one with a bit of everything, the same with hostile texts, one of hundreds of findings."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from typing import Any

from gradwright.doctor.session.facts import (
    Counterexample,
    DeadUnits,
    FunctionFormula,
    GradientFlow,
    GraphsKept,
    LineCost,
    LossValues,
    MachineLimits,
    NonfiniteBegins,
    OpsPerLine,
    RankRun,
    RanksDiffer,
    Timeline,
)
from gradwright.doctor.session.model import (
    Candidate,
    Environment,
    NotExamined,
    Report,
    ScriptDeath,
    Specimen,
    TensorSpec,
)
from gradwright.doctor.session.place import Location

PROGRAM = """import torch

x, w = torch.ones(2, 3), torch.ones(3, 2)
print(x @ w)
"""


def line_cost(line: int, seconds: float, operations: int = 1_000, scalar: int = 0) -> LineCost:
    at = Location("train.py", line, 13, line, 20)
    return LineCost(location=at, operations=operations, scalar_operations=scalar, bytes=8 * operations, seconds=seconds)


def everything(make: Any) -> Report:
    """DESIGN.md's first sight, and every fact that the page has a place for."""
    first = make.first_sight()
    scale, square = "subject Scale", "subject MySquare"
    kept = [fact for fact in first.facts if getattr(fact, "input_name", "") != "w"]
    cotangents = (("ones", 0.5), ("normal", 0.4999), ("one entry", 0.5), ("zeros", 0.0))
    right = (("ones", 1e-8), ("normal", 3e-8), ("one entry", 0.0), ("zeros", 0.0))
    untried = (("second order", "the backward is once_differentiable"), ("complex inputs", "all inputs are real"))
    wrong = replace(
        make.verdict("Scale", "w", verdict="wrong", cause="constant factor", factor=0.5, error=0.5),
        id="verdict wrong",
        tolerance=1e-5,
        cotangents=cotangents,
        untried=untried,
        oracles=("autograd of the forward", "finite differences"),
        tried_on="float32[32, 6], float32[6, 3]",
        at=(3, 2),
        returned=-24.2,
        expected=-48.4,
    )
    held = replace(
        make.verdict("Scale", "x", specimen="s1", error=3e-8, tolerance=1e-5),
        cotangents=right,
        tried_on="float32[32, 6], float32[6, 3]",
    )
    loss, steps = "subject backward", tuple(range(1, 9))
    layers = tuple(f"{2 * layer}.weight" for layer in reversed(range(6)))
    facts = (
        *kept,
        wrong,
        held,
        FunctionFormula(
            id="formula",
            subject=scale,
            forward="y = x @ w\nout = 2 * y",
            gradients=(("x", "2 * grad_output @ w.t()"), ("w", "2 * x.t() @ grad_output")),
            tried_on="float32[32, 6], float32[6, 3]",
        ),
        Counterexample(id="counter", subject=scale, verdict="verdict wrong", text=PROGRAM, tried_on="float32[2, 3]"),
        MachineLimits(
            id="limits", subject="script", bytes_per_second=1.4e10, flops_per_second=6.1e10,
            operation_seconds=2.1e-6, threads=2,
        ),
        OpsPerLine(
            id="ops backward", subject=square, phase="backward", operations=2_000_000, bytes=16_000_000,
            minimum_bytes=480_000, seconds=0.36, tried_on="float32[100, 100]", flops=0,
            lines=(line_cost(19, 0.31, 1_600_000, 1_600_000), line_cost(15, 0.002, 1), line_cost(18, 0.04, 300_000)),
        ),
        OpsPerLine(
            id="ops forward", subject=scale, phase="forward", operations=2, bytes=2_000, minimum_bytes=1_300,
            seconds=4e-5, tried_on="float32[32, 6]", flops=1_152, shrunk=True, lines=(line_cost(42, 0.0, 2),),
        ),
        NonfiniteBegins(
            id="nan", subject=loss, location=Location("train.py", 19, 13, 19, 29), operation="sqrt (SqrtBackward0)",
            phase="backward", cause="infinite slope", value="-inf", why="the slope of sqrt is infinite at 0",
            function="MySquare.backward", entry=(7,), shape=(32,), operands=(("square", 0.0), ("result", 0.0)),
            upstream=-0.03125, hints=("add a small number inside the root",),
            then=("the backward of pow made NaN of it", "it is in the gradient of embed.bias"), step=3, loss_step=4,
        ),
        LossValues(
            id="loss", subject=loss, calls=900, first=2.3, last=math.nan, lowest=0.4, first_nonfinite_step=840,
            first_nonfinite="nan", history=tuple(2.3 / (1 + 0.05 * at) for at in range(64)),
            window=tuple(0.4 + 0.01 * (at % 3) for at in range(16)),
        ),
        GradientFlow(
            id="flow", subject="subject optimizer", looked_at=(1, 2, 4, 8), layers=layers,
            ratios=tuple(tuple(10.0 ** -(layer + step / 2) for layer in range(6)) for step in (1, 2, 3, 4)),
            biases=((0.0,) * 6,) * 4, location=Location("train.py", 10),
        ),
        DeadUnits(
            id="dead", subject="subject optimizer", layer="4", units=128, dead=96, looked_at=40, last_step=200,
            died=12, alive_at=80, samples=64, location=Location("train.py", 12),
        ),
        GraphsKept(
            id="graphs", subject="subject optimizer", steps=8, kept=7, variable="total_loss", how="tensor",
            history=tuple((at, at - 1) for at in steps), location=Location("train.py", 18, 1, 18, 10),
        ),
        Timeline(
            id="timeline", subject="script", whom=(square, scale) * 8, spans=("forward", "backward") * 8,
            starts=tuple(0.1 * at for at in range(16)), seconds=tuple(0.05 + 0.01 * at for at in range(16)),
            threads=(0,) * 16, steps=tuple(at // 2 for at in range(16)), dropped=3,
        ),
        RankRun(id="rank 0", subject="script", rank=0, world_size=2, session="last-0.json", exit_code=0, seconds=9.0,
                steps=40, gradients=40),
        RankRun(id="rank 1", subject="script", rank=1, world_size=2, session="last-1.json", exit_code=1, seconds=4.0,
                steps=12, gradients=12, missing="it died before it wrote one"),
        RanksDiffer(id="ranks", subject="script", what="steps watched", values=((0, "40"), (1, "12"))),
    )  # fmt: skip
    loop, error = first.findings
    proof = replace(loop.fix.proof, before_operations=2_000_000, after_operations=2, before_moved_bytes=16_000_000,
                    after_moved_bytes=480_000, before_bytes=480_000, after_bytes=160_000, mutants_tried=8,
                    certificate="each element stands alone", verdict="proved", exact=("[3]", "[2, 2]"))  # fmt: skip
    tried = make.finding(
        code="GW303", severity="info", message="MySquare is not needed", location=Location("train.py", 10),
        candidates=(Candidate("plain autograd", "-\n", "differs at float32[2]"), Candidate("inline", "", "too odd")),
    )  # fmt: skip
    suggested = make.finding(
        code="GW404", message="the graph of every step is kept", location=Location("train.py", 12),
        candidates=(Candidate("detach", loop.fix.diff, None),),
    )  # fmt: skip
    tensors = (
        TensorSpec("x", (32, 6), "float32", (6, 1), requires_grad=True),
        TensorSpec("w", (6, 3), "float32", (3, 1)),
    )
    return replace(
        first,
        environment=Environment("0.1.0", "3.11.7", "2.13.0", "x86_64", "linux", 2, "/home/me/project"),
        script=replace(
            first.script,
            exception=ScriptDeath("ValueError", "it ends here", "Traceback ...\nValueError: it ends here\n", make.at),
            argv=("train.py", "--size", "2 00"),
        ),
        facts=facts,
        specimens=(Specimen("s1", scale, 3, tensors, 840),),
        findings=(error, replace(loop, fix=replace(loop.fix, proof=proof, unsafe="at 0")), suggested, tried),
        suppressed=(make.finding(message="quiet please"),),
        not_examined=(
            *first.not_examined,
            *(NotExamined(f"loop {at} of data.py", "generated code") for at in range(30)),
        ),
    )


def hostile(value: Any, text: str) -> Any:
    """The same data with ``text`` in every string, so far as its type lets it: choices stay what they are."""
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(hostile(item, text) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        chosen = {
            field.name: hostile(getattr(value, field.name), text)
            for field in dataclasses.fields(value)
            if "Literal" not in str(field.type) and str(field.type) not in ALIASES and field.name not in LINKS
        }
        return replace(value, **chosen)
    return value


ALIASES = ("Severity", "Category", "SubjectKind", "Phase", "Verdict", "tuple[Span, ...]")
LINKS = ("id", "subject", "path", "evidence", "whom", "diff")  # what ties parts together; they have a test of their own


def odd(value: Any, whole: int, real: float) -> Any:
    """The same data with ``whole`` for every integer and ``real`` for every other number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return whole if isinstance(value, int) else real
    if isinstance(value, tuple):
        return tuple(odd(item, whole, real) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return replace(value, **{field.name: odd(getattr(value, field.name), whole, real) for field in fields})
    return value


def linked(report: Report, text: str) -> Report:
    """Hostile ids, paths and subjects that still fit together."""
    names = {"train.py": f"{text}/train.py"}

    def renamed(value: Any, name: str = "") -> Any:
        if isinstance(value, str) and name in ("id", "subject", "evidence", "whom"):
            return f"{text}{value}" if value else ""
        if isinstance(value, str) and name == "path":
            return names.get(value, value)
        if isinstance(value, tuple):
            return tuple(renamed(item, name) for item in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.fields(value)
            return replace(value, **{field.name: renamed(getattr(value, field.name), field.name) for field in fields})
        return value

    return renamed(report)


def many(make: Any, count: int = 500) -> Report:
    """Findings with sources, facts and fixes, spread over twenty files of six hundred lines."""
    first = everything(make)
    body = make.source().text
    texts = {f"part{at}.py": body + f"# {at}\n" + "value = value + 1  # as ever\n" * 540 for at in range(20)}
    findings = []
    for at in range(count):
        one = first.findings[at % 3]
        path = f"part{at % 20}.py"
        place = Location(path, 18 + at % 2, 13, 18 + at % 2, 22)
        second = first.findings[1].fix
        assert second is not None
        diff = one.fix.diff if one.fix else second.diff
        fix = replace(second, diff=diff.replace("train.py", path))
        findings.append(replace(one, location=place, fix=fix, message=f"{one.message}, number {at}"))
    sources = tuple(make.source(text, path) for path, text in texts.items())
    return replace(first, findings=tuple(findings), sources=(*first.sources, *sources))
