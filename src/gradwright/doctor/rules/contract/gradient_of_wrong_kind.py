"""What it finds
    A custom Function whose backward returns something that is no gradient for its input: a list, a number or a NumPy
    array ("expected Variable or None (got list)"), a complex tensor for a real input, a tensor on another device
    ("returned an invalid gradient at index 0 - expected device cpu but got meta") or of another type; or a gradient for
    an input that is no tensor ("returned a gradient different than None at position 2").

Why it matters
    The engine adds gradients up and hands them on: it takes a tensor like the input, and None where there is none to
    take. The message often names neither the Function nor the line.

When it is fine
    Never: the backward raises.

The fix
    Return a tensor for each input, or None: `return grad_x, None`, not `[grad_x, None]`; keep `.item()` and
    `.numpy()` out of a backward; make constants with `dtype=x.dtype, device=x.device`; `.real` where the input is real.

References
    "Extending PyTorch" in the PyTorch documentation; torch/csrc/autograd/engine.cpp, `validate_outputs`.
"""

import dataclasses
from collections.abc import Iterator

from gradwright.doctor.rules.deaths import Death, deaths
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW216",
    "gradient-of-wrong-kind",
    "error",
    needs=(ScriptDied,),
    messages=(
        r"expected (?:Variable|Tensor) or None \(got (?P<kind>[\w.]+)\)",
        r"[Ff]unction '?(?P<function>[^\s']+?)(?:Backward\d*)?'? returned an invalid gradient at index "
        r"(?P<index>\d+) - expected (?P<what>type|dtype|layout|device) (?P<expected>\S+) but got (?P<got>\S+)",
        r"[Ff]unction '?(?P<function>[^\s']+?)(?:Backward\d*)?'? returned a gradient different than None at position "
        r"(?P<position>\d+), but the corresponding forward input was not a",
        r"Expected isFloatingType.*(?P<real>input_is_complex == grad_is_complex)",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        function = death.clue("function")
        at = death.where(subject)
        raised = f" It came to light at {death.fact.location}." if death.fact.location not in (None, at) else ""
        yield RULE.finding(
            dataclasses.replace(subject, name=function or subject.name),
            at=at,
            message=_message(death, function),
            why=f"For each input of the forward the engine takes a tensor like that input, or None.{raised}",
            hints=_hints(death, function),
            evidence=[death.fact.id],
        )


def _message(death: Death, function: str) -> str:
    returned = f" `{death.clue('returns')}`," if death.clue("returns") else ""
    whose = f"{function}.backward returns{returned}"
    if not function:
        node = death.clue("node") or death.caught("function")
        whose = f"{death.expression}: {node or 'the backward of a Function'} returned"
    if death.caught("real"):
        return f"{whose} a complex gradient for a real input"
    if position := death.caught("position"):
        name = death.clue("input") or f"input {int(position) - 1}"
        return f"{whose} a gradient for {name}, which was no tensor (gradient {position} of those returned)"
    if kind := death.caught("kind"):
        return f"{whose} {'an' if kind[0] in 'aeiou' else 'a'} {kind} where a tensor or None belongs"
    name, index, what = death.clue("input"), death.caught("index"), death.caught("what")
    given = f"{name} (input {index})" if name else f"input {index}"
    return f"{whose} a gradient of {what} {death.caught('got')} for {given} of {what} {death.caught('expected')}"


def _hints(death: Death, function: str) -> Iterator[str]:
    kind = death.caught("kind")
    if death.caught("position"):
        yield f"return None for {death.clue('input') or 'it'}: a gradient is for tensors; and keep the inputs' order"
    elif death.caught("real"):
        yield "take the real part: grad_x.real"
    elif kind in ("list", "tuple", "dict"):
        yield "return the gradients side by side, as one tuple: return grad_x, grad_y"
    elif kind == "numpy.ndarray":
        yield "keep to torch in the backward, or turn the result into a tensor: torch.from_numpy(...).to(grad_output)"
    elif death.clue("returns").endswith(".item()"):
        yield "leave out .item(): the tensor itself is the gradient"
    elif kind:
        yield "None says that there is no gradient; a constant is a tensor, too: torch.full_like(x, 2.0)"
    elif not function:
        yield "keep the devices and dtypes of the graph's tensors as they were in the forward; do not assign to .data"
    else:
        yield "make it like the input: .to(x.device, x.dtype), constants with dtype=x.dtype, device=x.device"
