"""A long chain of operations becomes a formula above its function, ``gw.elementwise("...")``: one pass over memory."""

from __future__ import annotations

import ast
from dataclasses import replace

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.expressions.write_formula import LONGEST_FORMULA, define, name_in
from gradwright.doctor.rewrite.fusing.chains import Chain, Passage
from gradwright.doctor.rewrite.fusing.writing import is_remarked, replaced
from gradwright.doctor.rewrite.source_text import (
    DeclinedError,
    SourceText,
    changed_lines,
    split_lines,
    unified_diff,
)
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions.formulas import LONG


def with_formula(source: SourceText, plain: Proposal) -> Proposal | None:
    """The proposal with its last chain of four operations or more as one formula; None if there is none.

    ``source``: the old text. Cost: one parse of the new one.
    """
    try:
        passage = Passage(plain.new_text, plain.region)
        chain = next(one for one in passage.chains(LONG) if len(one.formula.text) <= LONGEST_FORMULA)
        return None if is_remarked(plain, chain) else _written(source, plain, passage, chain)
    except (DeclinedError, LookupError, StopIteration):
        return None


def _written(source: SourceText, plain: Proposal, passage: Passage, chain: Chain) -> Proposal:
    here = passage.frame.function
    if here is None:
        raise DeclinedError("it stands in no function")
    wanted = name_in(passage.frame.owner, here) if passage.frame.owner else f"_{here.name.strip('_')}_formula"
    name = Splice(SourceText(plain.path, plain.new_text)).fresh_name(wanted)
    given = ", ".join(ast.unparse(node) for _, node in chain.formula.inputs)
    what = f"{plain.what}, and {len(chain.formula.steps)} of its operations one pass over memory"
    called = replaced(source, plain, chain, f"{name}({given})", what)

    splice = Splice(SourceText(plain.path, called.new_text))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    function = next(n for n in ast.walk(splice.tree) if isinstance(n, kinds) and n.lineno == here.lineno)
    reduction = f', reduction="{chain.reduction}"' if chain.reduction != "none" else ""
    definition = define(splice, function, name, f'"{chain.formula.text}"{reduction}')
    text = splice.replaced(definition.edits)
    lines, down = split_lines(text), definition.lines
    return replace(
        called,
        new_text=text,
        diff=unified_diff(source.path, source.lines, lines),
        changed=changed_lines(source.lines, lines),
        lines=(called.lines[0] + down, called.lines[1] + down),
        region=(called.region[0] + down, called.region[1] + down),
        added=called.added + definition.added,
    )
