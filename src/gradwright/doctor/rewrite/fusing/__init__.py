"""What a loop became is a chain of elementwise operations: as one function of torch's, or as one formula.

``chains`` reads it as a formula. ``known`` tells by its values which function that is, ``operands`` whether the
function takes these tensors, ``writing`` puts the call in its place; ``formulas`` does so with a formula beside it.
"""

from gradwright.doctor.rewrite.fusing.formulas import with_formula
from gradwright.doctor.rewrite.fusing.writing import with_known_functions

__all__ = ["with_formula", "with_known_functions"]
