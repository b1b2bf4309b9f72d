"""The loop compiler: a loop over elements or rows becomes array code.

``reading`` (Python's syntax tree -> the loop IR of ``ir``) -> ``dependence`` -> ``schedule`` (which loops may be taken
at once) -> ``writers`` (a scheduled statement -> readable torch source) -> a Proposal. No template looks at names.
"""

from gradwright.doctor.rewrite.loops.compiling import compile_loop

__all__ = ["compile_loop"]
