"""The choice of residuals, in words and figures."""

from __future__ import annotations

from gradwright.functions.derive.costs import bytes_of, name_of
from gradwright.functions.derive.subject import Subject
from gradwright.functions.derive.writing import Writing


def explanation(subject: Subject, writing: Writing) -> list[str]:
    """Lines for a comment: what is saved, what is computed again, and beside it what autograd saves."""
    parts, choice = writing.parts, writing.choice
    shapes = ", ".join(
        f"{name} {list(tensor.shape)}" for name, tensor in zip(subject.signature.tensors, subject.examples, strict=True)
    )
    lines = [f"The backward of {subject.label}, derived at {shapes}."]
    kinds = {name: _kind(name, subject) for name in parts.saved}
    if parts.saved:
        said = ", ".join(f"{name} ({kinds[name]}, {size(bytes_of(node))})" for name, node in parts.saved.items())
        lines.append(f"Saved: {said}.")
    if parts.told:
        lines.append(f"Noted: {', '.join(parts.told)}, which is no memory.")
    if not parts.saved and not parts.told:
        lines.append("Saved: nothing.")
    again = f"{choice.again:,.0f}".replace(",", " ")
    work = f"{choice.work:,.0f}".replace(",", " ")
    if choice.recomputed:
        what = ", ".join(dict.fromkeys(name_of(node).strip("_").replace("rsub", "sub") for node in choice.recomputed))
        lines.append(f"Computed again: {what}; {again} of the backward's {work} operations.")
    else:
        lines.append(f"Computed again: nothing that the forward has computed; the backward takes {work} operations.")
    lines.append(f"In all {size(choice.bytes)}; autograd saves {size(writing.autograd_bytes)}.")
    for name, value in subject.signature.fixed.items():
        lines.append(f"Holds for {name}={value}; another value raises.")
    own = subject.signature
    without = [name for name, wanted, possible in zip(own.tensors, own.wanted, own.possible, strict=True)
               if possible and not wanted]  # fmt: skip
    if without:
        lines.append(f"No gradient for {', '.join(without)}, which required none; derive again if one is needed.")
    if writing.traced.captured:
        lines.append(f"From outside: {', '.join(writing.traced.captured)}, as the forward finds it.")
    if writing.traced.surrogate:
        lines.append(f"On purpose not the derivative: {writing.traced.surrogate}.")
    lines += [f"The forward is rewritten: {rule.reason}." for rule in writing.rules]
    return lines


def _kind(name: str, subject: Subject) -> str:
    if name in subject.signature.tensors:
        return "an input"
    return "the output" if name == "output" else "a residual"


def size(count: float) -> str:
    """Bytes in words."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 10 * factor:
            return f"{count / factor:.0f} {unit}"
    return f"{count:.0f} bytes"
