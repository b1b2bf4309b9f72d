"""A loop is looked at in a run, written anew, and proved: by itself, or in the Function that it is part of."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gradwright.doctor.session.facts import LoopShape
from gradwright.doctor.session.model import Report, Source
from gradwright.doctor.source.entered import LoopUse
from gradwright.doctor.source.files import parse
from gradwright.doctor.source.loops import LoopSite, find_loops
from gradwright.doctor.source.places import name_in_code
from gradwright.doctor.source.seen import Seen
from gradwright.doctor.treatment.alongside import beside, with_those_beside
from gradwright.doctor.treatment.one_pass import in_one_pass
from gradwright.doctor.treatment.patients import Patients
from gradwright.doctor.treatment.trials import Trial, Trials, Tried, declined

if TYPE_CHECKING:
    from gradwright.doctor.observed import FunctionUse
    from gradwright.doctor.prove import Proved
    from gradwright.doctor.session.proposal import Proposal

SECONDS_OF_A_LOOK = 10.0
MOST_PROPOSALS = 4
LONGEST_AXIS = 20  # of the inputs that a Function is looked at with


class LoopTreatment:
    """Fixes for loops; each file is read once."""

    def __init__(self, patients: Patients, trials: Trials) -> None:
        self.patients, self.trials = patients, trials
        self.sites: dict[str, tuple[LoopSite, ...]] = {}

    def of_subject(self, subject: str, source: Source) -> Tried:
        from gradwright.doctor.probe.loops import trains

        use = next((use for use in self.patients.loops if use.subject.id == subject and use.live_ins), None)
        if use is None or not use.site.replayable or trains(use):
            return Tried()
        return self.alone(use, source)

    def of_shape(self, shape: LoopShape, report: Report) -> Tried:
        """The loop as array code or as a kernel, proved in the Function that it is part of, or by itself."""
        path = shape.location.path
        source = report.source(path)
        assert source is not None
        site = self.site_at(source, shape)
        if site is None:
            return declined(_why_no_site(source, shape))
        use = self.patients.loop_at(site, path)
        if use is not None and use.site.replayable:
            return self.alone(use, source)
        function = self.patients.functions.get(shape.subject)
        if function is not None and site.in_function_class and function.subject.origin != "library":
            return self.in_function(site, function, source, shape, report)
        return declined(site.not_replayable_because or "nothing was kept of what it was entered with")

    def site_at(self, source: Source, shape: LoopShape) -> LoopSite | None:
        if source.path not in self.sites:
            file = parse(source.text.encode(), name_in_code(source.path))
            self.sites[source.path] = find_loops(file)
        line = shape.hot.line if shape.hot.path == source.path else shape.location.line
        return next((site for site in self.sites[source.path] if site.line <= line <= site.end_line), None)

    def alone(self, use: LoopUse, source: Source) -> Tried:
        from gradwright.doctor.probe.seeing import see
        from gradwright.doctor.prove import prove_region

        def look(site: LoopSite) -> Seen:
            return see(_statements(source.text, site), use.path, use.live_ins[0], use.globals)

        def proof(one: Proposal, deadline: float) -> Proved | str:
            return prove_region(one, use, source.text, deadline=deadline)

        tried = self.rewritten(use.site, look, source, proof)
        return in_one_pass(tried, use, source, self.trials, proof)

    def in_function(self, site: LoopSite, use: FunctionUse, source: Source, shape: LoopShape, report: Report) -> Tried:
        from gradwright.doctor.probe.seeing import call_function, see_in_call
        from gradwright.doctor.probe.shrink import shrink
        from gradwright.doctor.prove import prove

        specimens = [(args, wanted) for args, wanted in self.patients.specimens(use.subject.id) if any(wanted)]
        if not specimens:
            return Tried()
        namespace = getattr(use.function.forward, "__globals__", {})

        def look(site: LoopSite) -> Seen:
            path = name_in_code(source.path)
            statements, tree = _statements(source.text, site), ast.parse(source.text)
            args, wanted = specimens[0]
            # At full size the loop before this one may take minutes.
            for mine in (shrink(args, LONGEST_AXIS), args):
                call = functools.partial(call_function, use.function, mine, wanted)
                seen = see_in_call(statements, tree, path, namespace, call)
                if seen.values:
                    break
            return seen

        def proof(one: Proposal, deadline: float) -> Proved | str:
            seconds = shape.seconds if one.function else None  # of one phase alone
            return prove(one, use.function, namespace, specimens, expect="same", deadline=deadline, seconds=seconds)

        return self.rewritten(site, look, source, proof, self.sites_beside(site, shape, source, report))

    def sites_beside(self, site: LoopSite, shape: LoopShape, source: Source, report: Report) -> list[LoopSite]:
        """Where the cheap loops of the same class stand that are mended along with this one."""
        others = (self.site_at(source, one) for one in beside(shape, report) if one.location.path == source.path)
        owner = site.function.rpartition(".")[0]
        return [
            one for one in dict.fromkeys(others) if one and one != site and one.function.rpartition(".")[0] == owner
        ]

    def rewritten(
        self,
        site: LoopSite,
        look: Callable[[LoopSite], Seen],
        source: Source,
        proof: Trial,
        others: Sequence[LoopSite] = (),
    ) -> Tried:
        """Look at the loop's values, write it anew, prove it: with ``others`` if that holds."""
        from gradwright.doctor.probe.attempts import Limits, attempt
        from gradwright.doctor.rewrite import propose_loop

        def propose() -> tuple[tuple[Proposal, ...], str]:
            found, why = propose_loop(source.path, source.text, site, look(site))
            return with_those_beside(found[:MOST_PROPOSALS], others, source, look), why

        left = self.trials.seconds_left
        if left < 1.0:
            return declined("the time for fixes was used up")
        found = attempt(propose, Limits(min(left, SECONDS_OF_A_LOOK * (1 + len(others)))))
        if found.how != "returned" or found.value is None:
            return declined(f"the look at its values failed: {found.why}")
        proposals, why = found.value
        if not proposals:
            return declined(why)
        return self.trials.best_that_holds(proposals, proof)


def _why_no_site(source: Source, shape: LoopShape) -> str:
    tree = ast.parse(source.text.removeprefix("\ufeff"))
    loops = (node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While)))
    if any(loop.lineno == shape.location.line for loop in loops):
        return "no tensor is indexed by what its rounds count, so none has an axis for them"
    return "it stands in a lambda, or inside another expression: no statement can take its place"


def _class_of(site: LoopSite) -> str:
    return site.function.rpartition(".")[0]


def _statements(text: str, site: LoopSite) -> list[ast.stmt]:
    from gradwright.doctor.rewrite.loops.region import region_of

    region = region_of(text, site)
    return [region.node, *region.tail]
