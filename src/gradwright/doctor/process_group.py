"""What the script's process group answered when its Functions were called, for trials that come after its end.

NOTE [a group that is gone]: a script ends its process group, and is tried after it has ended. A Function that asks
(``dist.get_rank() if dist.is_initialized() else 0``) would then hear something else than in the run, and be judged for
another gradient. So trials hear the answers of the run again. Nothing is sent: there is no group.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType

_answers: dict[str, str] = {}  # by the name of the function that gives it, as source text


def note_process_group() -> None:
    """While the script runs. Cost: a microsecond; nothing is imported."""
    if _initialized():
        distributed = sys.modules["torch.distributed"]
        rank, size, backend = distributed.get_rank(), distributed.get_world_size(), str(distributed.get_backend())
        _answers.update(get_rank=repr(rank), get_world_size=repr(size), get_backend=repr(backend))


@contextlib.contextmanager
def answering_as_in_the_run() -> Iterator[None]:
    """Within, the default group is asked as if it were still there. The functions themselves answer so, for a script
    may know them by names of its own; of another group they raise ``RuntimeError``."""
    before: list[tuple[FunctionType, CodeType]] = []
    if _answers and not _initialized():
        distributed = sys.modules["torch.distributed"]
        for name, answer in {**_answers, "is_initialized": "True"}.items():
            function = getattr(distributed, name)
            if isinstance(function, FunctionType) and not function.__closure__:
                before.append((function, function.__code__))
                function.__code__ = _code("" if name == "is_initialized" else "group=None", answer)
    try:
        yield
    finally:
        for function, code in before:
            function.__code__ = code


def _initialized() -> bool:
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and bool(distributed.is_available() and distributed.is_initialized())


def _code(parameters: str, answer: str) -> CodeType:
    """Of a function that answers; ``answer`` is a literal of ours."""
    gone = "    if group is not None: raise RuntimeError('its process group is gone')\n" if parameters else ""
    made: dict[str, FunctionType] = {}
    exec(f"def asked({parameters}):\n{gone}    return {answer}\n", made)
    return made["asked"].__code__
