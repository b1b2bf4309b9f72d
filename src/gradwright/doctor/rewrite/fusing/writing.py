"""A chain of operations gives way to one call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from gradwright.doctor.rewrite.fusing.chains import Chain, Passage
from gradwright.doctor.rewrite.fusing.known import SHORTEST, Match, recognised
from gradwright.doctor.rewrite.fusing.operands import are_alike
from gradwright.doctor.rewrite.loops.frames import Frame
from gradwright.doctor.rewrite.source_text import SourceText, changed_lines, split_lines, unified_diff
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.seen import Seen

FUNCTIONAL = "torch.nn.functional"


def with_known_functions(source: SourceText, plain: Proposal, seen: Seen) -> Iterator[Proposal]:
    """The proposal with a chain of its operations as the function of torch's that it is, if it is one."""
    try:
        passage = Passage(plain.new_text, plain.region)
    except LookupError:
        return
    functional = _functional(passage.frame)
    lines = {name for name, one in seen.live_ins.items() if one.tensor is not None and len(one.tensor.shape) == 1}
    for chain in passage.chains(SHORTEST) if functional else ():
        inputs = [node for _, node in chain.formula.inputs]
        match = recognised(chain.formula)
        if match is None or not are_alike(inputs, seen):
            continue
        if match.known.loss:
            chain = passage.averaged(chain, lines)
        if (match.known.loss and chain.reduction == "none") or is_remarked(plain, chain):
            continue
        what = f"{plain.what}, and {len(chain.formula.steps)} of its operations torch's own {match.known.name}"
        yield replaced(source, plain, chain, _call(functional, match, chain), what)
        return


def _functional(frame: Frame) -> str:
    """What the file calls ``torch.nn.functional``; "" if it has no name for torch."""
    for name in frame.imports:
        if frame.module_of(ast.Name(name, ast.Load())) == FUNCTIONAL:
            return name
    torch = frame.torch_name()
    return f"{torch}.nn.functional" if torch else ""


def is_remarked(plain: Proposal, chain: Chain) -> bool:
    """Whether a statement that would go shares its line with a comment, or has more than one line."""
    lines = split_lines(plain.new_text)
    wrapped = chain.node.lineno != chain.node.end_lineno or any(one.lineno != one.end_lineno for one in chain.needless)
    return wrapped or any("#" in lines[one.lineno - 1] for one in chain.needless)


def _call(functional: str, match: Match, chain: Chain) -> str:
    given = [ast.unparse(node) for _, node in chain.formula.inputs]
    options = [match.told] if match.told else []
    if match.known.loss and chain.reduction != "mean":
        options.append(f'reduction="{chain.reduction}"')
    call = f"{functional}.{match.known.name}({', '.join([*given, *options])})"
    return call if match.known.loss or chain.reduction == "none" else f"{call}.{chain.reduction}()"


def replaced(source: SourceText, plain: Proposal, chain: Chain, code: str, what: str) -> Proposal:
    """The proposal with ``code`` in the place of the chain's node, without the statements that nobody needs then."""
    lines = split_lines(plain.new_text)
    node, at = chain.node, chain.node.lineno - 1
    text = lines[at].encode()
    lines[at] = (text[: node.col_offset] + code.encode() + text[node.end_col_offset :]).decode()
    gone = {one.lineno for one in chain.needless}
    lines = [line for number, line in enumerate(lines, 1) if number not in gone]
    further = chain.last - plain.region[1]
    return replace(
        plain,
        new_text="".join(lines),
        diff=unified_diff(source.path, source.lines, lines),
        changed=changed_lines(source.lines, lines),
        what=what,
        lines=(plain.lines[0], plain.lines[1] - len(gone)),
        replaced=(plain.replaced[0], plain.replaced[1] + further),
        region=(plain.region[0], chain.last - len(gone)),
    )
