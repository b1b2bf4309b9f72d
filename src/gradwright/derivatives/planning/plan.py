"""``gw.plan``: what a call would do, how long it would take, and why, without doing it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gradwright.derivatives.derivation import chosen, exact_candidate, is_exact, refuse, shared_columns
from gradwright.derivatives.graph.engine import hooks_ever
from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch, Mode, Options, read_options
from gradwright.derivatives.graph.recording import recording
from gradwright.derivatives.graph.request import BatchDim, Request, read_request
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.nodes.unreadable import without_unreadable_rules
from gradwright.derivatives.planning.choice import (
    METHODS,
    Candidate,
    Weighed,
    at_sight,
    one_hot_candidate,
    ranked,
    weigh,
    why_not,
)
from gradwright.derivatives.planning.cost import is_measured, peak_bytes
from gradwright.derivatives.planning.text import bytes_told, seconds_told, table
from gradwright.derivatives.samples.structure import Structure, examine_structure
from gradwright.ground.devices import name_device


@dataclass(frozen=True)
class Weight:
    """One method in a plan.  ``why_not``: why it was not chosen; "" where it was.

    ``directions``: how many backwards or forwards, ``chunk`` at a time.  ``seconds``, ``peak_bytes``: predicted,
    with a penalty and its backward where a graph is made; 0 where the method can't be used.
    """

    method: str
    directions: int
    chunk: int
    seconds: float
    peak_bytes: float
    why_not: str


@dataclass(frozen=True)
class Plan:
    """What a call would do.  ``str(plan)`` is a table of the methods, ``choice`` the name of the one that is taken.

    ``independence``: how it is, or will be, known that no sample reaches another one's rows.
    ``unmeasured``: "" where the constants of the predictions were measured on such a device; else what they are.
    """

    shapes: str
    independence: str
    unmeasured: str
    choice: str
    chunk: int
    methods: tuple[Weight, ...]

    @property
    def seconds(self) -> float:
        """Predicted time of the choice."""
        return next(weight.seconds for weight in self.methods if not weight.why_not)

    @property
    def peak_bytes(self) -> float:
        """Predicted peak of memory of the choice, the result included."""
        return next(weight.peak_bytes for weight in self.methods if not weight.why_not)

    def __str__(self) -> str:
        rows = [("", "method", "directions", "at a time", "predicted", "memory", "")]
        for weight in self.methods:
            figures = (
                (str(weight.directions), str(weight.chunk), seconds_told(weight.seconds), bytes_told(weight.peak_bytes))
                if weight.directions
                else ("", "", "", "")
            )
            rows.append(("" if weight.why_not else ">", weight.method, *figures, weight.why_not))
        times = f"predicted times: {self.unmeasured}\n" if self.unmeasured else ""
        return f"batch_jacobian: {self.shapes}\nsamples apart: {self.independence}\n{times}{table(rows)}"

    __repr__ = __str__


@without_unreadable_rules
def plan(
    y: Output,
    wrt: Wrt,
    *,
    batch_dim: BatchDim = 0,
    mode: Mode = "auto",
    batch: Batch = "auto",
    create_graph: bool = False,
    max_bytes: int | None = None,
    chunk_size: int | None = None,
    sparsity: Tensor | None = None,
) -> Plan:
    """What ``batch_jacobian`` with these arguments would choose, at which predicted cost, and why not the others.

    Nothing is differentiated, except for a direction or three where ``max_bytes`` is given, as that measures.
    Options and errors: those of ``gw.batch_jacobian``.  Cost: a walk over the graph, some microseconds a node.
    Units: seconds and bytes; predictions are of a small model (planning/cost.py), right within a factor of about two
    where its constants were measured on such a device, which the plan says where it isn't so.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 128), torch.nn.Tanh(), torch.nn.Linear(128, 64))
    >>> z = torch.zeros(1024, 2, requires_grad=True)
    >>> plan(net(z), wrt=z).choice
    'pushed'
    """
    options = read_options(mode, batch, max_bytes, chunk_size, sparsity)
    y, wrt = evaluated(y, wrt, create_graph)
    request = read_request(y, wrt, batch_dim, create_graph)
    refuse(request)
    shape = [request.samples, *request.rows, *request.columns]
    shapes = f"y {list(y.shape)}, wrt {list(request.target.shape)} -> {shape}, {request.target.dtype}".replace(
        "torch.", ""
    )
    structure = examine_structure(request.way, 0, request.target_axis or 0)
    weighed = weigh(request, structure.proved, options)
    with recording(create_graph):
        choice = _choice(weighed, structure)
    known = _known(request, options, structure)
    methods = tuple(_weights(weighed, structure, choice))
    unmeasured = _describe_guess(y.device)
    return Plan(f"{shapes} on {y.device.type}", known, unmeasured, choice.name, choice.chunk, methods)


def _describe_guess(device: torch.device) -> str:
    """Where the predictions come from, if nothing was measured on such a device; "" where it was."""
    if is_measured(device):
        return ""
    return f"not measured on this device ({name_device(device)}): a guess, by data sheets of GPUs"


def _choice(weighed: Weighed, structure: Structure) -> Candidate:
    """What ``batch_jacobian`` would take."""
    request, options = weighed.request, weighed.options
    if not is_exact(request, options):
        choice = chosen(request, structure, options)
        if at_sight(request, structure, options):  # chosen at sight, and weighed for this table alone
            choice = weighed.candidate(choice.method, choice.count)
        return choice
    return shared_columns(request, options) or exact_candidate(request, options)


def _weights(weighed: Weighed, structure: Structure, choice: Candidate) -> list[Weight]:
    """The choice, then what was not chosen, then what can't be used."""
    request, options = weighed.request, weighed.options
    exact = is_exact(request, options)
    found = [_weight(weighed, choice, "")]
    possible = [] if exact and request.target_axis is not None else ranked(weighed, structure)
    for candidate in possible:
        if candidate.name == choice.name:
            continue
        why = candidate.method.unfit(request)
        if why is None and candidate.seconds < choice.seconds and options.max_bytes is not None:
            found.append(_weight(weighed, candidate, f"does not fit into max_bytes={options.max_bytes:,}"))
        elif why is None:
            found.append(_weight(weighed, candidate, _longer(candidate, choice)))
    for method in METHODS:
        why = why_not(request, options, method)
        if options.batch == "coupled" and request.target_axis is not None:
            why = "samples are said to meet, and it carries one direction for all of them"
        if why is not None:
            found.append(Weight(method.name, 0, 0, 0.0, 0.0, why))
    if choice.name != "one-hots":
        one_hot = one_hot_candidate(request, options)
        found.append(
            _weight(
                weighed,
                one_hot,
                _longer(one_hot, choice) + ("" if exact else '; for batch="coupled"'),
            )
        )
    return found


def _longer(candidate: Candidate, choice: Candidate) -> str:
    ratio = candidate.seconds / max(choice.seconds, 1e-9)
    return f"{ratio:.1f} times as long" if ratio < 10 else f"{ratio:,.0f} times as long"


def _weight(weighed: Weighed, candidate: Candidate, why: str) -> Weight:
    count, chunk = candidate.count, candidate.chunk
    peak = peak_bytes(count, chunk, weighed.work, weighed.result_bytes, weighed.request.create_graph)
    return Weight(candidate.name, count, chunk, candidate.seconds, peak, why)


def _known(request: Request, options: Options, structure: Structure) -> str:
    if request.target_axis is None:
        return "not needed, as all of them share wrt"
    if options.batch == "coupled":
        return "not needed: each output of each sample has a backward of its own"
    if request.samples <= 1:
        return "there is one" if request.samples else "there is no sample"
    hooks = ", unless a hook speaks: then one vjp tells" if hooks_ever() else ""
    if structure.proved:
        return f"proved by the structure of the graph ({len(request.way.steps)} nodes){hooks}"
    if options.batch == "assume_independent":
        return "assumed"
    names = ", ".join(dict.fromkeys(step.name for step in structure.open)) or "how the batch lies"
    return f"one vjp with a random cotangent will tell; the structure leaves open {names}"
