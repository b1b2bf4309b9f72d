"""The rows, in the order of the page. Each program takes a torch column's functions and returns (got, right)."""

from . import derivatives, transforms, compiled, numbers, structure, mutation, life, opaque, memory, definition  # noqa: F401, I001
