"""Which of many ways to ask a thing it was that went wrong."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def asking(**how: object) -> Iterator[None]:
    """What is raised within is noted with how it was asked: a law that asks in a loop tells by itself only its line."""
    try:
        yield
    except BaseException as error:  # that of ``pytest.fail`` is no Exception
        error.add_note("asked with " + ", ".join(f"{name} = {value}" for name, value in how.items()))
        raise
