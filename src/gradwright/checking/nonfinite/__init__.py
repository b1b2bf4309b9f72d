"""Where NaN or inf begins, told with its cause.

NOTE [origins]: each tensor that is not finite has an origin, the operation that was finite in and not finite out. A
result takes over the origin of its operands; a finite result of operands that are not ends it (a mask of -inf behind a
softmax). What was written down as inf is meant; a NaN that is made of it begins anew. An origin is told when its value
reaches a loss that backward is called on, or the gradient of a leaf: what is masked out on the way harms nobody.
"""

from gradwright.checking.nonfinite.explain import explain_nonfinite
from gradwright.checking.nonfinite.origins import NonfiniteBegin
from gradwright.checking.nonfinite.watch import NonfiniteWatch

__all__ = ["NonfiniteBegin", "NonfiniteWatch", "explain_nonfinite"]
