"""Reports as ranks hand them over, made by hand, and a folder of the test's own to meet in."""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gradwright.doctor.ranks.identity import Rank, this_rank
from gradwright.doctor.session.facts import Fact, FunctionCalls, GradientVerdict, LossValues, ReplicaSums
from gradwright.doctor.session.model import Finding, Report, Script, Specimen, Subject, TensorSpec
from gradwright.doctor.session.place import Location


@pytest.fixture
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def rank_of() -> Any:
    def rank(number: int, size: int = 2, **more: str) -> Rank:
        found = this_rank({"RANK": str(number), "WORLD_SIZE": str(size), "MASTER_PORT": "29500", **more})
        assert found is not None
        return found

    return rank


class Maker:
    """Of one script with a custom Function, a loss, and what a test says beside."""

    square = Subject("function:Square@train.py:5", "function", "Square", Location("train.py", 5))
    scale = Subject("function:Scale@train.py:20", "function", "Scale", Location("train.py", 20))
    loss = Subject("backward@train.py:40", "gradient_call", "loss.backward", Location("train.py", 40))
    script = Script(argv=("train.py",), exit_code=0, seconds=3.0, steps=10, gradients=10, rank=0)

    def report(self, *items: Any, subjects: tuple[Subject, ...] = (square, loss), **script: Any) -> Report:
        return Report(
            script=dataclasses.replace(self.script, **script),
            subjects=subjects,
            facts=tuple(item for item in items if isinstance(item, Fact)),
            findings=tuple(item for item in items if isinstance(item, Finding)),
            specimens=tuple(item for item in items if isinstance(item, Specimen)),
            not_examined=tuple(item for item in items if type(item).__name__ == "NotExamined"),
        )

    def calls(self, number: int, subject: Subject = square) -> FunctionCalls:
        return FunctionCalls(
            id=f"calls {subject.id}", subject=subject.id, forward_calls=number, tracked_calls=number,
            backward_calls=number, forward_seconds=0.1 * number, backward_seconds=0.1, share_of_step=0.5,
        )  # fmt: skip

    def verdict(self, word: Any = "wrong", subject: Subject = square, specimen: str = "") -> GradientVerdict:
        return GradientVerdict(
            id=f"verdict {subject.id}", subject=subject.id, specimen=specimen or f"{subject.id}#0", input_index=0,
            input_name="x", verdict=word,
        )  # fmt: skip

    def values(self, nan_at: int | None = None) -> LossValues:
        return LossValues(
            id="loss", subject=self.loss.id, calls=10, first=1.0, last=0.5, lowest=0.5,
            first_nonfinite_step=nan_at, first_nonfinite="nan" if nan_at is not None else "",
        )  # fmt: skip

    def replicas(self, *sums: tuple[int, float, float], parameters: str = "a") -> ReplicaSums:
        return ReplicaSums(id="replicas SGD", subject="optimizer:SGD0", parameters=parameters, sums=sums)

    def specimen(self, *shape: int, subject: Subject = square, number: int = 0) -> Specimen:
        return Specimen(f"{subject.id}#{number}", subject.id, 0, (TensorSpec("x", shape, "float32"),))

    def finding(
        self,
        code: str = "GW101",
        message: str = "Square.backward returns half the gradient of x",
        *,
        line: int = 9,
        subject: Subject = square,
        severity: Any = "error",
        category: Any = "gradient",
        evidence: tuple[str, ...] = (),
    ) -> Finding:
        at = Location("train.py", line)
        return Finding(code, "a name", category, severity, subject.id, at, message, "why", evidence=evidence)


@pytest.fixture
def make() -> Maker:
    return Maker()
