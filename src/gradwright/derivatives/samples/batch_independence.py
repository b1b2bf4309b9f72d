"""``gw.check_batch_independence``: do the samples of a batch meet between two points of a graph?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from gradwright.derivatives.graph.engine import hooks_ever, hooks_heard, pull
from gradwright.derivatives.graph.recording import recording
from gradwright.derivatives.graph.request import BatchDim, Request, read_request
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.nodes.unreadable import without_unreadable_rules
from gradwright.derivatives.samples.meeting import find_meeting
from gradwright.derivatives.samples.meeting_place import where_samples_meet
from gradwright.derivatives.samples.probe import random_cotangent
from gradwright.derivatives.samples.structure import Structure, examine_structure
from gradwright.errors import UsageError


@dataclass(frozen=True)
class Independence:
    """What is known of the samples of a batch.  True where they are independent, as far as the verdict goes.

    ``verdict``: "proved": no recorded operation lets them meet, whatever the values, and no hook spoke; "held": no two
    met in this graph, at the values it has now; "coupled".
    ``giver``, ``receiver``: where coupled, a sample and another one whose derivatives get something of it.
    ``worst``: how much the largest entry of ``receiver`` hangs on who else speaks, over its size; 0 where not coupled.
    ``where``: the step where they meet, with its line where autograd's anomaly mode recorded it; "" where not coupled.
    ``unproved``: the kinds of recorded operations that a proof hangs on; empty where proved.
    ``unseen``: how many samples were not looked at, because their derivatives are infinite or NaN.
    """

    verdict: Literal["proved", "held", "coupled"]
    worst: float = 0.0
    giver: int | None = None
    receiver: int | None = None
    where: str = ""
    unproved: tuple[str, ...] = ()
    unseen: int = 0

    def __bool__(self) -> bool:
        return self.verdict != "coupled"

    def __str__(self) -> str:
        if self.verdict == "proved":
            return "proved: no recorded operation lets one sample into another"
        if self.verdict == "held":
            hangs = f"; no proof, because of {', '.join(self.unproved)}" if self.unproved else "; no proof"
            unseen = f"; {self.unseen} samples with infinite or NaN derivatives not seen" if self.unseen else ""
            return f"held: no two samples met in this graph, at its present values{hangs}{unseen}"
        return f"coupled: sample {self.giver} reaches sample {self.receiver} ({self.worst:.1e} of its size){self.where}"


@without_unreadable_rules
def check_batch_independence(y: Tensor, z: Wrt, batch_dim: BatchDim = 0) -> Independence:
    """Whether dy[b] / dz[b'] is zero for all b' other than b: may a derivative be taken for all samples at once?

    y: [B, *K].  z: a tensor [B, *D] of y's graph, a ``GradientEdge`` or a captured output.  ``batch_dim``: where their
    batches lie, as of ``batch_jacobian``.  Any dtype; the graph, ``.grad`` and the random state stay as they were.

    First the structure of the graph is asked, which costs some microseconds a recorded operation and may prove it.
    Otherwise 2 ceil(log2 B) + 2 vjps look at this graph, at its present values, exactly: with random cotangents of some
    samples, zeros elsewhere, the rows of the silent samples have to be zero, and those of the others what they are when
    all speak (NOTE [Splits of the batch]).  Every two samples are told apart by one of these splits.  That shows
    the smallest leak, in every dtype, and a backward that is not linear.  What it can't show: a coupling that is zero
    at these values (a gate that opens later), one smaller than the dtype's rounding of a backward that is not linear,
    and second derivatives.  So "held" is a statement about this graph and no other.

    Raises: UsageError, DerivativeError as ``batch_jacobian`` does, for a y or z that are not what is said above.

    >>> import torch
    >>> z = torch.randn(8, 3, requires_grad=True)
    >>> print(check_batch_independence(z.tanh(), z))
    proved: no recorded operation lets one sample into another
    >>> bool(check_batch_independence(z - z.mean(0), z))
    False
    """
    request = read_request(y, z, batch_dim, create_graph=False)
    if request.target_axis is None:
        raise UsageError(
            "wrt belongs to all samples together (a parameter, or batch_dim=(axis of y, None)), so every sample "
            "depends on it: ask about a value that has a batch"
        )
    with recording(False):
        return _independence(request, examine_structure(request.way, 0, request.target_axis))


def _independence(request: Request, structure: Structure) -> Independence:
    if request.samples <= 1:
        return Independence("proved")
    if structure.proved and hooks_ever() == 0:
        return Independence("proved")

    def seen_from(given: Tensor) -> Tensor:
        pulled = pull(request.output, request.target, given)
        return request.batch_first(pulled).reshape(request.samples, request.column_count)

    cotangent = random_cotangent(request.output)
    with hooks_heard() as heard:
        seen = seen_from(cotangent)
    if structure.proved and heard.silent:
        return Independence("proved")
    unproved = tuple(dict.fromkeys(step.name for step in structure.open))
    meeting = find_meeting(cotangent, seen, seen_from)
    if meeting is None:
        unseen = int((~seen.isfinite().all(1)).sum())
        return Independence("held", unproved=unproved, unseen=unseen)
    where = where_samples_meet(request, structure, meeting)
    return Independence("coupled", meeting.share, meeting.giver, meeting.receiver, where, unproved)
