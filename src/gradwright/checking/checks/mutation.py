"""Check 4. Does a call change what it was only lent: its inputs, the cotangent, the tensors it saved?

The engine hands the same cotangent to every branch of a graph, and the caller goes on using its inputs: what is written
there is wrong elsewhere, and gradcheck, which looks at this node alone, passes it (pt#31258, Liger-Kernel#254).
Compared by value, because writes through ``.data`` or NumPy move no version counter.

Silent: what ``mark_dirty`` declares; a callable that works in place on its argument where autograd sees it; a state
which the outputs don't depend on (running statistics); a backward's own scratchpad, as long as it returns the same when
it runs again.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.lent import Change
from gradwright.checking.mutation import find_changes, second_backward_differs
from gradwright.checking.problem import Problem


def run(problem: Problem) -> Iterator[Answer]:
    seed, used = problem.seed, problem.outputs
    changes = find_changes(problem.subject, problem.args, problem.wanted, seed=seed, names=problem.names, used=used)
    told = [change for change in changes if not change.mutation.declared]
    if not problem.is_function:
        told = [change for change in told if not (change.mutation.phase == "forward" and change.openly)]
    if any(change.kept for change in told) and not second_backward_differs(
        problem.subject, problem.args, problem.wanted, seed=seed, used=used
    ):
        told = [change for change in told if not change.kept]
    for change in told:
        mutation = change.mutation
        yield CHECK.finding(
            problem,
            "GW202",
            cause="mutation",
            message=f"{_culprit(problem, change)} changes {_object(change)}, which it was only lent",
            why=_why(change),
            do=_mending(change),
            index=mutation.index if mutation.what == "input" else None,
            phase=mutation.phase,
            what=mutation.what,
            changed=mutation.name,
            at=change.at,
            before=change.before,
            after=change.after,
        )


def _culprit(problem: Problem, change: Change) -> str:
    return f"the {change.mutation.phase} of {change.function or problem.label}"


def _object(change: Change) -> str:
    what, name = change.mutation.what, change.mutation.name
    return {"input": f"its input {name}", "cotangent": f"the {name}"}.get(what, name)


def _why(change: Change) -> str:
    at = list(change.at) if change.at else ""
    if change.before != change.before and change.after != change.after:
        seen = f"{change.mutation.name} is of another shape afterwards"
    else:
        seen = f"{change.mutation.name}{at} was {change.before:.6g}, is {change.after:.6g}"
    follows = {
        "input": "whoever holds it goes on with other values, and a gradient through them is wrong",
        "cotangent": "the engine may have handed the same tensor to another branch of the graph",
        "saved tensor": "a second backward (retain_graph=True) returns another gradient",
    }
    if not change.kept and change.mutation.what == "saved tensor":
        follows["saved tensor"] = "it is the caller's result"
    return f"{seen}; {follows[change.mutation.what]}"


def _mending(change: Change) -> str:
    name = change.mutation.name
    if change.mutation.phase == "forward":
        return f"work on {name}.clone(), or declare it: ctx.mark_dirty({name}), and return it"
    if change.mutation.what == "cotangent":
        return "work on a copy: grad_output.clone(), or an operation without the trailing underscore"
    return f"work on a copy: {name}.clone()"


CHECK = Check(4, "mutation", "quick", {"GW202": "input-or-cotangent-mutated"}, run)
