"""A corpus of custom Functions, right and spoiled, made from torch's own operators; and the judges asked about them.

>>> from corpus import case
>>> item = case("sin", 0, opaque=True, spoiler="sign")    # or case("sin | 0 | opaque | sign")
>>> Function, args = item.build(), item.args()            # a fresh class, fresh leaves
"""

from corpus.cases import Case, case, right_cases, shipped_cases, spoiled_cases
from corpus.judges import JUDGES, Verdict, judged
from corpus.operators import operator_names
from corpus.spoilers import all_spoilers

__all__ = [
    "JUDGES",
    "Case",
    "Verdict",
    "all_spoilers",
    "case",
    "judged",
    "operator_names",
    "right_cases",
    "shipped_cases",
    "spoiled_cases",
]
