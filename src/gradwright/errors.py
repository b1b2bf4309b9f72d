"""The exceptions of Gradwright.

::

    GradwrightError
    ├── AccumulationError   an update can't be made of a window as asked; rank and window are named (RuntimeError too)
    │   ├── CoupledLoss         a loss of a whole batch was to be summed up over micro-batches
    │   ├── NonFiniteGradient   the gradient of a window is NaN or infinite
    │   └── RankLost            a rank did not answer in time
    ├── DerivativeError     derivatives of a graph can't be had as asked: freed, changed in place, no way to the target
    │   ├── CoupledBatch        the samples of the batch are not independent of one another
    │   └── NoSecondDerivative  a node on the way can't be differentiated twice
    ├── GradientError       a gradient was found wrong, where the caller asked for an exception (also an AssertionError)
    ├── NotConverged        a fixed point, or its backward, was not reached (functions.flow.fixed_point)
    ├── UsageError          the caller asked for something that can't be (wrong option, no such file, no tensor input)
    │   ├── GradientNotImplemented  a custom_gradient says it has none for this input (NotImplementedError too)
    │   └── UnsupportedTorch        this torch lacks what is needed for it (NotImplementedError too)
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


class UnsupportedTorch(UsageError, NotImplementedError):
    """The torch that is installed lacks, or does in another way, what was asked for."""


class SessionError(GradwrightError):
    """A session file can't be read."""


class AccumulationError(GradwrightError, RuntimeError):
    """An update can't be made of a window of micro-batches."""


class CoupledLoss(AccumulationError):
    """The value of a loss does not split into the samples of its batch, so micro-batches can't be summed up."""


class NonFiniteGradient(AccumulationError):
    """The gradient of a window is NaN or infinite; no step was made of it."""


class RankLost(AccumulationError):
    """A rank did not answer within the time limit, or died."""


class DerivativeError(GradwrightError, RuntimeError):
    """A graph does not give the derivatives that were asked for."""


class CoupledBatch(DerivativeError):
    """Samples of a batch meet, so that one backward for all of them would be wrong."""


class NoSecondDerivative(DerivativeError):
    """A node on the way has no second derivative, and one is needed."""
