"""One filter between what an examination finds and what its report says, for every stage that finds something."""

from __future__ import annotations

from collections.abc import Iterable

from gradwright.doctor import rules
from gradwright.doctor.options import Options
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.journal import Journal
from gradwright.doctor.session.model import Finding, Source
from gradwright.doctor.source.suppressions import Suppressions


class Selection:
    """``found`` is everything, as if nothing had been selected, ignored or suppressed: what looks for more asks it.

    So a finding that makes way for another one makes way for it, too, where that one is not shown.
    """

    def __init__(self, options: Options, sources: Iterable[Source]) -> None:
        self._options = options
        self._remarks = {source.path: Suppressions.of(source.text) for source in sources}
        self.found: list[Finding] = []

    def tell(self, journal: Journal, finding: Finding) -> None:
        """To the findings of the journal, to its suppressed ones, or, where its code is not wanted, not at all."""
        self.found.append(finding)
        if not self._options.wants(finding.code):
            return
        at = finding.location
        remark = self._remarks.get(at.path)
        if remark is not None and remark.covers(finding.code, at.line, at.end_line):
            journal.add_suppressed(finding)
        else:
            journal.add(finding)

    def count(self, journal: Journal) -> None:
        """How many findings are not shown because their code is not wanted: a report says so."""
        left_out = sum(not self._options.wants(finding.code) for finding in self.found)
        if left_out:
            journal.script(not_selected=left_out)

    def hangs_on(self, *kinds: type[Fact]) -> bool:
        """Whether a rule whose code is wanted needs facts of one of these kinds."""
        return any(
            self._options.wants(one.rule.code) and set(kinds).intersection(one.rule.needs) for one in rules.all_rules()
        )
