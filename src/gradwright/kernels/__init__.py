"""Scalar formulas as kernels: one pass over memory for a value and its gradients.

The rooms, from below: ``formula`` (what is computed, and its derivatives), ``code`` (as source text), ``machine``
(machine code, its cache, threads), ``launch`` (on tensors), ``autograd`` (differentiable), ``calls`` (what a user hands
over), ``elementwise`` (the function they call). Beside them ``freed_memory``: ``retain_freed_memory``.
"""
