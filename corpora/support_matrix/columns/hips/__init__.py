"""HIPS autograd, `@primitive` and `defvjp`: programs of its own, by the names of the rows."""

from .derivatives import *  # noqa: F403
from .structure import *  # noqa: F403

_VMAP, _COMPILE, _AMP = "no vmap", "no compiler", "no autocast: the author casts"
NOT_OFFERED = {
    **dict.fromkeys(("vmap", "vmap_unbatched", "per_sample", "numpy_per_sample", "c_per_sample"), _VMAP),
    **dict.fromkeys(("compiled", "compiled_dynamic", "compiled_func_grad", "compiled_per_sample"), _COMPILE),
    **dict.fromkeys(("compiled_func_grad_in_parts", "numpy_compiled", "c_compiled"), _COMPILE),
    **dict.fromkeys(("amp", "amp_asked"), _AMP),
    "jacfwd": "no such operator",
    "in_place": "there is no way to say so",
    "view_out": "traced arrays can't be written to",
    "ddp": "DDP is torch's",
    "saved_bytes": "no such hooks",
    "residual": "a primitive hands nothing over: the mask is made again",
    "input_called_output": "names mean nothing to it",
}
