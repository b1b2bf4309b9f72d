"""What it finds
    Arithmetic on one of Python's builtins (`input`, `sum`, `max`, `type`, `id` ...), an index into it or a tensor's
    attribute of it, in a function where nothing gives that name another value.

Why it matters
    The line raises a TypeError or an AttributeError as soon as it runs, and a backward often runs late: after the
    first epoch's forward, or never, if it is not connected. The usual story: the forward's parameter was called
    `input`, and the backward names it without having saved it.

When it is fine
    Never, where the line can run. Annotations, `list[int]`, `int | None` and names that are bound anywhere around the
    function (parameters, locals, globals) are not reported, nor is a file with `from x import *`.

The fix
    Save the tensor in the forward (`ctx.save_for_backward(x)`) and unpack it in the backward
    (`(x,) = ctx.saved_tensors`), or take it as a parameter.

References
    The list of built-in functions in the Python documentation.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import BuiltinAsTensor, PlainBackward, ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW206", "builtin-used-as-tensor", "error", needs=(BuiltinAsTensor, PlainBackward))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    uses: dict[str, list[BuiltinAsTensor]] = {}
    for use in facts.of(BuiltinAsTensor):
        uses.setdefault(use.builtin, []).append(use)
    backward = subject.name.endswith("backward") or any(facts.of(PlainBackward))
    for builtin, found in uses.items():
        lines = sorted({use.location.line for use in found})
        again = f" (also on line {', '.join(map(str, lines[1:]))})" if len(lines) > 1 else ""
        save = "save the tensor in the forward with ctx.save_for_backward and unpack ctx.saved_tensors here"
        lines_met = {(use.location.path, use.location.line) for use in found}
        met = [
            death.id
            for death in facts.all(ScriptDied)
            if death.location is not None and (death.location.path, death.location.line) in lines_met
        ]
        yield RULE.finding(
            subject,
            at=found[0].location,
            message=f"`{builtin}` in {subject.name} is Python's builtin, used as if it were a tensor{again}",
            why=f"Neither {subject.name} nor anything around it gives the name {builtin} a value, so Python finds its "
            f"own {builtin}, and the line raises an error as soon as it runs.",
            hints=[save if backward else "pass the tensor as a parameter, and give it another name"],
            evidence=[*(use.id for use in found), *met],
        )
