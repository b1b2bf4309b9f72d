"""What it finds
    A gradient asked of a graph, or of a part of one, whose saved tensors an earlier gradient call freed: "Trying to
    backward through the graph a second time".

Why it matters
    Usually the second pass is not meant: a tensor made before the loop, a hidden state or a running loss carries
    the graph of an earlier step into this one. Then `retain_graph=True` hides the error, and every step
    differentiates through all the steps before it: slower each time, more memory each time, and often another
    gradient than is meant.

When it is fine
    Two losses over one forward may share a graph on purpose. Add them and call `backward` once, or keep the graph
    with `retain_graph=True` on every call but the last.

The fix
    Compute inside the loop what depends on the parameters. Carry state over as `state = state.detach()`. Sum losses
    for printing with `loss.item()`. Then one `backward` per graph is enough.

References
    torch.Tensor.backward (`retain_graph`) in the PyTorch documentation; "Truncated backpropagation through time".
"""

from collections.abc import Iterator

from gradwright.doctor.rules.deaths import Death, deaths, listed
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW613",
    "backward-through-graph-twice",
    "error",
    needs=(ScriptDied,),
    messages=(r"Trying to backward through the graph a second time",),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        expression = death.clue("gradient_call").partition(": ")[2] or death.expression
        yield RULE.finding(
            subject,
            at=death.where(subject),
            message=f"{expression}: part of this graph was already used and freed",
            why="A gradient call frees what the graph saved, unless told otherwise, and this one needs it again."
            + _seen(death),
            hints=_hints(death),
            evidence=[death.fact.id],
        )


def _seen(death: Death) -> str:
    parts = []
    if outside := death.clues("made_outside"):
        parts.append(f" Made before the loop, used in it, and holding a graph: {listed(outside)}.")
    if carried := death.clues("carried"):
        parts.append(f" Carried from turn to turn with its graph: {listed(carried)}.")
    if not parts and (earlier := death.clues("earlier_call")):
        parts.append(f" Gradient calls of the same function that free their graph: {listed(earlier)}.")
    if read := death.clue("read_at"):
        parts.append(f" The freed tensors are asked for at {read}.")
    return "".join(parts)


def _hints(death: Death) -> Iterator[str]:
    if death.clues("made_outside"):
        yield "compute it inside the loop, anew for each step; or .detach() it if it shall stay as it is"
    if carried := death.clues("carried"):
        name = carried[0].split("`")[1]
        if "+=" in carried[0]:
            yield f"call backward on what this turn adds, not on {name}; add up for printing with .item()"
        else:
            yield f"cut the past off at each turn: carry {name}.detach() on, not {name}"
    if shared := death.clue("shared"):
        yield f"`{shared}` is in both graphs: where the earlier call shall not go behind it, give it {shared}.detach()"
    if not death.clues("made_outside") and not death.clues("carried"):
        yield "add the losses that share a graph and call backward once on the sum"
    yield "retain_graph=True only where one graph is meant to serve twice: in a loop it goes through all past steps"
