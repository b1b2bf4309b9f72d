"""What it finds
    An in-place operation on a view that autograd can't follow: an output of `split`, `chunk`, `unbind` (and of a
    `for` over a tensor), of a custom Function, of a module with a full backward hook, or a view made under
    `no_grad`: "Output 0 of SplitBackward0 is a view and is being modified inplace".

Why it matters
    A change of a view is a change of its base, and of every other view of it. Where one function made several
    views, or a Function of yours made it, torch can't rewrite the graph so that the gradient stays right, and
    refuses.

When it is fine
    On a copy (`part.clone()`), or with gradients off for both the view and the change.

The fix
    Out of place: `a = a + 1` for `a += 1`; a clone of the part before it is changed; `inplace=False` in the module
    that follows a hooked one or a custom Function.

References
    "Autograd mechanics" and torch.Tensor views in the PyTorch documentation; torch.split, torch.unbind.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.deaths import Death, deaths
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW617",
    "view-of-multi-output-modified",
    "error",
    needs=(ScriptDied,),
    messages=(
        r"Output (?P<output>\d+) of (?P<node>\S+) is a view"
        r"(?: of a view)?(?: which was created in (?P<off>\w+) mode)?"
        r" and (?:is being|its base or another view of its base has been) modified inplace",
        r"A view was created in (?P<mode>\w+) mode and "
        r"(?:is being|its base or another view of its base has been) modified inplace",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        target = death.clue("target") or "a view"
        yield RULE.finding(
            subject,
            at=death.where(subject),
            message=f"{death.expression}: {target} ({_origin(death)}) is changed in place",
            why=_why(death),
            hints=_hints(death, target),
            evidence=[death.fact.id],
        )


def _origin(death: Death) -> str:
    if mode := death.caught("mode") or death.caught("off"):
        return f"a view made in {mode} mode"
    return f"a view, output {death.caught('output')} of {death.caught('node')}"


def _why(death: Death) -> str:
    if death.caught("mode") or death.caught("off"):
        return "The view is outside the graph and the change is inside: which is meant can't be told."
    if death.caught("node").startswith("BackwardHook"):
        return "A module with a full backward hook hands its tensors on as views, whose history must stay as it is."
    if "custom Function" in death.fact.message:
        return (
            "The change would put torch's own history in the place of the Function's backward, and the gradient wrong."
        )
    return "One function made several views of one tensor; torch can't rewrite its graph when one of them changes."


def _hints(death: Death, target: str) -> Iterator[str]:
    if mode := death.caught("mode") or death.caught("off"):
        yield f"put the view and the change both inside the {mode} block, or both outside"
    if death.caught("node").startswith("BackwardHook"):
        yield "use inplace=False in the module beside the hooked one"
    name = target if target.isidentifier() else "part"
    yield f"change a copy: {name} = {name}.clone() first; or out of place: {name} = {name} + 1, not {name} += 1"
