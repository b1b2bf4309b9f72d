"""A loop that takes a gradient a round, rewritten and tried while its graph is alive: where the script enters it.

NOTE [on the live graph]: copies of tensors lose the graph, so that such a loop can't be tried when the script is over.
Where it is entered, a child is forked that holds everything as the script does: it reads the loop, proposes, and tries
each proposal against the original. The script waits, at most ``SECONDS``, once a loop; nothing of what the child does
reaches it, and the time is not counted as the script's own.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.derivatives.graph.request import read_request
from gradwright.derivatives.samples.trust import Trust
from gradwright.doctor.probe.attempts import WHY_NOT, Limits, attempt
from gradwright.doctor.probe.collectives import has_peers
from gradwright.doctor.probe.seeing import see
from gradwright.doctor.probe.shrink import describe
from gradwright.doctor.session.model import Candidate, Finding, Fix, Proof
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.entered import LoopUse
from gradwright.doctor.source.liveness import block_of
from gradwright.doctor.source.places import text_of_file
from gradwright.errors import GradwrightError
from gradwright.ground import clock
from gradwright.ground.forked import torch_survives_fork

SECONDS = 15.0
FEWEST_CALLS = 8


@dataclass(frozen=True)
class LiveTrial:
    """One proposal and what became of it: a Proof, or why there is none."""

    proposal: Proposal
    outcome: Proof | str


def try_on_live_graph(
    use: LoopUse, names: Mapping[str, Any], globals_: Mapping[str, Any], skip: Callable[[float], None]
) -> None:
    """Leave in ``use.live`` what was tried, or why nothing was. ``skip`` is told the seconds that it took.

    NOTE [on the live graph]. Random state, hooks and ``.grad`` of this process stay as they are.
    """
    started = time.perf_counter()
    if has_peers():
        use.live = "a live graph is not tried beside other ranks: its collectives would reach them"
        return
    if not torch_survives_fork():
        use.live = f"a live graph can be tried in a forked child only, which is not possible here ({WHY_NOT})"
        return
    done = attempt(lambda: _tried(use, {**globals_, **names}), Limits(SECONDS + 2.0))
    use.live = done.value if done.how == "returned" else f"its trial on the live graph ended early: {done.why}"
    skip(time.perf_counter() - started)


def treated(finding: Finding, loops: Sequence[LoopUse]) -> tuple[list[Candidate], Fix | None, str]:
    """What was tried for a finding about gradients taken one by one: candidates, the fix, or why there is none."""
    at = finding.location
    around = [
        use
        for use in loops
        if use.subject.location.path == at.path
        and use.subject.location.line <= at.line <= use.subject.location.end_line
        and use.live is not None
    ]
    if not around:
        return [], None, ""
    live = around[0].live
    if isinstance(live, str):
        return [], None, live
    candidates = []
    for trial in live:
        told = trial.outcome if isinstance(trial.outcome, str) else None
        candidates.append(Candidate(trial.proposal.rewrite, trial.proposal.diff, told))
        if told is None:
            return candidates, Fix(trial.proposal.diff, trial.outcome, trial.proposal.unsafe), ""
    return candidates, None, ""


# --- in the child ----------------------------------------------------------------------------------------------------


def _tried(use: LoopUse, names: dict[str, Any]) -> tuple[LiveTrial, ...] | str:
    from gradwright.doctor.prove.live_graph import LiveRegion, prove_on_live_graph
    from gradwright.doctor.rewrite.gradient_loop import read_gradient_loop
    from gradwright.doctor.rewrite.source_text import DeclinedError

    until = clock.now() + SECONDS
    _unwatched()
    text = text_of_file(use.path)
    block, _ = block_of(ast.parse(text), use.site.line)
    statement = next(one for one in block if one.lineno == use.site.line)
    calls = _Calls()
    with calls:
        seen = see([statement], use.path, _apart(names, use.site.mutates), {})
    if calls.number < FEWEST_CALLS:
        return f"it takes {calls.number} gradients: too few to be worth a rewrite"
    try:
        loop = read_gradient_loop(use.subject.location.path, text, use.site.line, seen)
        proposals = loop.proposals(_independent(loop.differentiated, names))
    except DeclinedError as error:
        return f"it is not rewritten: {error}"
    trials: list[LiveTrial] = []
    on = _told(loop.differentiated, names)
    for proposal in proposals:
        if clock.now() > until - 1.0:
            trials.append(LiveTrial(proposal, "not tried: the time on the live graph was used up"))
            continue
        region = LiveRegion(use.path, text, proposal.replaced, names, use.site.mutates, calls.number)
        trials.append(LiveTrial(proposal, prove_on_live_graph(proposal, region, on, until)))
        if isinstance(trials[-1].outcome, Proof):
            break
    return tuple(trials)


def _unwatched() -> None:
    """In the child nobody watches gradients: torch's own functions are back where they were."""
    for name in ("grad", "backward"):
        function = getattr(torch.autograd, name)
        setattr(torch.autograd, name, getattr(function, "__wrapped__", function))


def _apart(names: Mapping[str, Any], mutates: Sequence[str]) -> dict[str, Any]:
    """The live names, with what the loop changes in place as copies that stay in the graph."""
    own = {name: names[name] for name in mutates if name in names}
    copies = {
        name: value.clone() if isinstance(value, Tensor) else type(value)(value)
        for name, value in own.items()
        if isinstance(value, (Tensor, list, dict, set))
    }
    return {**names, **copies}


class _Calls:
    """Counts the calls of ``autograd.grad``."""

    def __init__(self) -> None:
        self.number = 0

    def __enter__(self) -> None:
        self._original = torch.autograd.grad

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.number += 1
            return self._original(*args, **kwargs)

        torch.autograd.grad = counted

    def __exit__(self, *_: object) -> None:
        torch.autograd.grad = self._original


def _independent(pairs: Sequence[tuple[str, str]], names: dict[str, Any]) -> bool:
    """Whether the recorded operations alone prove that no sample reaches another, and none of them is of a kind that
    does otherwise when it trains: BatchNorm is independent in evaluation only."""
    for output, target in pairs:
        try:
            request = read_request(eval(output, dict(names)), eval(target, dict(names)), 0, True)
        except (GradwrightError, NameError, IndexError, TypeError, KeyError, AttributeError):
            return False
        steps = [step.name for step in request.way.steps]
        if any("BatchNorm" in name for name in steps):
            return False
        if request.target_axis is None:
            return False
        trust = Trust(request, "auto")
        trust.listen()
        if not trust.proved:
            return False
    return True


def _told(pairs: Sequence[tuple[str, str]], names: dict[str, Any]) -> str:
    output, target = (eval(text, dict(names)) for text in pairs[0])
    return f"the live graph from {describe((target,))} to {describe((output,))}"
