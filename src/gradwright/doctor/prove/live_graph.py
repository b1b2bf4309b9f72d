"""A region tried on the graph that is alive where it is entered: what copies of its inputs would lose.

It runs the user's statements on the very objects that the script holds: call it in a forked child only.
"""

from __future__ import annotations

import ast
import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.chance import reproducible
from gradwright.doctor.prove import faults
from gradwright.doctor.prove.counting import Counting, TooManyOperationsError
from gradwright.doctor.prove.live_values import apart, leaves_of_graph
from gradwright.doctor.prove.mutants import mutants
from gradwright.doctor.prove.timing import FASTER, needed_ratio
from gradwright.doctor.session.model import Proof
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.liveness import block_of, read_after
from gradwright.doctor.source.names import events
from gradwright.ground import clock
from gradwright.ground.clock import Stopwatch
from gradwright.ground.tensors import differentiable, tensors_in

RETURNED = "__gradwright_returned__"
FEWEST_REJECTED = 20
REPETITIONS = 5
LONG = 0.5  # seconds
# Times the rounding of one operation, relative to the largest entry; and as much again for each call in a sum.
TOLERANCE = 64.0
# A faulty twin that is this close to the candidate is none on this graph (rows that are all alike, rolled).
EQUIVALENT = 8.0


@dataclass
class LiveRegion:
    """Statements of the script's, with the names that they are entered with and those that matter afterwards.

    ``mutates``: names whose objects they change in place. ``calls``: how many gradients they take, at least.
    """

    path: str
    text: str
    lines: tuple[int, int]
    names: Mapping[str, Any]
    mutates: Sequence[str]
    calls: int
    results: tuple[str, ...] = field(init=False)
    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.text)
        bound = {event.name for event in events(self.statements, into_functions=False) if event.kind == "bind"}
        read = read_after(self.tree, *self.lines)
        # A list that is made here and read no more may never have been filled; anything else others may hold as well.
        mutated = {name for name in self.mutates if name in read or not self._made_here(name)}
        self.results = tuple(sorted((bound & read) | mutated))

    @property
    def statements(self) -> list[ast.stmt]:
        return _between(self.tree, *self.lines)

    def _made_here(self, name: str) -> bool:
        """Whether the block has ``name = []`` above the region."""
        block, _ = block_of(self.tree, self.statements[0].lineno)
        return any(
            isinstance(statement, ast.Assign)
            and statement.lineno < self.lines[0]
            and isinstance(statement.value, ast.List)
            and any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)
            for statement in block
        )


@dataclass(frozen=True)
class _Outcome:
    """What a run left under the names that matter, and the gradients of it with respect to the graph's leaves.

    ``seconds``: of the run and of those gradients: a graph that is slow to go back through is a cost of the run's.
    """

    results: Mapping[str, list[Any]]
    gradients: list[Tensor | None] | None
    seconds: float


def prove_on_live_graph(proposal: Proposal, region: LiveRegion, on: str, deadline: float) -> Proof | str:
    """The Proof, or why there is none. ``on``: what it was tried on, in words. ``deadline``: of ``clock.now()``.

    Values, and the gradients of a random functional of them with respect to every leaf, must be the original's; faulty
    twins of the candidate must not. Cost: two runs of the original, about fifty of the candidate.
    """
    attempt = _Attempt(region, proposal)
    if len(proposal.region) != 2 or (not region.results and not attempt.returns):
        return "nothing that it leaves is read afterwards"
    try:
        original = attempt.run(region.statements, "")
        candidate = attempt.run(attempt.candidate, proposal.added)
    except _FailedError as error:
        return str(error)
    told, worst, tolerance = attempt.compared(original, candidate)
    if told:
        return told
    before, after = attempt.seconds(original, candidate)
    counted = attempt.counted(before, after)
    needed = needed_ratio(*(one.work for one in counted)) if counted else FASTER
    if after * needed >= before:
        return f"{on}: it is no faster: {after:.3g} s, before {before:.3g} s"
    tried = rejected = 0
    for what, definition in attempt.mutants():
        if clock.now() > deadline:
            return "no time was left to try it on everything"
        try:
            twin = attempt.run(definition, proposal.added)
        except _FailedError:
            tried, rejected = tried + 1, rejected + 1
            continue
        if attempt.compared(original, twin)[0]:
            tried, rejected = tried + 1, rejected + 1
        elif attempt.compared(candidate, twin, EQUIVALENT)[0]:
            return f"the trials can't tell it from a faulty twin ({what})"
    if rejected < FEWEST_REJECTED:
        return f"the trials reject {rejected} of {tried} faulty twins: too few to rely on them"
    return Proof(
        verdict="verified",
        on=(on,),
        worst_error=worst,
        tolerance=tolerance,
        mutants_rejected=rejected,
        before_seconds=before,
        after_seconds=after,
        mutants_tried=tried,
        before_operations=counted[0].operations if counted else None,
        after_operations=counted[1].operations if counted else None,
        before_moved_bytes=counted[0].moved if counted else None,
        after_moved_bytes=counted[1].moved if counted else None,
    )


class _FailedError(Exception):
    """The statements raised; the message says what."""


class _Attempt:
    def __init__(self, region: LiveRegion, proposal: Proposal) -> None:
        self.region, self.proposal = region, proposal
        self.tree = ast.parse(proposal.new_text)
        self.candidate = _between(self.tree, *proposal.region)
        self.returns = any(isinstance(node, ast.Return) for node in region.statements)
        self.leaves: list[Tensor] | None = None

    def run(self, statements: Sequence[ast.stmt], added: str, counting: Counting | None = None) -> _Outcome:
        names = {**self.region.names, faults.NAME: faults}
        for name in self.region.mutates:
            if name in names:
                names[name] = _own(names[name])
        body = [_without_return(statement) for statement in statements]
        code = compile(ast.fix_missing_locations(ast.Module(body, [])), self.region.path, "exec", dont_inherit=True)
        watched: contextlib.AbstractContextManager[Any] = counting or contextlib.nullcontext()
        with reproducible(0), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(added, names)
                watch = Stopwatch()
                with watched:
                    exec(code, names)  # the user's own statements, or the candidate for them
                results = {name: _leaves_of(names[name]) for name in (*self.region.results, RETURNED) if name in names}
                gradients = self._gradients(results)
                return _Outcome(results, gradients, watch.seconds())
            except Exception as error:  # it is someone else's code
                raise _FailedError(f"it raised {type(error).__name__}: {error}".splitlines()[0][:200]) from error

    def seconds(self, original: _Outcome, candidate: _Outcome) -> tuple[float, float]:
        """The quickest of a few runs of both, in turns, of two where they take long: the first pays for imports."""
        before, after = [original.seconds], [candidate.seconds]
        for number in range(REPETITIONS):
            if number == 0 or min(before) < LONG:
                before.append(self.run(self.region.statements, "").seconds)
            if number == 0 or min(after) < LONG:
                after.append(self.run(self.candidate, self.proposal.added).seconds)
        return min(before), min(after)

    def counted(self, before: float, after: float) -> tuple[Counting, Counting] | None:
        """What the statements dispatch, without the gradients of what they leave. None: too much to count."""
        if max(before, after) >= LONG:
            return None
        both = Counting(), Counting()
        try:
            self.run(self.region.statements, "", both[0])
            self.run(self.candidate, self.proposal.added, both[1])
        except (_FailedError, TooManyOperationsError):
            return None
        return both

    def _gradients(self, results: Mapping[str, list[Any]]) -> list[Tensor | None] | None:
        """Of a random functional of everything that is differentiable. None: nothing is."""
        roots = [value for values in results.values() for value in values if differentiable(value)]
        if not roots:
            return None
        if self.leaves is None:
            self.leaves = list(leaves_of_graph(roots))
        generator = torch.Generator().manual_seed(0)
        weights = [torch.randn(root.shape, generator=generator, dtype=torch.float64).to(root) for root in roots]
        found = torch.autograd.grad(roots, self.leaves, weights, retain_graph=True, allow_unused=True)
        return [None if one is None else one.detach() for one in found]

    def compared(self, original: _Outcome, other: _Outcome, times: float = 0.0) -> tuple[str, float, float]:
        """What differs too much, in words; the largest difference and the tolerance for it.

        ``times``: how many times the rounding of one operation is allowed, if not what sums of many calls may take.
        """
        worst = allowed = 0.0
        times = times or TOLERANCE + self.region.calls
        for name, mine in original.results.items():
            theirs = other.results.get(name, [])
            if len(mine) != len(theirs):
                return f"{name} has {len(theirs)} values, before {len(mine)}", worst, allowed
            for before, after in zip(mine, theirs, strict=True):
                told, error, tolerance = apart(before, after, times)
                if told:
                    return f"{'what is returned' if name == RETURNED else name}: {told}", error, tolerance
                worst, allowed = max((worst, allowed), (error, tolerance))
        mine_twice, theirs_twice = original.gradients, other.gradients
        if (mine_twice is None) != (theirs_twice is None):
            return "only one of the two can be differentiated again", worst, allowed
        for one, another in zip(mine_twice or [], theirs_twice or [], strict=True):
            if one is None and another is None:
                continue
            filled = [torch.zeros_like(one if one is not None else another) if t is None else t for t in (one, another)]  # type: ignore[arg-type]  # one of them is a tensor
            told, error, tolerance = apart(filled[0], filled[1], times)
            if told:
                return f"the gradient of what it leaves: {told}", error, tolerance
            worst, allowed = max((worst, allowed), (error, tolerance))
        return "", worst, allowed

    def mutants(self) -> Iterator[tuple[str, list[ast.stmt]]]:
        module = ast.Module(self.candidate, [])
        plain = [name for name, value in self.region.names.items() if not isinstance(value, Tensor)]
        for mutant in mutants(module, self.proposal.changed, no_tensors=plain):
            # By way of its text: what was put together from pieces has places that don't fit each other.
            with contextlib.suppress(SyntaxError):
                yield mutant.what, ast.parse(ast.unparse(mutant.definition)).body


def _between(tree: ast.Module, first: int, last: int) -> list[ast.stmt]:
    """The neighbours that stand on these lines."""
    line = next(
        node.lineno
        for node in sorted((n for n in ast.walk(tree) if isinstance(n, ast.stmt)), key=lambda n: n.lineno)
        if node.lineno >= first
    )
    block, _ = block_of(tree, line)
    return [statement for statement in block if first <= statement.lineno <= last]


def _without_return(statement: ast.stmt) -> ast.stmt:
    if not isinstance(statement, ast.Return):
        return statement
    value = statement.value or ast.Constant(None)
    return ast.copy_location(ast.Assign([ast.Name(RETURNED, ast.Store())], value), statement)


def _own(value: Any) -> Any:
    """What may be changed in place, without a trace in what the script holds; a tensor stays in its graph."""
    if isinstance(value, Tensor):
        return value.clone()
    return type(value)(value) if type(value) in (list, dict, set) else value


def _leaves_of(value: Any) -> list[Any]:
    if isinstance(value, (Tensor, int, float, bool, str)) or value is None:
        return [value]
    return list(tensors_in(value))
