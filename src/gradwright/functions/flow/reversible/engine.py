"""The backward that keeps no activations.

A state (x1, x2) goes through steps a' = c(a, F(b)), b' = b, where a is one half of it and b the other (step.py). Only
the last state is saved. With the cotangents (ā', b̄') of the state after a step, from the last step to the first:

    t      = F(b')                                  the one evaluation of F in the backward, with its graph
    a      = c⁻¹(a', t),   b = b'                   RevNet, eq. 7 and, line by line, Algorithm 1
    (ā, t̄) = (∂c/∂(a, t))ᵀ ā'                       both are ā' for the additive law
    b̄      = b̄' + (∂F/∂b)ᵀ t̄
    θ̄      = θ̄  + (∂F/∂θ)ᵀ t̄

F is evaluated twice in all, once forward and once here: a third more work than plain autograd, where the backward costs
two forwards. The gradient is the derivative, at the activations as they were reconstructed.

NOTE [differentiated again]: under ``create_graph`` every line above is recorded. The saved outputs hang on this node:
a as a function of (a', b', θ), and a' as a function of the inputs and θ, give the whole derivative. F is then applied
to views of b and θ, so that the gradient asked of F stops there and does not wander into how b was made.

Source: Gomez, Ren, Urtasun, Grosse 2017, The Reversible Residual Network (arXiv:1707.04585), eq. 6 and 7, Algorithm 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.functions.flow.reversible.admission import require_no_cache
from gradwright.functions.flow.reversible.coupling import inlet
from gradwright.functions.flow.reversible.passage import Passage, Plan, Visit
from gradwright.functions.flow.reversible.reconstruction import Comparison
from gradwright.functions.flow.reversible.replay import exclusive, replaced
from gradwright.functions.flow.reversible.step import Step
from gradwright.ground.graphs import graph_of
from gradwright.ground.random_states import drawn_from
from gradwright.ground.torch_versions.modules import has_backward_hooks
from gradwright.ground.torch_versions.nodes import AccumulateGrad

_ACCUMULATE: Any = AccumulateGrad


class ReversibleFunction(torch.autograd.Function):
    """(x1, x2) through all steps. The parameters are inputs, so that their hooks, and DDP's, see their gradients."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, x1: Tensor, x2: Tensor, *learnt: Tensor) -> tuple[Tensor, ...]:
        passage, halves = Passage(plan, learnt, x1, x2), [x1, x2]
        passage.forward(halves)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*halves, *passage.saved)
        passage.saved = []
        ctx.passage, ctx.learnt = passage, len(learnt)
        return tuple(halves)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        require_no_cache()
        y1, y2, *saved = ctx.saved_tensors
        back = WayBack(ctx.passage, [y1, y2], list(cotangents), saved)
        back.go()
        back.require_close()
        return None, *back.cotangents, *(back.gradients.get(at) for at in range(ctx.learnt))


class WayBack:
    """From the outputs to the inputs: ``halves`` and ``cotangents`` become those of the state before.

    ``gradients``: of the saved tensors that require one, by their place among ``saved``. A cotangent that is None
    stays None as long as nothing flows into it; where nothing flows at all, the states are reconstructed and no more.
    """

    def __init__(
        self, passage: Passage, halves: list[Tensor], cotangents: list[Tensor | None], saved: Sequence[Tensor]
    ) -> None:
        self.passage, self.halves, self.cotangents, self.saved = passage, halves, cotangents, saved
        self.differentiable = torch.is_grad_enabled()
        self.autocast = passage.plan.autocast.entering()
        self.gradients: dict[int, Tensor] = {}
        self.comparison = Comparison.with_(passage.samples)

    def go(self) -> None:
        """All steps, last step first."""
        take, compared = self.passage.sampler.take, self.comparison
        for number in reversed(range(len(self.passage.visits))):
            visit = self.passage.visits[number]
            take(self.halves[visit.step.changes], compared.became[number])
            self._step(visit)
            take(self.halves[visit.step.changes], compared.found[number])

    def require_close(self) -> None:
        """Raises: GradientError, if the states were not reconstructed."""
        plan = self.passage.plan
        self.comparison.require_close([step.name for step in plan.steps], plan.tolerance)

    def _step(self, visit: Visit) -> None:
        """One step back: the lines of the derivation, in their order."""
        _require_same_modes(visit)
        step, here, there = visit.step, visit.step.changes, 1 - visit.step.changes
        cotangent = self.cotangents[here]
        if cotangent is None:
            with self.autocast():
                terms, _ = self._terms(visit, self.halves[there], wanted=False)
                self.halves[here] = step.coupling.invert(self.halves[here], *terms)
            return
        b = inlet(self.halves[there], self.differentiable)
        with self.autocast():
            with torch.enable_grad():
                terms, learnt = self._terms(visit, b, wanted=True)
            known = terms if self.differentiable else tuple(term.detach() for term in terms)
            self.halves[here] = step.coupling.invert(self.halves[here], *known)
            self.cotangents[here], of_terms = step.coupling.vjp(self.halves[here], known, cotangent)
        inputs = (b, *learnt.values())
        _require_known(step, terms, inputs)
        pairs = [(t, c) for t, c in zip(terms, of_terms, strict=True) if c is not None and t.requires_grad]
        if pairs:
            outputs, cotangents = zip(*pairs, strict=True)
            of_b, *of_learnt = torch.autograd.grad(
                outputs, inputs, cotangents, create_graph=self.differentiable, allow_unused=True
            )
            self.cotangents[there] = _sum(self.cotangents[there], of_b)
            self._add(zip(learnt, of_learnt, strict=True))

    def _terms(self, visit: Visit, b: Tensor, *, wanted: bool) -> tuple[tuple[Tensor, ...], dict[int, Tensor]]:
        """t = F(b), as it was called in the forward; where gradients are ``wanted``, what they can be asked for.

        That is the saved tensor itself where it stands in its place. Another one is put there, see NOTE [parameters are
        replaced], if something else stands there, or hooks, or the derivative has to be recorded.
        """
        with exclusive():
            moved = {at for table, name, at in visit.standing if table.get(name) is not self.saved[at]}
            learnt = dict.fromkeys(at for _, _, at in visit.standing if wanted and self.saved[at].requires_grad)
            inlets = {at: self._inlet(self.saved[at], at in moved) for at in learnt}
            tensors = [
                (table, name, inlets.get(at, self.saved[at]))
                for table, name, at in visit.standing
                if at in moved or inlets.get(at, self.saved[at]) is not self.saved[at]
            ]
            copies = {id(copy): copy.clone() for _, _, copy in visit.changed}
            tensors += [(table, name, copies[id(copy)]) for table, name, copy in visit.changed]
            with replaced(tensors), drawn_from(visit.random):
                return visit.step.terms(b), inlets

    def _inlet(self, saved: Tensor, moved: bool) -> Tensor:
        replace = moved or self.differentiable or not saved.is_leaf or has_backward_hooks(saved)
        return inlet(saved, self.differentiable) if replace else saved

    def _add(self, gradients: Iterable[tuple[int, Tensor | None]]) -> None:
        for at, gradient in gradients:
            total = _sum(self.gradients.get(at), gradient)
            if total is not None:
                self.gradients[at] = total


def _sum(one: Tensor | None, two: Tensor | None) -> Tensor | None:
    if one is None or two is None:
        return two if one is None else one
    return one + two


def _require_same_modes(visit: Visit) -> None:
    for module, training in zip(visit.modules, visit.modes, strict=True):
        if module.training != training:
            was, now = ("train", "eval") if training else ("eval", "train")
            raise UsageError(
                f"{visit.step.name} was in {was} mode in the forward and is in {now} mode in the backward "
                f"({type(module).__name__}).\n"
                "  why    the backward calls it again and has to get what the forward got\n"
                "  do     change the mode after the backward"
            )


def _require_known(step: Step, terms: Sequence[Tensor], inlets: Sequence[Tensor]) -> None:
    """Raises: UsageError, if the terms hang on a leaf that autograd is not asked about: its gradient would be lost."""
    asked = {id(inlet) for inlet in inlets}
    alone = (term for term in terms if term.requires_grad and term.grad_fn is None)
    nodes = graph_of(terms, apart={inlet.grad_fn for inlet in inlets})
    leaves = itertools.chain(alone, (node.variable for node in nodes if isinstance(node, _ACCUMULATE)))
    stranger = next((leaf for leaf in leaves if id(leaf) not in asked), None)
    if stranger is not None:
        raise UsageError(
            f"{step.name} uses a tensor {list(stranger.shape)} that requires a gradient and is neither its input "
            "nor one of its parameters.\n"
            "  why    the backward asks for the gradients of inputs and parameters; this one would be lost\n"
            f"  do     make {step.name} a module that holds it as a parameter, carry it along inside x1 or x2, "
            "or detach it"
        )
