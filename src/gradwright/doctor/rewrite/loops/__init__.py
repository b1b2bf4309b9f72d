"""The loop compiler: a loop over elements or rows becomes array code.

``reading`` (Python's syntax tree -> the loop IR of ``ir``) -> ``dependence`` -> ``schedule`` (which loops may be taken
at once) -> ``writers`` (a scheduled statement -> readable torch source) -> a Proposal. No template looks at names.
"""

from gradwright.doctor.rewrite.loops.compiling import compile_loop
from gradwright.doctor.rewrite.loops.inner import compile_inner

__all__ = ["compile_inner", "compile_loop"]
