"""Functions that do to each element of a tensor what they do to one element alone; and what they need of it."""

from __future__ import annotations

from gradwright.doctor.source.names import words

# Defined, with a finite derivative, for all numbers: torch.where may compute them where the loop did not.
SMOOTH = words(
    "abs absolute neg negative positive sin cos tanh sigmoid relu square erf atan arctan asinh arcsinh sign sgn "
    "softplus logsigmoid heaviside maximum minimum fmax fmin clamp clip clamp_min clamp_max hardtanh relu6 leaky_relu "
    "add sub subtract mul multiply rsub isnan isinf isfinite floor ceil trunc round frac silu gelu elu selu mish "
    "logaddexp deg2rad rad2deg lerp hardsigmoid hardswish softsign tanhshrink celu"
)
# With a finite derivative at infinity, too.
FLAT = words(
    "abs absolute neg negative positive relu sign clamp clip clamp_min clamp_max maximum minimum add sub isnan"
)
# What to compute instead where the loop computes nothing.
INSTEAD = {
    "sqrt": 1, "rsqrt": 1, "reciprocal": 1, "log": 1, "log1p": 0, "log2": 1, "log10": 1, "exp": 0, "expm1": 0,
    "exp2": 0, "asin": 0, "arcsin": 0, "acos": 0, "arccos": 0, "atanh": 0, "arctanh": 0, "acosh": 2, "arccosh": 2,
    "tan": 0, "sinh": 0, "cosh": 0, "erfinv": 0, "erfc": 0, "lgamma": 1, "digamma": 1, "logit": 0.5, "pow": 1,
    "float_power": 1, "i0": 0, "sinc": 1,
}  # fmt: skip
WITH_TWO = {"div": 1, "divide": 1, "true_divide": 1, "atan2": 1, "arctan2": 1, "hypot": 1, "xlogy": 1, "fmod": 1,
            "remainder": 1, "floor_divide": 1}  # fmt: skip
COMPARISONS = words("eq ne lt le gt ge isclose logical_and logical_or logical_not logical_xor")
TO_BOOL = COMPARISONS | words("isnan isinf isfinite")
ELEMENTWISE = SMOOTH | frozenset(INSTEAD) | frozenset(WITH_TWO) | COMPARISONS
OF_MATH = {
    name: name
    for name in words(
        "exp expm1 sqrt log log1p log2 log10 sin cos tan tanh sinh cosh asinh erf erfc lgamma isnan isinf isfinite "
        "hypot atan2 asin acos atan atanh acosh pow fabs"
    )
} | {"fabs": "abs", "degrees": "rad2deg", "radians": "deg2rad", "gamma": ""}  # fmt: skip
DTYPES = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64",
          "int": "int32", "short": "int16", "bool": "bool"}  # fmt: skip
# torch.nn's, by class: they do to rows what they do to one.
MODULES = words("Linear Identity ReLU Sigmoid Tanh GELU SiLU Softplus ELU LeakyReLU Hardtanh ReLU6 Softsign LogSigmoid")
PURE_BUILTINS = words("len abs min max float int bool round sum range tuple")
IMPURE = words(
    "rand randn randint rand_like randn_like randperm bernoulli multinomial normal dropout manual_seed save load"
)
# Those that give a pair of tensors, by the names of its parts.
PAIR = {part: words("topk sort max min cummax cummin") for part in ("values", "indices")}
