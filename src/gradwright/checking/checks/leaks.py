"""Check 14. Is everything that a call made gone when its outputs are?

An output that is kept as an attribute of ``ctx`` holds the node that holds ``ctx``: a cycle through C++. At best
Python's garbage collector finds it, some time, and knows nothing of the GPU memory that waits for it; where the node is
held twice it never does, and each call keeps its whole graph for ever (pt#5569, #25340). So does a list on the class
that each call adds to. Looked at over several calls, with and without the backward: a cache that the first call fills
and the memory of the last call are no leaks, nor is a cycle in Python that the garbage collector frees.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding, NotChecked
from gradwright.checking.retained import Retained, retained


def run(problem: Problem) -> Iterator[Answer]:
    for backward in (True, False):
        try:
            left = retained(
                problem.subject,
                problem.args,
                problem.wanted,
                backward=backward,
                seed=problem.seed,
                used=problem.outputs,
            )
        except Exception as error:  # the subject is someone else's code; its exceptions are told elsewhere
            first = next(iter(str(error).splitlines()), "")
            yield NotChecked(CHECK.title, f"{type(error).__name__}: {first}")
            return
        if left is not None and (not left.collectable or (left.parked and backward)):
            yield _told(problem, left, backward)
            return


def _told(problem: Problem, left: Retained, backward: bool) -> Finding:
    when = "after its backward" if backward else "when no backward follows"
    size = f"{left.bytes} bytes of tensors" if left.bytes else "its node of the graph"
    until = "until garbage collection" if left.collectable else "after garbage collection"
    if left.parked:
        attributes = ", ".join(f"ctx.{name}" for name in left.parked)
        message = f"every call of {problem.label} leaks its graph: {attributes} holds an output of {left.function}"
        why = (
            f"with all outputs deleted {when}, {size} are still alive {until}: "
            "the output holds the node, the node holds ctx, ctx holds the output"
        )
        do = f"keep tensors by ctx.save_for_backward(...) instead of {attributes}"
    else:
        message = f"every call of {problem.label} leaves tensors behind"
        why = f"with all outputs deleted {when}, {size} of each call are still alive {until}"
        do = "drop what is kept outside ctx (a list on the class, a global cache), or keep it detached and bounded"
    return CHECK.finding(
        problem,
        "GW213",
        cause="leak",
        message=message,
        why=why,
        do=do,
        severity="error" if left.parked and not left.collectable else "warning",
        parked=left.parked,
        bytes=left.bytes,
        collectable=left.collectable,
        after_backward=backward,
    )


CHECK = Check(14, "leaks", "standard", {"GW213": "graph-leaked"}, run)
