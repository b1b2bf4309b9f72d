"""Functions that do to each element of a tensor what they do to one element alone."""

from __future__ import annotations

from gradwright.doctor.rewrite.source_text import words

# Defined, with a finite derivative, for all numbers: torch.where may compute them where the loop did not.
SMOOTH = words(
    "abs absolute neg negative positive sin cos tanh sigmoid relu square erf atan arctan asinh arcsinh sign sgn "
    "softplus logsigmoid heaviside maximum minimum fmax fmin clamp clip hardtanh relu6 leaky_relu"
)
WITH_A_DOMAIN = words(
    "exp expm1 exp2 sqrt rsqrt reciprocal log log1p log2 log10 tan asin arcsin acos arccos acosh arccosh atanh arctanh "
    "sinh cosh erfinv erfc lgamma digamma pow atan2 hypot logit silu gelu elu selu mish floor ceil trunc "
    "logaddexp xlogy isnan isinf isfinite"
)
TORCH = SMOOTH | WITH_A_DOMAIN
OF_MATH = words(
    "exp expm1 sqrt log log1p log2 log10 sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh erf erfc"
)
METHODS = words(
    "abs neg sin cos tanh sigmoid relu square exp expm1 sqrt rsqrt reciprocal log log1p log2 log10 tan pow clamp "
    "sinh cosh erf"
)
