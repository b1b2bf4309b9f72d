"""Reports made by hand: what the renderers are shown."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from gradwright.doctor.session.facts import FunctionCalls, GradientVerdict, LoopShape
from gradwright.doctor.session.model import (
    Finding,
    Fix,
    NotExamined,
    Proof,
    Report,
    Script,
    Source,
    Subject,
)
from gradwright.doctor.session.place import Location

TRAIN = (
    "import torch\n" * 9
    + """class MySquare(torch.autograd.Function):

    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        grad_x = torch.empty_like(x)

        for row in range(len(x)):
            for col in range(x.shape[1]):
                grad_x[row, col] = grad_output[row, col] * 2 * x[row, col]
        return grad_x

"""
    + "\n" * 16
    + """
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.t(), 0.5 * x.t() @ g
"""
)

LOOP_FIX = """--- a/train.py
+++ b/train.py
@@ -14,7 +14,5 @@
         x, = ctx.saved_tensors
         grad_x = torch.empty_like(x)

-        for row in range(len(x)):
-            for col in range(x.shape[1]):
-                grad_x[row, col] = grad_output[row, col] * 2 * x[row, col]
+        grad_x = grad_output * 2 * x
         return grad_x
"""
SCALE_FIX = """--- a/train.py
+++ b/train.py
@@ -41,2 +41,2 @@
         x, w = ctx.saved_tensors
-        return g @ w.t(), 0.5 * x.t() @ g
+        return g @ w.t(), x.t() @ g
"""


class Maker:
    """Parts of a report, each with the least that makes sense."""

    at = Location("train.py", 18, 13, 18, 22)
    script = Script(argv=("train.py",), exit_code=0, seconds=25.1, steps=40, gradients=40)

    def source(self, text: str = TRAIN, path: str = "train.py") -> Source:
        return Source(path, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), text)

    def subject(self, name: str = "MySquare", kind: str = "function", line: int = 10) -> Subject:
        return Subject(f"subject {name}", kind, name, Location("train.py", line))

    def verdict(
        self, name: str = "MySquare", input: str = "x", specimen: str = "s0", **fields: object
    ) -> GradientVerdict:
        base = GradientVerdict(
            id=f"verdict {name} {input} {specimen}",
            subject=f"subject {name}",
            specimen=specimen,
            input_index=0,
            input_name=input,
            verdict="right",
            checks=2,
        )
        return replace(base, **fields)

    def calls(
        self, name: str = "MySquare", forward: float = 10.6, backward: float = 14.1, **fields: object
    ) -> FunctionCalls:
        base = FunctionCalls(
            id=f"calls {name}",
            subject=f"subject {name}",
            forward_calls=40,
            tracked_calls=40,
            backward_calls=40,
            forward_seconds=forward,
            backward_seconds=backward,
            share_of_step=0.99,
        )
        return replace(base, **fields)

    def loop(self, **fields: object) -> LoopShape:
        base = LoopShape(
            id="loop 1",
            subject="subject MySquare",
            phase="backward",
            location=self.at,
            hot=Location("train.py", 19, 17, 19, 33),
            iterations=1000,
            operations=8000,
            scalar_operations=8000,
            full_operations=2_000_000,
            extrapolated=False,
            seconds=14.1,
            share_of_step=0.99,
            tried_on="x float32[100, 100]",
        )
        return replace(base, **fields)

    def finding(self, **fields: object) -> Finding:
        base = Finding(
            code="GW301",
            name="python-loop-over-elements",
            category="speed",
            severity="warning",
            subject="MySquare",
            location=self.at,
            message="MySquare.backward is a Python loop over elements: 2,000,000 operations, 99 % of the step",
            why="every element goes through Python and the dispatcher on its own",
        )
        return replace(base, **fields)

    def first_sight(self) -> Report:
        """The report of DESIGN.md's first sight."""
        scale = Location("train.py", 42, 27, 42, 42)
        return Report(
            script=self.script,
            sources=(self.source(),),
            subjects=(self.subject(), self.subject("Scale", line=33)),
            facts=(
                self.calls(),
                self.calls("Scale", 120e-6, 0.0014),
                *(self.verdict(specimen=f"s{at}") for at in range(4)),
                self.verdict("Scale", "x"),
                self.verdict("Scale", "w", verdict="wrong", cause="constant factor", factor=0.5, error=0.5),
                self.loop(),
            ),
            findings=(
                self.finding(
                    evidence=("loop 1",),
                    fix=Fix(LOOP_FIX, Proof("verified", ("s0", "s1", "s2", "s3"), 0.0, 1e-6, 7, 14.1, 0.009)),
                ),
                self.finding(
                    code="GW101",
                    severity="error",
                    subject="Scale",
                    location=scale,
                    message="Scale.backward returns half the gradient of w",
                    why="autograd of the forward and finite differences agree with each other, and not with it",
                    hints=("return x.t() @ g",),
                    fix=Fix(SCALE_FIX, Proof("verified", ("s0", "s1", "s2", "s3"), 0.0, 1e-6, 7)),
                ),
            ),
            not_examined=(NotExamined("second order of Scale", ""),),
        )


@pytest.fixture
def make() -> Maker:
    return Maker()
