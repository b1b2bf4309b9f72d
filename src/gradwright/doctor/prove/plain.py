"""A Function against the plain function that is to take its place."""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gradwright.doctor.prove.attempt import Attempt, Proved, tried
from gradwright.doctor.prove.compiled import function_node, make_function, no_tensors, parsed, room_of
from gradwright.doctor.prove.harness import Harness
from gradwright.doctor.prove.rightness import chosen, names_of, subject_of
from gradwright.doctor.prove.trial import Subject
from gradwright.doctor.session.proposal import Proposal

MOST_SPECIMENS = 8

Specimen = tuple[tuple[object, ...], tuple[bool, ...]]


def prove_plain(
    proposal: Proposal,
    original: type[torch.autograd.Function],
    namespace: Mapping[str, object],
    specimens: Sequence[Specimen],
    *,
    deadline: float,
) -> Proved | str:
    """Try a plain function in the place of a Function. Returns what is proved, or why nothing is.

    ``proposal.function`` is the plain function, which takes the arguments of ``apply``. Outputs, gradients and second
    gradients have to be the same, forward and backward together faster, or in less memory. The rest as in ``prove``.
    """
    return tried(lambda: _attempt(proposal, original, namespace, specimens[:MOST_SPECIMENS], deadline))


def _attempt(
    proposal: Proposal,
    original: type[torch.autograd.Function],
    namespace: Mapping[str, object],
    specimens: Sequence[Specimen],
    deadline: float,
) -> Proved | str:
    tree = parsed(proposal.new_text)
    definition = function_node(tree, proposal.function, proposal.lines)
    room = room_of(proposal, namespace)
    names = names_of(original)

    def subject(twin: ast.FunctionDef) -> Subject:
        forward = original.forward
        assert isinstance(forward, types.FunctionType)
        plain = make_function(tree, twin, proposal.path, forward, room)

        def call(*args: Any) -> dict[str, Any]:
            returned = plain(*args)
            outputs = returned if isinstance(returned, tuple) else (returned,)
            return {f"output {index}": value for index, value in enumerate(outputs)}

        return call

    engine = Attempt(
        Harness(subject_of(original), names, deadline, written_backward=True),
        proposal,
        definition,
        subject,
        no_tensors(room),
    )
    return engine.run([(args, chosen(names(args), wanted)) for args, wanted in specimens], None)
