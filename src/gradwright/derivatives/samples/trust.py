"""Why a derivative that is not a whole Jacobian is believed: a proof, or a probe that fits what is at hand.

A Laplacian, a trace or a norm is made from rows (or columns) that all samples share, and most of the Jacobian is let go
at once. What the probe compares is therefore summed up while the rows pass by (methods/rows.py).

NOTE [Probing second derivatives]: with T[b', b, b''] = d2 y[b'] / dz[b] dz[b''], rows of the Hessian that all samples
share hold the sum of T[b', b, b''] over b' and b'', which is the block of sample b alone only where T is zero for all
others. One backward through a backward, with random cotangents c and v, holds sum c[b'] v[b''] T[b', b, b'']; the block
says c[b] v[b] T. They agree for random c and v only where the other T are zero: a first derivative that happens to
vanish hides nothing.

NOTE [Probing without a Jacobian]: s[b] times row b of vjp(C) is row b of vjp(s C), where the samples don't meet; what
leaks from b' into b comes with s[b'] C[b'] in one and with s[b] C[b'] in the other, and no two s are alike. Two vjps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

import torch
from torch import Tensor

from gradwright.derivatives.graph.engine import hooks_ever, hooks_heard, pull, told
from gradwright.derivatives.graph.options import read_batch, read_options
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.samples.draws import random_like
from gradwright.derivatives.samples.meeting import largest
from gradwright.derivatives.samples.probe import compare, coupled_error, random_cotangent
from gradwright.derivatives.samples.structure import Structure, examine_structure
from gradwright.errors import UsageError

#: For normal numbers that are others than those of the random cotangent.
SEED = 0x5EED


class Trust:
    """What is known of one request. ``exact``: the caller wants the way that needs no independence.

    ``hooked``: a hook may stand on the way (until it was listened for).  ``proved``: neither the recorded operations
    nor a hook let samples meet.  ``open``: neither proved, nor nobody's business (one sample, or assumed).
    """

    def __init__(self, request: Request, batch: str) -> None:
        self.request = request
        self.exact = read_batch(batch) == "coupled" or request.target_axis is None
        self.hooked = hooks_ever() > 0
        self._asked = batch == "auto" and request.samples > 1

    @cached_property
    def structure(self) -> Structure:
        """What the recorded operations tell; not asked where each sample has backwards of its own."""
        with told(self.request.output, self.request.target):  # shapes may be read from saved tensors: a freed graph
            return examine_structure(self.request.way, 0, self.request.target_axis or 0)

    @property
    def proved(self) -> bool:
        return not self.hooked and self.structure.proved

    @property
    def open(self) -> bool:
        return self._asked and not self.proved

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen for hooks while the engine runs once over the whole way."""
        with hooks_heard() as heard:
            yield
        self.hooked = not heard.silent

    def listen(self) -> None:
        """Find out whether a hook stands on the way."""
        self.hooked = self.hooked and not hook_free(self.request)

    def confirm(self, cotangent: Tensor, seen_from: Callable[[Tensor], Tensor], said: Tensor, scale: Tensor) -> None:
        """Raises: CoupledBatch where ``seen_from(cotangent)`` is not what the shared rows ``said``, [B, D].

        Where they differ and yet no samples meet, a backward is not linear (a hook that clips): the rows are what
        their own backwards are, and that is what was asked for.
        """
        seen = compare(self.request, cotangent, seen_from, said, scale)
        if not seen.held and not seen.apart:
            raise coupled_error(self.request, self.structure, seen)

    def confirm_apart(self) -> None:
        """NOTE [Probing without a Jacobian]."""
        if self.open:
            cotangent = random_cotangent(self.request.output)
            weight = factors(self.request.samples, cotangent)
            rows = self.pulled(cotangent)
            said = weight.to(rows.dtype)[:, None] * rows
            scaled = cotangent * weight.reshape(-1, *[1] * len(self.request.rows))
            self.confirm(scaled, self.pulled, said, largest(said))

    def pulled(self, cotangent: Tensor) -> Tensor:
        """The vjp of the output, [B, D]."""
        made = pull(self.request.output, self.request.target, cotangent, create_graph=self.request.create_graph)
        return by_sample(self.request, made)


def factors(count: int, like: Tensor) -> Tensor:
    """A number between 0.5 and 2 for each sample, [count]: evenly spread, so that no two are nearly the same, in random
    order."""
    order = random_like(like.new_empty(count, dtype=torch.float64), SEED).argsort()
    return (0.5 + 1.5 * order / max(count, 1)).to(like.dtype)


def hook_free(request: Request) -> bool:
    """No hook stands on the way.  Cost: nothing where none was ever registered in this process, otherwise one vjp.

    For a way of known nodes: a backward written in Python is heard as a hook is.
    """
    if not hooks_ever():
        return True
    with hooks_heard() as heard:
        pull(request.output, request.target, random_cotangent(request.output))
    return heard.silent


def by_sample(request: Request, pulled: Tensor) -> Tensor:
    """A cotangent of the target as [B, D]."""
    return request.batch_first(pulled).reshape(request.samples, request.column_count)


def placed(request: Request, samples: Tensor) -> Tensor:
    """[B, D] laid out as the target is: the inverse of ``by_sample``."""
    assert request.target_axis is not None
    return samples.reshape(request.samples, *request.columns).movedim(0, request.target_axis)


def real_only(request: Request, name: str) -> None:
    """Raises: UsageError where ``y`` or ``wrt`` is complex."""
    if request.output.is_complex() or request.target.dtype.is_complex:
        raise UsageError(
            f"gw.{name} is for real y and wrt; here they are {request.output.dtype} and {request.target.dtype}. "
            "Differentiate with respect to torch.view_as_real(z), and take real outputs"
        )


def read_chunk(chunk_size: int | None) -> int | None:
    """The option, judged.  Raises: UsageError."""
    return read_options("auto", "auto", None, chunk_size, None).chunk_size
