"""What the engine asks of a backward beside the values: one gradient per input, of its shape, dtype and device.

The engine repairs much of this in silence: it sums what is too large (``sum_to``), casts, and drops a gradient that
nobody wants. So it is looked at before it does. Hooks come too late, after ``validate_outputs`` (engine.cpp); but the
engine calls a backward by its node's attribute ``apply`` (python_function.cpp, ``PyNode::apply``), and that can be
stood in for on the one node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from gradwright.checking.chance import signed
from gradwright.checking.context import FunctionType, bound_arguments, run_backward, run_forward
from gradwright.checking.copies import fresh_copy
from gradwright.checking.enginecall import CustomNode, call, custom_nodes, draw_cotangents, hand_out, receiving
from gradwright.checking.trial import HALF, quiet
from gradwright.ground.torch_versions.nodes import output_metadata

Fault = Literal["number of gradients", "shape", "dtype", "device"]


@dataclass(frozen=True)
class Breach:
    """One way in which what a backward returned is not what the engine asks for.

    ``position``: which of the forward's inputs it concerns, -1 if none. ``returned`` and ``expected`` in words.
    ``repaired``: the engine goes on; else it raises. ``left_to_engine``: a shape that broadcasting in the forward
    explains; torch's engine takes the sum for the backward, which its own examples count on. ``function``: the name of
    the one whose backward it was.
    """

    fault: Fault
    returned: str
    expected: str
    repaired: bool
    position: int = -1
    function: str = ""
    left_to_engine: bool = False


def count_gradients(
    function: FunctionType, args: Sequence[Any], wanted: Sequence[bool], *, seed: int = 0
) -> tuple[int, int] | None:
    """(expected, returned): how many inputs the forward takes, how many gradients the backward returns for them.

    As torch counts (python_function.cpp, ``PyNode::apply``): surplus gradients are cut off where all of them are
    ``None``, so trailing ``None`` beyond the inputs are not counted. ``None`` if it can't be told, because forward or
    backward raises when called directly. Cost: one forward, one backward.
    """
    try:
        expected, returned = _returned_directly(function, args, wanted, seed)
    except Exception:  # the Function is someone else's code; its exceptions are told elsewhere
        return None
    count = len(returned)
    if count > expected and all(surplus is None for surplus in returned[expected:]):
        count = expected
    return expected, count


def _returned_directly(
    function: FunctionType, args: Sequence[Any], wanted: Sequence[bool], seed: int
) -> tuple[int, tuple[Any, ...]]:
    with quiet(HALF, seed), torch.no_grad():
        copied = fresh_copy(args).args
        expected = len(bound_arguments(function, copied))
        _, ctx = run_forward(function, copied, wanted)
        generator = torch.Generator().manual_seed(seed)
        cotangents = [
            None if output is None else signed(output.shape, generator).to(output.device, output.dtype)
            for output in ctx.outputs
        ]
        return expected, run_backward(function, ctx, cotangents)


# --- through the engine ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Returned:
    """What the backwards of one call did wrong, and what that call's backward raised, if it did."""

    breaches: tuple[Breach, ...]
    raised: Exception | None


def look_at_backward(
    subject: Any, args: Sequence[Any], wanted: Sequence[int], *, seed: int = 0, used: Sequence[bool] | None = None
) -> Returned:
    """Call ``subject`` once, forward and backward, and look at what every custom node in its graph returns.

    Cost: one forward, one backward. Raises: what the forward raises.
    """
    breaches: list[Breach] = []
    raised = None
    with quiet(HALF, seed), torch.enable_grad():
        handed = hand_out(args, wanted)
        outputs = receiving(subject, call(subject, handed.args), used)
        nodes = custom_nodes(outputs)
        for item in nodes:
            inputs = tuple(handed.args) if item.function is subject else ()
            item.node.apply = _observed(item, inputs, breaches)
        try:
            if nodes:
                cotangents = draw_cotangents(outputs, seed)
                torch.autograd.grad(outputs, list(handed.targets.values()), cotangents, allow_unused=True)
        except Exception as error:  # the backward is someone else's code
            raised = error
            if "was not a Variable" in str(error) and not any(not breach.repaired for breach in breaches):
                # an inner Function's, whose inputs are not known here
                breaches.append(Breach("number of gradients", "a gradient", "None: the input is no tensor", False))
        finally:
            for item in nodes:
                del item.node.apply
    return Returned(tuple(dict.fromkeys(breaches)), raised)


def _observed(item: CustomNode, inputs: tuple[Any, ...], breaches: list[Breach]) -> Callable[..., Any]:
    """The node's ``apply``, by which the engine calls the backward, with a look at what it returns."""
    original = item.node.apply

    def apply(*cotangents: Any) -> Any:
        result = original(*cotangents)
        arrived = {tuple(cotangent.shape) for cotangent in cotangents if isinstance(cotangent, Tensor)}
        breaches.extend(_breaches(item, inputs, arrived, result if isinstance(result, tuple) else (result,)))
        return result

    return apply


def _breaches(
    item: CustomNode, inputs: tuple[Any, ...], arrived: set[tuple[int, ...]], returned: tuple[Any, ...]
) -> Iterator[Breach]:
    """``inputs``: what the forward was handed, as far as it is known; needed ones are known from the edges.
    ``arrived``: the shapes of the cotangents."""
    needs = item.node.needs_input_grad
    expected = len(needs)
    if len(returned) < expected or any(surplus is not None for surplus in returned[expected:]):
        yield Breach("number of gradients", str(len(returned)), str(expected), False, function=item.name)
        return
    edges = iter([edge for edge in item.node.next_functions if edge[0] is not None])
    for position, (need, gradient) in enumerate(zip(needs, returned, strict=False)):
        node, slot = next(edges, (None, 0)) if need else (None, 0)
        if gradient is None:
            continue
        if node is None:
            if position < len(inputs):
                yield from _unasked(inputs[position], position, item.name)
        elif not isinstance(gradient, Tensor):
            kind = type(gradient).__name__
            yield Breach("dtype", f"a {kind}", "a tensor or None", False, position, item.name)
        else:
            yield from _compared(gradient, output_metadata(node)[slot], arrived, position, item.name)


def _unasked(value: Any, position: int, function: str) -> Iterator[Breach]:
    if not isinstance(value, Tensor):
        none = f"None: a {type(value).__name__} has no gradient"
        yield Breach("number of gradients", "a gradient", none, False, position, function)
    elif not (value.is_floating_point() or value.is_complex()):
        none = f"None: a tensor of {value.dtype} has no gradient"
        yield Breach("number of gradients", "a gradient", none, True, position, function)


def _compared(
    gradient: Tensor, asked: Any, arrived: set[tuple[int, ...]], position: int, function: str
) -> Iterator[Breach]:
    if asked.is_nested_tensor or gradient.is_nested:
        return
    shape, returned = tuple(asked.shape), tuple(gradient.shape)
    if returned != shape:
        summed = _expands_to(shape, returned)
        broadcast = summed and returned in arrived
        yield Breach("shape", str(returned), str(shape), summed, position, function, left_to_engine=broadcast)
    if gradient.dtype != asked.dtype:
        repaired = asked.dtype.is_complex or not gradient.is_complex()
        yield Breach("dtype", str(gradient.dtype), str(asked.dtype), repaired, position, function)
    if gradient.device != asked.device:
        yield Breach("device", str(gradient.device), str(asked.device), gradient.dim() == 0, position, function)


def _expands_to(shape: tuple[int, ...], larger: tuple[int, ...]) -> bool:
    """Can a tensor of ``shape`` be expanded to ``larger``? Then the engine sums the gradient back.

    >>> _expands_to((1, 3), (2, 4, 3)), _expands_to((4,), (2,))
    (True, False)
    """
    if len(shape) > len(larger):
        return False
    aligned = larger[len(larger) - len(shape) :]
    return all(size in (1, wide) for size, wide in zip(shape, aligned, strict=True))
