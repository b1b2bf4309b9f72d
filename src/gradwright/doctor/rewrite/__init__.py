"""A finding becomes candidate source. Nothing here has been tried: the prove room does that.

The only room that knows libcst. No template looks at the names of the user's variables.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import libcst as cst

from gradwright.doctor.rewrite.call_known_loss import call_known_loss
from gradwright.doctor.rewrite.drop_saved import drop_saved
from gradwright.doctor.rewrite.expressions.contract_product import contract_product
from gradwright.doctor.rewrite.expressions.drop_copy import drop_copy
from gradwright.doctor.rewrite.expressions.fuse_temporaries import fuse_temporaries
from gradwright.doctor.rewrite.expressions.guard_boundary import guard_boundary
from gradwright.doctor.rewrite.expressions.keep_dtype import keep_dtype
from gradwright.doctor.rewrite.expressions.select_by_mask import select_by_mask
from gradwright.doctor.rewrite.expressions.share_value import share_value
from gradwright.doctor.rewrite.finite import keep_finite
from gradwright.doctor.rewrite.fusing import with_formula, with_known_functions
from gradwright.doctor.rewrite.guard_gradients import guard_gradients
from gradwright.doctor.rewrite.kernels import compile_kernel
from gradwright.doctor.rewrite.leave_numpy import leave_numpy
from gradwright.doctor.rewrite.loops import compile_inner, compile_loop
from gradwright.doctor.rewrite.mend_gradient import mend_gradient
from gradwright.doctor.rewrite.opaque_body import vmap_body
from gradwright.doctor.rewrite.plain_forward import plain_forward
from gradwright.doctor.rewrite.save_for_backward import save_for_backward
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.loops import LoopSite
from gradwright.doctor.source.seen import Seen

if TYPE_CHECKING:
    from torch.autograd import Function

__all__ = [
    "BY_RUNNING",
    "Proposal",
    "keeps_a_loop",
    "prepare_to_run",
    "propose",
    "propose_by_running",
    "propose_finite",
    "propose_loop",
    "propose_plain",
    "with_formula",
]

REWRITES: dict[str, Callable[[Finding, Sequence[Fact], SourceText], tuple[Proposal, ...]]] = {
    "mend_gradient": mend_gradient,
    "guard_gradients": guard_gradients,
    "save_for_backward": save_for_backward,
    "drop_saved": drop_saved,
    "contract_product": contract_product,
    "share_value": share_value,
    "fuse_temporaries": fuse_temporaries,
    "drop_copy": drop_copy,
    "select_by_mask": select_by_mask,
    "guard_boundary": guard_boundary,
    "keep_dtype": keep_dtype,
    "leave_numpy": leave_numpy,
    "call_known_loss": call_known_loss,
}

# Where the text alone is not enough, or what it proposed has failed: the subject is run.
BY_RUNNING = frozenset({"mend_gradient"})


def propose(rewrite: str, finding: Finding, facts: Sequence[Fact], text: str) -> tuple[Proposal, ...]:
    """Candidates for one finding, best first; none where the source is not of a kind that can be rewritten safely.

    ``rewrite``: what the finding's rule names (see ``Rule``), one of ``REWRITES``; loops have :func:`propose_loop`.
    ``facts`` are those of the finding's evidence (more do no harm), ``text`` is the whole file at ``finding.location``
    with its newlines as they are. Cost: one parse of the file, about a second for 3,000 lines.
    """
    try:
        return REWRITES[rewrite](finding, facts, SourceText(finding.location.path, text))
    except (DeclinedError, cst.ParserSyntaxError):
        return ()


def propose_plain(finding: Finding, text: str) -> tuple[tuple[Proposal, ...], str]:
    """The plain function that a Function is to become, if there is one, and why there is none, in one sentence."""
    try:
        return (plain_forward(finding, SourceText(finding.location.path, text)),), ""
    except DeclinedError as error:
        return (), str(error)
    except cst.ParserSyntaxError as error:
        return (), f"its file is not read: {error.message}"


def propose_finite(finding: Finding, facts: Sequence[Fact], text: str) -> tuple[tuple[Proposal, ...], str]:
    """What keeps an operation finite, the likeliest first, and why there is nothing, in one sentence."""
    try:
        return keep_finite(finding, facts, SourceText(finding.location.path, text)), ""
    except DeclinedError as error:
        return (), str(error)
    except cst.ParserSyntaxError as error:
        return (), f"its file is not read: {error.message}"


def propose_loop(path: str, text: str, site: LoopSite, seen: Seen) -> tuple[tuple[Proposal, ...], str]:
    """Candidates for the loop at ``site``, best first, and why there is none, in one sentence.

    ``seen``: what its expressions were in a run. Cost: one parse of the file and some milliseconds.
    """
    try:
        source = SourceText(path, text)
    except cst.ParserSyntaxError as error:
        return (), f"its file is not read: {error.message}"
    found: list[Proposal] = []
    reasons: list[str] = []
    kernel = (compile_kernel,) if site.in_function_class else ()
    for rewrite in (compile_loop, *kernel, compile_inner, vmap_body):
        if found and rewrite is not compile_kernel:
            continue
        try:
            found += rewrite(source, site, seen)
        except DeclinedError as error:
            reasons.append(str(error))
    found[:0] = (one for plain in found[:1] for one in with_known_functions(source, plain, seen))
    # Inside a Function the last word is that of the kernel, which takes what carries a dependence as well: for where
    # array code keeps a loop, or does something else at some inputs.
    return tuple(found), "" if found else "; ".join(dict.fromkeys(reasons[: 2 if site.in_function_class else 1]))


def keeps_a_loop(proposal: Proposal) -> bool:
    """Whether a loop stays in what the proposal writes: a dimension that carries something, around array code."""
    first, last = proposal.region
    tree = ast.parse(proposal.new_text.removeprefix("\ufeff"))
    loops = (node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While)))
    return any(first <= loop.lineno <= last for loop in loops)


def prepare_to_run() -> None:
    """Import what tracing needs (seconds, once): a forked child may write no file, and torch's tracer does so then."""
    import torch

    from gradwright.functions.derive.standins import stand_ins
    from gradwright.ground.torch_versions.dynamo import load_dynamo

    load_dynamo()
    stand_ins([torch.zeros(2)], [False], "all")  # hundreds of modules come with the first symbol


def propose_by_running(
    rewrite: str, finding: Finding, text: str, function: type[Function], args: Sequence[Any]
) -> tuple[tuple[Proposal, ...], str]:
    """Candidates that need a run of the user's forward at ``args``, and why there is none, in one sentence.

    For when those of :func:`propose` have failed. Call it where that does no harm (a forked child), with small inputs.
    Cost: a trace and a quick check, a second.
    """
    if rewrite not in BY_RUNNING:
        return (), ""
    from gradwright.doctor.rewrite.derive_backward import derive_backward  # it imports what traces

    try:
        return derive_backward(finding, SourceText(finding.location.path, text), function, args), ""
    except DeclinedError as error:
        return (), next(iter(str(error).splitlines()), "")
    except cst.ParserSyntaxError as error:
        return (), f"its file is not read: {error.message}"
