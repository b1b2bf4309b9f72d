"""Candidate against original: a Proof comes out, or the smallest counterexample in words.

Four doors (a Function, a plain function, one in the other's place, a region of statements) into one engine. The changed
code alone is made, in a copy of the module's namespace; the rest of the script never runs again. What is claimed is
**verified**: it held on the real inputs (cut to a size at which the original can be tried again and again) and on their
neighbours, and no faulty twin of the candidate slipped through the same trials. It is **proved** if, besides, the
change comes with a certificate for all shapes, and outputs and gradients are equal as real formulas at several of them.

What a candidate does at inf, NaN, between equal elements, or in a dtype that the run did not use may differ: then it is
**unsafe**, and a sentence says where. Two arguments that were apart in the run are taken to be apart.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch

from gradwright.doctor.prove.attempt import Attempt, Proved, tried
from gradwright.doctor.prove.compare import Manner
from gradwright.doctor.prove.compiled import (
    class_node,
    formulas_in,
    function_node,
    kernels_of,
    make_class,
    make_function,
    no_tensors,
    parsed,
    room_of,
    uncompiled,
    with_kernels,
)
from gradwright.doctor.prove.harness import Harness
from gradwright.doctor.prove.one_round import one_round
from gradwright.doctor.prove.plain import prove_plain
from gradwright.doctor.prove.regions import find_region, fits, inputs, make_region, outputs, scales, without_graph
from gradwright.doctor.prove.rightness import Rightness, chosen, compiled_where_dense, names_of, subject_of, wrong_value
from gradwright.doctor.prove.trial import Subject, wanted_of
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.entered import LoopUse

__all__ = ["Expect", "Proved", "prove", "prove_function", "prove_plain", "prove_region"]

MUTANTS_OF_A_RESCALING = 24
MOST_SPECIMENS = 8

Expect = Literal["same", "kept", "right", "finite", "sound"]
Specimen = tuple[tuple[object, ...], tuple[bool, ...]]


def prove(
    proposal: Proposal,
    original: type[torch.autograd.Function],
    namespace: Mapping[str, object],
    specimens: Sequence[Specimen],
    *,
    expect: Expect,
    deadline: float,
    seconds: float | None = None,
) -> Proved | str:
    """Try a change of a Function. Returns what is proved, or why nothing is: the smallest counterexample, say.

    ``namespace``: the globals of the original's module (not changed); ``specimens``: the arguments of real calls with
    one bool each, whether its gradient was wanted; ``deadline``: of ``clock.now()``, after which there is no
    proof; ``seconds``: how long the changed phase of the original took on the largest of the specimens, if known.
    ``expect``: "same": outputs and gradients as the original's, faster or in less memory; "kept": the same, and not
    much slower; "right": outputs as the original's, gradients right by ``gradwright.checking``; "finite": the same
    where the original's gradients are finite, and finite where they are not; "sound": so for outputs as well, where
    float64 says what they should be.

    Cost: about 100 calls of the original per specimen, on inputs of a few hundred elements, and as many of the
    candidate and of each mutant that is hard to kill. Runs the user's code: call it in a forked child.
    """

    def attempt() -> Proved | str:
        given = list(specimens[:MOST_SPECIMENS])
        tree = parsed(proposal.new_text)
        definition = class_node(tree, proposal.class_name, proposal.lines)
        room = room_of(proposal, namespace)
        rightness = Rightness(original, given, deadline, by_a_number=proposal.rewrite == "rescale_gradient")
        names = names_of(original)

        kernels, formulas = kernels_of(tree, proposal), formulas_in(room, proposal)
        plain = uncompiled(room, formulas)

        def made(twin: Any) -> Any:
            """A class, in Python alone; its kernels stand before it."""
            *before, own = twin.body if kernels else [twin]
            return make_class(tree, own, proposal.path, original, with_kernels(before, proposal.path, plain))

        def subject(twin: Any) -> Subject:
            slow = subject_of(made(twin))
            if twin is not code or not (kernels or formulas):
                return slow
            compiled = subject_of(make_class(tree, definition, proposal.path, original, room))
            return compiled_where_dense(slow, compiled, [args for args, _ in given] if formulas else ())

        code = ast.Module([*kernels, definition], []) if kernels else definition
        # Of a rescaling only outputs are compared: the original's gradients are what is wrong.
        manner = Manner(outputs_only=expect == "right", where_finite=expect == "finite")
        engine = Attempt(
            Harness(subject_of(original), names, deadline, manner, written_backward=True),
            proposal,
            code,
            subject,
            no_tensors(room),
            phase=proposal.function if expect in ("same", "kept") else "",
            expect=expect,
        )
        shortened = one_round(definition, "forward") if proposal.function == "backward" else None
        if shortened is not None:
            engine.prepared = subject_of(make_class(tree, shortened, proposal.path, original, room))
        if expect == "right":
            engine.limit = MUTANTS_OF_A_RESCALING
            engine.also = lambda twin: rightness.reason_against(made(twin))
            engine.also_rejects = lambda twin: rightness.rejects(made(twin))
            engine.also_fine = lambda twin: rightness.right(made(twin))
        return engine.run([(args, chosen(names(args), wanted)) for args, wanted in given], seconds)

    return tried(attempt)


def prove_function(
    proposal: Proposal,
    function: types.FunctionType,
    specimens: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]],
    *,
    deadline: float,
    expect: Expect = "same",
    seconds: float | None = None,
    within: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple,
) -> Proved | str:
    """Try a change of a plain function or method. Returns what is proved, or why nothing is.

    ``function`` as it ran: its globals and what it closes over are used, and not changed; ``specimens``: positional and
    keyword arguments of real calls (of a method: with ``self``), whose tensors carry ``requires_grad`` as they had it.
    ``within`` makes of any arguments such as the change is meant for; both are called with those. The rest as in
    :func:`prove`; nothing is "right" here, as torch's own gradients are.
    """

    def attempt() -> Proved | str:
        given = list(specimens[:MOST_SPECIMENS])
        if not given:
            return "there is no specimen to try it on"
        if expect == "right":
            return "the gradients of a plain function are torch's own: there is no formula of its to be mended"
        args, kwargs = given[0]
        alike = [one for one in given if len(one[0]) == len(args) and one[1].keys() == kwargs.keys()]
        names = [*_names_of_arguments(function, len(args)), *kwargs]
        tree = parsed(proposal.new_text)
        definition = function_node(tree, proposal.function, proposal.lines)
        room = room_of(proposal, function.__globals__)

        def subject(callee: Callable[..., Any]) -> Subject:
            def call(*values: Any) -> dict[str, Any]:
                values = within(values)
                named = dict(zip(names[len(args) :], values[len(args) :], strict=True))
                returned = callee(*values[: len(args)], **named)
                if inspect.isgenerator(returned) or inspect.iscoroutine(returned):
                    raise NotImplementedError("what it returns runs later")
                return {"the result": returned}

            return call

        engine = Attempt(
            Harness(
                subject(function),
                lambda _: names,
                deadline,
                Manner(where_finite=expect in ("finite", "sound"), outputs_too=expect == "sound"),
                scales=scales([definition]),
            ),
            proposal,
            definition,
            lambda twin: subject(make_function(tree, twin, proposal.path, function, room)),
            no_tensors(room),
            expect=expect,
        )
        if expect in ("finite", "sound"):

            def reason_against(twin: Any) -> str:
                callee = subject(make_function(tree, twin, proposal.path, function, room))
                return wrong_value(lambda *mine: callee(*mine)["the result"], names, engine.harness.small, deadline)

            engine.also = reason_against
            engine.also_rejects = lambda twin: bool(reason_against(twin))
        values = [(*positional, *(named[key] for key in kwargs)) for positional, named in alike]
        return engine.run([(one, wanted_of(names, one)) for one in values], seconds)

    return tried(attempt)


def prove_region(proposal: Proposal, use: LoopUse, text: str, *, deadline: float) -> Proved | str:
    """Try a change of statements, a loop say, on what these were entered with. Returns what is proved, or why not.

    ``text`` is the old text of the file; the statements on the lines ``proposal.replaced`` of it are compared with
    those on ``proposal.region`` of the new text: the names they bind that are read later, what they write into, what
    they return. Statements above them that only make sizes and fresh buffers run in every trial (``prologue``).
    ``use.live_ins``: the variables of real entries, whose tensors carry ``requires_grad``; globals that hold data are
    taken as variables too. The rest as in :func:`prove`.
    """

    def attempt() -> Proved | str:
        if not use.live_ins:
            return "nothing was kept of what it was entered with"
        alike = [entry for entry in use.live_ins[:MOST_SPECIMENS] if entry.keys() == use.live_ins[0].keys()]
        new = find_region(proposal.new_text, proposal.region)
        old = find_region(text, proposal.replaced)
        given = inputs(old, use.live_ins[0], use.globals)
        old = old.with_prologue(given)
        names = list(inputs(old, use.live_ins[0], use.globals))
        new = new.with_prologue(given, names)
        leaves = outputs(old)
        room, path, definition = room_of(proposal, use.globals), proposal.path, ast.Module(new.body, [])
        formulas = formulas_in(room, proposal)
        plain = uncompiled(room, formulas)

        def subject(twin: ast.Module) -> Subject:
            slow = make_region(new.with_body(twin.body), names, leaves, path, plain)
            if twin is not definition or not formulas:
                return slow
            compiled = make_region(new, names, leaves, path, room)
            return compiled_where_dense(slow, compiled, [args for args, _ in specimens])

        entries = [inputs(old, entry, use.globals) for entry in alike]
        specimens = [(tuple(entry.values()), wanted_of(names, list(entry.values()))) for entry in entries]
        original = make_region(old, names, leaves, path, room)
        engine = Attempt(
            Harness(
                original,
                lambda _: names,
                deadline,
                grad=not without_graph(old),
                scales=scales(old.statements),
                fits=fits(old, names, path, room),
            ),
            proposal,
            definition,
            subject,
            no_tensors(room),
            phase="forward",
        )
        return engine.run(specimens, use.seconds / max(1, use.entries) or None)

    return tried(attempt)


def _names_of_arguments(function: types.FunctionType, count: int) -> list[str]:
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount])[:count]
    return names + [f"argument {index}" for index in range(len(names), count)]
