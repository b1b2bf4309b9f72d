"""What it finds
    A tensor that requires a gradient turned into a NumPy array: "Can't call numpy() on Tensor that requires grad".

Why it matters
    NumPy keeps no graph: what is computed from the array takes no part in the gradient. Torch asks you to say so.

When it is fine
    For printing, plotting and metrics: with `.detach()`, which says that no gradient is wanted.

The fix
    For looking at it: `x.detach().cpu().numpy()`, or `x.item()` for one number. If the result goes into the loss,
    compute it with torch; a computation that only NumPy can do needs a `torch.autograd.Function` with a backward of
    its own.

References
    torch.Tensor.numpy, torch.Tensor.detach in the PyTorch documentation; the tutorial "Creating extensions using
    NumPy and SciPy".
"""

from collections.abc import Iterator

from gradwright.doctor.rules.deaths import bracketed, deaths
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW619",
    "numpy-of-tensor-with-grad",
    "error",
    needs=(ScriptDied,),
    messages=(r"Can't call numpy\(\) on (?:Tensor|Variable) that requires grad",),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        name, shape = death.clue("converted"), death.clue("shape")
        short = bracketed(name, "x")
        yield RULE.finding(
            subject,
            at=death.where(subject),
            message=f"{death.expression}: {name or 'the tensor'}{f' {shape}' if shape else ''} requires a gradient",
            why="A NumPy array carries no graph, so torch asks to be told that the gradient may end here.",
            hints=[
                f"to look at it: {short}.detach().cpu().numpy()",
                "if what follows goes into the loss, compute it with torch: the gradient would end here",
            ],
            evidence=[death.fact.id],
        )
