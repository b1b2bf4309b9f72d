"""What mends a wrong gradient, by its cause."""

from __future__ import annotations

from gradwright.checking.verdict import InputVerdict

_BY_CAUSE = {
    "sign": "flip the sign of what is returned for {name}",
    "missing grad_output": "multiply by the cotangent: a backward returns a vjp, not a derivative; `loss.sum()` hides "
    "this, because its cotangent is all ones",
    "nonlinear in the cotangent": "every term of a vjp holds the cotangent once, as a factor: no abs, sign, clamp or "
    "square of it",
    "transpose": "transpose what is returned for {name}, or the matrix that it is multiplied with",
    "permutation": "undo in the backward the order in which the forward took the values",
    "swapped inputs": "return the gradients in the order of the forward's inputs",
    "sum for mean": "a mean's vjp divides by how many there are, a sum's does not",
    "dropped term": "add the missing term to what is returned for {name}; None says that it has no gradient",
    "additive offset": "every term of a vjp holds the cotangent as a factor: for a cotangent of zero it is zero",
    "batch rows mixed": "keep the rows apart: a reduction runs over the batch axis that should not",
    "precision lost": "compute in the dtype of the inputs: look for .float(), .half(), float32 constants, tables",
    "not finite": "guard what fails there before it is computed, not its result: a NaN times zero is NaN (safe double "
    "torch.where)",
    "nondeterminism": "save in the forward what was drawn there (a mask, a seed): the backward must not draw again",
    "state kept between calls": "keep what the backward needs on ctx, and nothing on the class or in a global",
}


def what_to_do(verdict: InputVerdict) -> str:
    """In words, for the input that the verdict is about."""
    if verdict.cause == "constant factor" and verdict.factor:
        inverse = f"{1 / verdict.factor:.6g}"
        if abs(verdict.factor) < 1 and inverse.lstrip("-").isdigit():  # half of it: times 2
            return f"multiply what is returned for {verdict.name} by {inverse}"
        return f"divide what is returned for {verdict.name} by {verdict.factor:.6g}"
    if verdict.cause == "region":
        return f"derive the vjp for {verdict.name} again where {verdict.details.get('region', '')}"
    told = _BY_CAUSE.get(verdict.cause, "derive the vjp for {name} again from what the forward computes")
    return told.format(name=verdict.name)
