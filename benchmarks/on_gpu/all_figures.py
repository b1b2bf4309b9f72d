"""All figures, in the order of importance: what is behind may be cut off, where the time is over."""

from __future__ import annotations

from on_gpu import checks, constants, copying, formulas, jacobians, losses, watching
from on_gpu.figure import Figure


def list_figures(small: bool) -> list[Figure]:
    """``small``: those of a dry run."""
    if small:
        return [
            *copying.list_figures(is_small=True),
            *formulas.list_figures(formulas.SMALL_SIZES[:1], is_compiled=True),
            *losses.list_cross_entropies(is_small=True),
            *losses.list_images(is_small=True),
            *jacobians.list_figures(is_small=True),
            *watching.list_figures(is_small=True),
            *checks.list_figures(is_small=True),
            *constants.list_figures(),
        ]
    transformer, mlp = watching.list_figures(is_small=False)
    return [
        *copying.list_figures(is_small=False),
        *formulas.list_figures(formulas.COMPILED_SIZES[:1], is_compiled=True),
        *losses.list_cross_entropies(is_small=False),
        *losses.list_images(is_small=False),
        *jacobians.list_figures(is_small=False),
        *constants.list_figures(),
        transformer,
        *checks.list_figures(is_small=False),
        *formulas.list_figures(formulas.COMPILED_SIZES[1:], is_compiled=True),
        *losses.list_cross_entropies(is_small=False, cell="bfloat16", is_compiled=False),
        *formulas.list_figures(formulas.OTHER_SIZES),
        mlp,
    ]
