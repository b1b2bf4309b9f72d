"""Where the gradients of a window are summed up: in ``.grad``, or in buffers of their own."""

from gradwright.training.gradients.buffers import Buffers as Buffers
from gradwright.training.gradients.store import InPlace as InPlace
from gradwright.training.gradients.store import Store as Store
