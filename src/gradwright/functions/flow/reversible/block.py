"""What users touch: a block, a sequence of them, and the same as a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.flow.reversible.admission import (
    require_blocks,
    require_halves,
    require_no_cache,
    require_options,
    require_shapes,
)
from gradwright.functions.flow.reversible.coupling import Additive, Affine, Coupling
from gradwright.functions.flow.reversible.engine import ReversibleFunction, WayBack
from gradwright.functions.flow.reversible.passage import Passage, Plan
from gradwright.functions.flow.reversible.reconstruction import Extent
from gradwright.functions.flow.reversible.replay import Holdings, exclusive, replaced
from gradwright.functions.flow.reversible.step import Step
from gradwright.ground.random_states import RandomState, drawn_from, generator_devices
from gradwright.ground.torch_versions.dynamo import run_outside
from gradwright.ground.torch_versions.levels import is_transformed

Network = Callable[..., Any]
LAWS: dict[str, type[Coupling]] = {"additive": Additive, "affine": Affine}


class ReversibleBlock(nn.Module):
    """Two halves that change each other in turn, so that the inputs can be computed from the outputs.

    ``coupling`` "additive":  y1 = x1 + f(x2),             y2 = x2 + g(y1)              RevNet, eq. 6; NICE, section 3.2
    "affine", (s, t) = f(x2): y1 = x1 exp(s) + t, and so on for g                        RealNVP, eq. 4 and 5
    or a ``Coupling`` of your own. Without ``g``, y2 is x2.

    ``f`` and ``g``: modules, or functions that hold nothing to be learnt. They are called once in the forward and once
    in the backward, with the same random numbers, the same buffers and under the same autocast; forward hooks on them
    and their submodules run both times, backward hooks once. They may not change their input in place.

    Shapes: x1 and y1 alike, x2 and y2 alike; f(x2) broadcasts to x1, g(y1) to x2. Dtype, device: one, kept.
    Cost, errors, limits: see ``reversible``.

    >>> block = ReversibleBlock(nn.Linear(3, 3), nn.Linear(3, 3))
    >>> x1, x2 = torch.randn(2, 4, 3)
    >>> y1, y2 = block(x1, x2)
    >>> [bool(torch.allclose(found, x, atol=1e-6)) for found, x in zip(block.inverse(y1, y2), (x1, x2))]
    [True, True]
    """

    def __init__(
        self, f: Network, g: Network | None = None, *, coupling: Literal["additive", "affine"] | Coupling = "additive"
    ) -> None:
        super().__init__()
        for name, network in (("f", f), ("g", g)):
            if not callable(network) and (network is not None or name == "f"):
                raise UsageError(f"ReversibleBlock: {name} is a {type(network).__name__}, not a module or a function")
        law = LAWS[coupling]() if isinstance(coupling, str) and coupling in LAWS else coupling
        if not isinstance(law, Coupling):
            raise UsageError(f"coupling is {coupling!r}\n  do     one of {', '.join(map(repr, LAWS))}, or a Coupling")
        self.f, self.g, self.coupling = f, g, law

    def steps(self, whose: str = "") -> list[Step]:
        """The block as half-steps; ``whose`` is added to their names."""
        networks = [(self.f, "f"), (self.g, "g")]
        return [
            Step(network, self.coupling, changes, name + whose)
            for changes, (network, name) in enumerate(networks)
            if network is not None
        ]

    def forward(self, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
        return _through(x1, x2, self.steps(), "sampled", None)

    def inverse(self, y1: Tensor, y2: Tensor) -> tuple[Tensor, Tensor]:
        """(x1, x2), as plain torch: differentiable, and with the memory of plain autograd."""
        return _inverse(y1, y2, self.steps())

    def extra_repr(self) -> str:
        return f"coupling={self.coupling!r}"


class ReversibleSequence(nn.Module):
    """Reversible blocks one after the other, as a module of (x1, x2): see ``reversible``.

    >>> network = ReversibleSequence(ReversibleBlock(nn.Linear(3, 3), nn.Linear(3, 3)) for _ in range(5))
    >>> y1, y2 = network(torch.randn(4, 3), torch.randn(4, 3))
    >>> (y1 * y2).sum().backward()
    >>> network.blocks[0].f.weight.grad.shape
    torch.Size([3, 3])
    """

    def __init__(
        self, blocks: Iterable[ReversibleBlock], *, check_inverse: Extent = "sampled", tolerance: float | None = None
    ) -> None:
        super().__init__()
        blocks = list(blocks)
        require_blocks(blocks, ReversibleBlock)
        require_options(check_inverse, tolerance)
        self.blocks = nn.ModuleList(blocks)
        self.check_inverse: Extent = check_inverse
        self.tolerance = tolerance

    def forward(self, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
        return reversible(x1, x2, self._blocks(), check_inverse=self.check_inverse, tolerance=self.tolerance)

    def inverse(self, y1: Tensor, y2: Tensor) -> tuple[Tensor, Tensor]:
        """(x1, x2), as plain torch: differentiable, and with the memory of plain autograd."""
        return _inverse(y1, y2, _steps(self._blocks()))

    @torch.no_grad()
    def inverse_errors(self, x1: Tensor, x2: Tensor) -> list[float]:
        """How well every block's input is reconstructed from the outputs of the whole network; first block first.

        The largest error over all entries, relative to the largest entry before and after: what ``check_inverse``
        holds against the tolerance. Random numbers, running statistics and gradients stay as they are.
        Cost: a forward, an inverse and the memory of all states.

        >>> network = ReversibleSequence(ReversibleBlock(nn.Tanh(), nn.Tanh()) for _ in range(3))
        >>> all(error < 1e-6 for error in network.inverse_errors(torch.randn(4, 3), torch.randn(4, 3)))
        True
        """
        steps = _steps(self._blocks())
        with exclusive(), drawn_from(RandomState.now(generator_devices(x1, x2))):
            held = [Holdings.of(step.network) for step in steps]
            buffers = [place for one in held for place in (*one.buffers, *one.running)]
            copies = {id(buffer): buffer.clone() for _, _, buffer in buffers}
            with replaced([(table, name, copies[id(buffer)]) for table, name, buffer in buffers]):
                plan = Plan.of(steps, "full", None, x1, x2)
                passage, halves = Passage(plan, plan.learnt, x1, x2), [x1, x2]
                passage.forward(halves)
                back = WayBack(passage, halves, [None, None], passage.saved)
                back.go()
        worst = [0.0] * len(self.blocks)
        owner = [number for number, block in enumerate(self._blocks()) for _ in block.steps()]
        for number, error in zip(owner, back.comparison.errors(), strict=True):
            worst[number] = max(worst[number], error)
        return worst

    def _blocks(self) -> list[ReversibleBlock]:
        return list(self.blocks)  # type: ignore[arg-type]  # a ModuleList of what require_blocks let in

    def extra_repr(self) -> str:
        return f"check_inverse={self.check_inverse!r}, tolerance={self.tolerance}"


def reversible(
    x1: Tensor,
    x2: Tensor,
    blocks: Iterable[ReversibleBlock],
    *,
    check_inverse: Extent = "sampled",
    tolerance: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(x1, x2) through reversible ``blocks``, keeping no activations: the backward computes them from the outputs.

    The gradient is the derivative, at the reconstructed activations. The backward compares these with what the forward
    kept of them ("sampled": 64 entries of every half that changed; "full": all of it, for tests; "off": nothing) and
    raises if they are off by more than ``tolerance``, relative to their size (None: √eps, 3.5e-4 in float32).
    Rounding errors grow with depth: in float32 to 4e-7 in 10 and 5e-7 in 1000 blocks that enlarge little
    (benchmarks/does_memory_stay_flat_with_depth.py), without bound where f and g enlarge.
    ``ReversibleSequence.inverse_errors`` measures them.

    Shapes, dtype, device: outputs like inputs; see ``ReversibleBlock``.
    Memory: the outputs; whatever the depth, no activations. A step adds 0.25 kB of samples in float32; one that draws
    random numbers the generators' states (5 kB for the CPU); one that updates buffers a copy of these. The gradients
    of all parameters are complete together, at the end of the backward. On a CPU, glibc keeps freed memory in pieces
    too small to be used again, here as under a checkpoint; MALLOC_MMAP_THRESHOLD_=65536 in the environment stops that.
    Cost: f and g are evaluated once more in the backward; without gradients nothing but f and g.
    Derivatives: all orders (``create_graph``, then with the memory of plain autograd); batched cotangents. Under
    torch.func, vmap and forward mode the blocks run as plain torch: right, with plain torch's memory.
    torch.compile leaves it out (a graph break; ``fullgraph=True`` raises); f and g may be compiled themselves.
    Raises: UsageError for what can't be right: an f that changes its input in place, changes shape or dtype, or learns
    something that is none of its parameters; hooks on a block (set them on f and g); another mode (train, eval) in the
    backward. GradientError, if the reconstruction is off. RuntimeError from autograd, if outputs, parameters or
    buffers are changed in place before the backward.
    Source: Gomez et al. 2017 (arXiv:1707.04585), eq. 6 and 7, Algorithm 1; the derivation stands in engine.py.

    >>> blocks = [ReversibleBlock(torch.sin, torch.cos) for _ in range(100)]
    >>> x = torch.zeros(2, requires_grad=True)
    >>> y1, y2 = reversible(x, torch.ones(2), blocks)
    >>> y1.sum().backward()
    >>> x.grad.shape
    torch.Size([2])
    """
    blocks = list(blocks)
    require_blocks(blocks, ReversibleBlock)
    require_options(check_inverse, tolerance)
    return _through(x1, x2, _steps(blocks), check_inverse, tolerance)


def _steps(blocks: Sequence[ReversibleBlock]) -> list[Step]:
    return [step for number, block in enumerate(blocks) for step in block.steps(f" of block {number}")]


def _through(
    x1: Tensor, x2: Tensor, steps: Sequence[Step], check_inverse: Extent, tolerance: float | None
) -> tuple[Tensor, Tensor]:
    if not torch.is_grad_enabled():
        return _plain(x1, x2, steps)
    if torch.compiler.is_compiling() or "torch._dynamo" in sys.modules:  # else nothing here is being compiled
        return _recorded_outside_dynamo(x1, x2, steps, check_inverse, tolerance)
    return _recorded(x1, x2, steps, check_inverse, tolerance)


def _plain(x1: Tensor, x2: Tensor, steps: Sequence[Step]) -> tuple[Tensor, Tensor]:
    require_halves(x1, x2)
    halves = [x1, x2]
    for step in steps:
        step.forward(halves)
    return halves[0], halves[1]


def _inverse(y1: Tensor, y2: Tensor, steps: Sequence[Step]) -> tuple[Tensor, Tensor]:
    require_halves(y1, y2)
    halves = [y1, y2]
    for step in reversed(steps):
        step.inverse(halves)
    return halves[0], halves[1]


def _recorded(
    x1: Tensor, x2: Tensor, steps: Sequence[Step], check_inverse: Extent, tolerance: float | None
) -> tuple[Tensor, Tensor]:
    if is_transformed():
        return _plain(x1, x2, steps)
    require_halves(x1, x2)
    require_no_cache()
    plan = Plan.of(steps, check_inverse, tolerance, x1, x2)
    require_shapes(plan.learnt)
    if not steps or not (plan.learnt or x1.requires_grad or x2.requires_grad):
        return _plain(x1, x2, steps)
    y1, y2 = ReversibleFunction.apply(plan, x1, x2, *plan.learnt)  # type: ignore[no-untyped-call]  # torch has no types
    return y1, y2


# As torch's own checkpoint does it: torch.compiler.disable would import Dynamo here, which takes seconds.
_recorded_outside_dynamo = run_outside(_recorded)
