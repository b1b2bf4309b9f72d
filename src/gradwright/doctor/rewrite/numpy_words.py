"""What numpy's functions, methods and dtypes are called in torch, where they mean the same."""

from __future__ import annotations

from gradwright.doctor.source.names import words


def _same(names: str) -> dict[str, str]:
    return {name: name for name in words(names)}


# Of one array, or of arrays and numbers; their other arguments stand in the same order.
OF_ONE = _same(
    "exp exp2 expm1 log log2 log10 log1p sqrt square sin cos tan sinh cosh tanh floor ceil trunc sign isnan isinf "
    "isfinite reciprocal negative logical_not deg2rad rad2deg conj real imag diff tril triu roll tile flip sinc signbit"
) | {
    "abs": "abs", "absolute": "abs", "fabs": "abs", "arcsin": "arcsin", "arccos": "arccos", "arctan": "arctan",
    "arcsinh": "arcsinh", "arccosh": "arccosh", "arctanh": "arctanh", "squeeze": "squeeze", "reshape": "reshape",
    "diag": "diag", "trace": "trace", "expand_dims": "unsqueeze", "repeat": "repeat_interleave", "clip": "clamp",
}  # fmt: skip
OF_TWO = _same(
    "outer matmul logaddexp hypot logical_and logical_or logical_xor fmod remainder equal not_equal greater "
    "greater_equal less less_equal add subtract multiply divide true_divide kron inner"
) | {"power": "pow", "float_power": "float_power", "arctan2": "arctan2", "dot": "matmul", "cross": "linalg.cross"}
# With a number in place of the second array they are a bound.
BOUNDS = {"maximum": "min", "minimum": "max"}
REDUCTIONS = _same("sum mean prod argmax argmin any all nansum nanmean") | {
    "max": "amax", "amax": "amax", "min": "amin", "amin": "amin", "std": "std", "var": "var",
}  # fmt: skip
RUNNING = _same("cumsum cumprod")
OF_MANY = _same("stack vstack hstack dstack column_stack") | {"concatenate": "cat"}
ALIKE = words("zeros_like ones_like full_like empty_like")
LINALG = _same("linalg.norm linalg.inv linalg.solve linalg.det linalg.cholesky linalg.pinv linalg.matrix_power")
FFT = _same(
    "fft.fft fft.ifft fft.rfft fft.irfft fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 fft.fftn fft.ifftn fft.fftshift"
)
PASSED = OF_ONE | OF_TWO | REDUCTIONS | LINALG | FFT

METHODS = _same("sum mean prod argmax argmin any all std var reshape squeeze flatten round conj trace") | {
    "max": "amax", "min": "amin", "dot": "matmul", "ravel": "flatten", "copy": "clone", "clip": "clamp",
    "repeat": "repeat_interleave",
}  # fmt: skip
KEYWORDS = {"axis": "dim", "keepdims": "keepdim", "ddof": "correction", "axes": "dim", "n": "n", "norm": "norm"}
# Of torch's functions, what moves along axes calls them otherwise.
AXES = {"roll": "dims", "flip": "dims", "unsqueeze": "dim"}

DTYPES = {
    "float16": "float16", "half": "float16", "float32": "float32", "single": "float32", "float64": "float64",
    "double": "float64", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
    "bool": "bool", "bool_": "bool", "complex64": "complex64", "complex128": "complex128", "float": "float64",
    "int": "int64", "intp": "int64",
}  # fmt: skip
