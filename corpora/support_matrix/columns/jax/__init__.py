"""jax.custom_vjp, double precision, `jax.jit` for compile: programs of its own, by the names of the rows."""

from .derivatives import *  # noqa: F403
from .opaque import *  # noqa: F403
from .structure import *  # noqa: F403

_ARRAYS = "arrays can't be written to"
_AMP = "no autocast: the author casts"
_PROCESS = "DDP is torch's"
NOT_OFFERED = {
    "forward_mode_given": "a custom_vjp takes no jvp (custom_jvp is another thing)",
    "amp": _AMP,
    "amp_asked": _AMP,
    "overwritten": _ARRAYS,
    "output_overwritten": _ARRAYS,
    "in_place": _ARRAYS,
    "in_place_untold": _ARRAYS,
    "view_out": _ARRAYS,
    "ddp": _PROCESS,
    "saved_bytes": "no such hooks",
    "input_called_output": "names mean nothing to it",
}
