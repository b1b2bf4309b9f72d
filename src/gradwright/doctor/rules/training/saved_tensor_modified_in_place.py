"""What it finds
    A backward that needed a tensor which was changed in place after the forward had saved it: "one of the variables
    needed for gradient computation has been modified by an inplace operation".

Why it matters
    The backward would compute with values that the forward never saw. Torch counts the writes to each tensor and
    refuses. Writes through `.data` are not counted: they give wrong gradients without a word.

When it is fine
    Never as it stands, since the call raises. In-place operations on tensors that no backward needs are fine.

The fix
    Write the operation out of place (`y = y + 1` for `y += 1`, `torch.where` for a masked assignment, no
    `inplace=True`), or change a copy (`y = y.clone()`). If an optimizer's step is the writer, call every `backward`
    that needs the old parameters before it.

References
    "Autograd mechanics" in the PyTorch documentation: in-place operations with autograd, in-place correctness
    checks.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.deaths import Death, deaths, listed
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW614",
    "saved-tensor-modified-in-place",
    "error",
    needs=(ScriptDied,),
    messages=(
        r"modified by an inplace operation: \[(?P<type>[\w.]+) (?P<shape>\[[\d, ]*\])\]"
        r"(?:, which is output (?P<output>\d+) of (?P<node>[^\s,]+),)?"
        r" is at version (?P<version>\d+); expected version (?P<saved>\d+)",
        r"variables needed for gradient computation has been modified by an inplace operation",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        expression = death.clue("gradient_call").partition(": ")[2] or death.expression
        yield RULE.finding(
            subject,
            at=death.where(subject),
            message=f"{expression}: {_tensor(death)} was changed in place after the forward saved it",
            why=_why(death),
            hints=_hints(death),
            evidence=[death.fact.id],
        )


def _tensor(death: Death) -> str:
    shape, node = death.caught("shape"), death.caught("node")
    tensor = f"a tensor of shape {shape}" if shape else "a tensor"
    return f"{tensor}, output {death.caught('output')} of {node}," if node else tensor


def _why(death: Death) -> str:
    counted = ""
    if death.caught("version"):
        writes = int(death.caught("version")) - int(death.caught("saved"))
        counted = f" It was written to {'once' if writes == 1 else f'{writes} times'} since."
    read = f" It is asked for at {death.clue('read_at')}." if death.clue("read_at") else ""
    return f"The backward needs the values that the forward saw.{counted}{read}"


def _hints(death: Death) -> Iterator[str]:
    if writers := death.clues("writer"):
        yield f"lines here that write to a tensor of this shape: {listed(writers)}"
        if any(".step(" in writer for writer in writers):
            yield "call every backward that needs the old parameters before the optimizer's step"
    if modules := death.clues("inplace_module"):
        yield f"modules that work in place: {listed(modules)}; try inplace=False"
    if not death.clues("writer") and (lines := death.clues("inplace_line")):
        yield f"in-place lines of other functions (their shapes are not known): {listed(lines)}"
    yield "write out of place (y = y + 1, not y += 1; torch.where for a masked assignment) or change a clone"
    if not death.clues("writer") and not death.clues("inplace_module"):
        yield "torch.autograd.set_detect_anomaly(True) shows the forward operation whose saved tensor was changed"
