"""What it finds
    Graphs of earlier steps that are still alive at a later step's backward, more with every step: a total of losses
    that were summed with their graphs, a list of losses or outputs with theirs, a hidden state that is never cut.
    Observed on the nodes of the graphs themselves, at eight steps and more.

Why it matters
    A tensor that requires a gradient holds the graph that made it, and that graph what it saved, and the graphs before
    it: memory grows from step to step until it ends. A backward frees what was saved, not the nodes. Where the loss
    itself reaches the steps before, each backward goes through all of them again.

When it is fine
    A few steps that are kept on purpose, an episode or a sequence whose losses are summed for one backward, the graph
    of the last step, a graph that is made once and used in every step: these are not reported.

The fix
    `total += loss.item()`, or `loss.detach()`; `hidden = hidden.detach()` between two steps.

References
    "My model reports out of memory" in the FAQ of PyTorch's notes; pytorch/pytorch#51978.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import GraphsKept
from gradwright.doctor.session.facts.flow import MANY_KEPT
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW404", "graph-kept-over-steps", "warning", needs=(GraphsKept,), causes=("GW213",))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for seen in facts.of(GraphsKept):
        if seen.kept < MANY_KEPT:
            continue
        who = f"`{seen.variable}`" if seen.variable else "something"
        yield RULE.finding(
            subject,
            at=seen.location or subject.location,
            message=f"{who} keeps the graphs of earlier steps: {seen.kept} were alive at once",
            why=f"{_history(seen)}{_nodes(seen)} {_what_it_costs(seen)}",
            hints=[_hint(seen)],
            evidence=[seen.id],
        )


def _history(seen: GraphsKept) -> str:
    counts = ", ".join(f"{kept} at step {step}" for step, kept in seen.history)
    return f"Graphs of earlier steps that were alive when a backward began: {counts}."


def _nodes(seen: GraphsKept) -> str:
    if not seen.nodes:
        return ""
    counts = ", ".join(f"{nodes:,} nodes at step {step}" for step, nodes in seen.nodes)
    return f" {'What is differentiated' if seen.from_root else f'`{seen.variable}`'} reaches {counts}."


def _what_it_costs(seen: GraphsKept) -> str:
    if seen.from_root:
        return "Each backward goes through all the steps before it, and none of them can be freed."
    return "A backward frees what they saved, not the graphs; nothing goes backward through them any more."


def _hint(seen: GraphsKept) -> str:
    name = seen.variable or "what is kept"
    if seen.from_root:
        return f"cut it between two steps: {name} = {name}.detach()" if seen.variable else "detach it between two steps"
    if seen.how == "collection":
        return f"put numbers or cut tensors into {name}: loss.item(), output.detach()"
    return f"add numbers or cut tensors to {name}: loss.item(), loss.detach()"
