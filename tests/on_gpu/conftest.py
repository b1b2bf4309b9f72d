"""Kernels that import Triton: a file without tests, which doctests must not import where there is none."""

collect_ignore = ["triton_kernels.py"]
