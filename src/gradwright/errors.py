"""The exceptions of Gradwright.

::

    GradwrightError
    ├── GradientError       a gradient was found wrong, where the caller asked for an exception (also an AssertionError)
    ├── NotConverged        a fixed point, or its backward, was not reached (functions.flow.fixed_point)
    ├── UsageError          the caller asked for something that can't be (wrong option, no such file, no tensor input)
    └── SessionError        a session file can't be read: cut off, of another schema, not a session

Each message says what happened, where, why, and what to do.
"""

from __future__ import annotations


class GradwrightError(Exception):
    """Base of every exception that Gradwright raises on purpose."""


class GradientError(GradwrightError, AssertionError):
    """A check found something; the message is its report."""


class UsageError(GradwrightError):
    """The caller asked for something that can't be done as asked."""


class SessionError(GradwrightError):
    """A session file can't be read."""
