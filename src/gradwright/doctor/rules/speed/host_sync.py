"""What it finds
    Calls that make the script wait for the GPU, in every step of a training loop: `item()`, `cpu()`, `tolist()`,
    `float(t)`, `bool(t)` (an `if` on a tensor), `print(t)`, `nonzero()`, a boolean mask as an index. They are counted
    and timed in eight steps from the seventeenth on: eight calls a step, or two hundredths of the step spent in them.

Why it matters
    A GPU works through what it was sent while Python sends more. Who asks for a value, or for something whose shape
    hangs on values, waits until all of it is done; meanwhile nothing new is sent, and the GPU stands idle after it.

When it is fine
    Where the value decides what comes next (an environment's action, early stopping), and where the GPU is so busy that
    it never runs dry: the time told is time waited, and only some of it can be saved. What happens every other step or
    less often is not reported.

The fix
    Sum up on the GPU (`total += loss.detach()`) and read the sum every so many steps; `torch.stack(values).tolist()`
    reads many at once. `torch.where(mask, x, 0)` in place of `x[mask]` keeps the shape.

References
    "Avoid unnecessary CPU-GPU synchronization" in PyTorch's performance tuning guide;
    `torch.cuda.set_sync_debug_mode`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import duration
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import HostSync
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW317", "host-sync", "info", needs=(HostSync,))

_REGULAR = 0.75  # of the steps
_OFTEN, _SHARE, _FELT = 8, 0.02, 0.1
_SHAPES = ("a boolean mask", "nonzero()", "argwhere()", "where()", "masked_select()")
_MOST = 4


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    found = [sync for sync in facts.of(HostSync) if sync.seen_in >= _REGULAR * sync.steps]
    if not found:
        return
    found.sort(key=lambda sync: (-_felt(sync), -sync.calls, sync.location.line))
    first = found[0]
    often = sum(sync.calls for sync in found) / first.steps
    seconds = sum(sync.seconds for sync in found) / first.steps
    if often < _OFTEN and seconds < _SHARE * first.step_seconds:
        return
    yield RULE.finding(
        subject,
        at=first.location,
        message=f"the script waits for the GPU {_times(often)} in each step, "
        f"{duration(seconds)} of the {duration(first.step_seconds)} that a step takes",
        why=f"In steps {first.first_step + 1} to {first.first_step + first.steps}: {_listed(found)}. Each waits until "
        "the GPU has done all that it was sent, and sends it nothing meanwhile.",
        hints=_hints(found),
        evidence=[sync.id for sync in found],
    )


def _felt(sync: HostSync) -> float:
    """The seconds of a call that a step is longer for; of those that hardly wait the count says more."""
    return sync.seconds if sync.seconds >= _FELT * sync.steps * sync.step_seconds else 0.0


def _listed(found: list[HostSync]) -> str:
    told = [
        f"{sync.call} at {sync.location.path}:{sync.location.line}, {_times(sync.calls / sync.steps)} a step, "
        f"{duration(sync.seconds / sync.steps)}"
        for sync in found[:_MOST]
    ]
    left = len(found) - _MOST
    return "; ".join(told) + (f"; and {left} more" if left > 0 else "")


def _hints(found: list[HostSync]) -> list[str]:
    hints = []
    if any(sync.call not in _SHAPES for sync in found):
        hints.append(
            "keep numbers as tensors (total += loss.detach()) and read them every so many steps, all at once: "
            "torch.stack(values).tolist()"
        )
    if any(sync.call in _SHAPES for sync in found):
        hints.append("keep the shape: torch.where(mask, x, 0) in place of x[mask], and divide by mask.sum()")
    return hints


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:.3g} times"
