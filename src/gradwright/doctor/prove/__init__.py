"""Candidate against original: a Proof comes out, or the smallest counterexample in words.

The candidate's class alone is made, in a copy of the module's namespace; the rest of the script never runs again. What
is claimed is **verified**: it held on the real inputs (cut to a size at which the original can be tried again and
again) and on their neighbours, and no faulty twin of the candidate slipped through the same trials.
"""

from __future__ import annotations

import ast
import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from gradwright.checking import judge_values
from gradwright.doctor.prove.compiled import NotCompilableError, class_node, make_class
from gradwright.doctor.prove.harness import Harness, OutOfTimeError, Specimen
from gradwright.doctor.prove.mutants import mutants
from gradwright.doctor.prove.specimens import (
    VALUES,
    cut,
    describe,
    is_real_tensor,
    lengths,
    longest_axis,
    same_length,
    tensors,
    with_values,
)
from gradwright.doctor.prove.timing import compare_speed
from gradwright.doctor.prove.trial import Trial, bits, run
from gradwright.doctor.session.model import Proof
from gradwright.doctor.session.proposal import Proposal

__all__ = ["prove"]

FEWEST_MUTANTS = 10
FEWEST_REJECTED = 5
MUTANTS_OF_A_RESCALING = 14
MOST_SPECIMENS = 8


def prove(
    proposal: Proposal,
    original: type[torch.autograd.Function],
    namespace: Mapping[str, object],
    specimens: Sequence[Specimen],
    *,
    expect: Literal["same", "right"],
    deadline: float,
    seconds: float | None = None,
) -> Proof | str:
    """Try a proposal. Returns the Proof, or why there is none: the smallest counterexample, or what could not be done.

    ``namespace``: the globals of the original's module (not changed); ``specimens``: the arguments of real calls with
    one bool each, whether its gradient was wanted; ``expect``: "same": outputs and gradients as the original's;
    "right": outputs as the original's, gradients right by ``gradwright.checking``; ``deadline``: of
    ``time.monotonic()``, after which there is no proof; ``seconds``: how long the changed phase of the original took
    on the largest of the specimens, if that is known.

    Cost: about 60 calls of the original per specimen, on inputs of a few hundred elements, and as many of the candidate
    and of each mutant that is hard to kill. Runs the user's code: call it where that does no harm (a forked child).
    """
    try:
        return _Attempt(proposal, original, namespace, specimens, expect, deadline).proof(seconds)
    except OutOfTimeError:
        return "no time was left to try it on everything"
    except NotCompilableError as error:
        return str(error)


class _Attempt:
    def __init__(
        self,
        proposal: Proposal,
        original: type[torch.autograd.Function],
        namespace: Mapping[str, object],
        specimens: Sequence[Specimen],
        expect: Literal["same", "right"],
        deadline: float,
    ) -> None:
        self._proposal = proposal
        self._original = original
        self._namespace = namespace
        self._specimens = list(specimens[:MOST_SPECIMENS])
        self._expect = expect
        self._deadline = deadline
        self._excused: frozenset[int] = frozenset()
        self._tree = ast.parse(proposal.new_text.removeprefix("\ufeff"))
        self._definition = class_node(self._tree, proposal.class_name, proposal.lines)

    def proof(self, seconds: float | None) -> Proof | str:
        # Of a rescaling only outputs are compared: the original's gradients are what is wrong.
        harness = Harness(self._original, self._deadline, outputs_only=self._expect == "right")
        if reason := harness.learn(self._specimens):
            return reason
        candidate = self._make(self._definition)
        difference, trial = harness.first_difference(candidate)
        if trial is not None:
            return f"{trial}: {difference.told}"
        judged = [*self._specimens, *((with_values(args, VALUES[0][1]), wanted) for args, wanted in self._small)]
        if self._expect == "right":
            self._excused = self._untouched(candidate)
            if wrong := self._judge(candidate, judged):
                return wrong
            if not self._wrong_before(judged) - self._excused:
                return "it mends nothing: every gradient that was wrong is as it was"
        rejected = self._reject_mutants(harness, candidate)
        if isinstance(rejected, str):
            return rejected
        args, wanted = max(self._specimens, key=lambda one: sum(tensor.numel() for tensor in tensors(one[0])))
        timing = compare_speed(
            self._original,
            candidate,
            args,
            wanted,
            phase=self._proposal.function if self._expect == "same" else "",
            seconds=seconds,
            deadline=self._deadline,
        )
        if timing and self._expect == "same" and timing.after >= timing.before:
            return f"{timing.on}: it is no faster: {timing.after:.3g} s, before {timing.before:.3g} s"
        return Proof(
            verdict="verified",
            on=harness.tried(),
            worst_error=difference.error,
            tolerance=difference.tolerance,
            mutants_rejected=rejected,
            before_seconds=timing.before if timing else None,
            after_seconds=timing.after if timing else None,
        )

    def _make(self, definition: ast.ClassDef) -> Any:
        return make_class(self._tree, definition, self._proposal.path, self._original, self._namespace)

    def _untouched(self, candidate: Any) -> frozenset[int]:
        """Inputs whose gradient the candidate leaves as the original has it: another finding's matter, if wrong."""
        same: set[int] = set()
        changed: set[int] = set()
        for args, wanted in self._small:
            trial = Trial(with_values(args, VALUES[0][1]), wanted)
            before, after = run(self._original, trial), run(candidate, trial)
            inputs = [index for index, want in enumerate(wanted) if want and isinstance(args[index], torch.Tensor)]
            for index, old, new in zip(inputs, before.gradients, after.gradients, strict=False):
                equal = (old is None) == (new is None) and (old is None or bits(old) == bits(new))
                (same if equal else changed).add(index)
        return frozenset(same - changed)

    def _wrong_before(self, specimens: Sequence[Specimen]) -> frozenset[int]:
        """Inputs whose gradient the original has wrong."""
        return frozenset(
            verdict.index
            for args, wanted in specimens
            for verdict in judge_values(self._original, args, wanted, deadline=self._deadline)
            if verdict.verdict == "wrong"
        )

    def _judge(self, candidate: Any, specimens: Sequence[Specimen]) -> str:
        """The first wanted gradient that is not right, in words; "" if there is none."""
        for args, wanted in specimens:
            for verdict in judge_values(candidate, args, wanted, deadline=self._deadline):
                if verdict.verdict == "right":
                    continue
                if verdict.index not in self._excused or verdict.index not in self._untouched(candidate):
                    if time.monotonic() > self._deadline:
                        raise OutOfTimeError
                    values = f"returned {verdict.returned}, expected {verdict.expected} at {list(verdict.at)}"
                    told = verdict.reason if verdict.verdict == "unknown" else values
                    return f"{describe(args)}: the gradient of input {verdict.index} is {verdict.verdict}: {told}"
        return ""

    def _reject_mutants(self, harness: Harness, candidate: Any) -> int | str:
        """How many mutants the trials reject. A string: why that is not enough."""
        limit = MUTANTS_OF_A_RESCALING if self._expect == "right" else 40
        generated = rejected = 0
        for mutant in mutants(self._definition, self._proposal.changed, limit):
            try:
                twin = self._make(mutant.definition)
            except NotCompilableError:
                continue
            generated += 1
            if self._rejects(harness, twin):
                rejected += 1
            elif not harness.equivalent(candidate, twin):
                return f"the trials can't tell it from a faulty twin ({mutant.what})"
        if generated < FEWEST_MUTANTS or rejected < FEWEST_REJECTED:
            return f"the trials reject {rejected} of {generated} faulty twins: too few to rely on them"
        return rejected

    def _rejects(self, harness: Harness, twin: Any) -> bool:
        if harness.first_difference(twin)[1] is not None:
            return True
        return self._expect == "right" and bool(self._judge(twin, self._small))

    @functools.cached_property
    def _small(self) -> list[Specimen]:
        """The specimens cut, every real input wanted if the original bears that: no gradient is left unseen."""
        result = []
        for args, wanted in self._specimens:
            small = cut(args, same_length, lengths(args, same_length, longest_axis(args)))
            every = tuple(is_real_tensor(value) for value in args)
            bears = not run(self._original, Trial(small, every)).raised
            result.append((small, every if bears else wanted))
        return result
