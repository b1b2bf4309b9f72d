"""What wrappers for several ranks keep to themselves."""

from __future__ import annotations

from typing import Any

import torch.distributed as distributed

from gradwright.errors import UnsupportedTorch
from gradwright.ground.torch_versions.capability import Capability


def default_store() -> Any:
    """Where the ranks of this run leave words for one another; it goes with the rank that keeps it."""
    return distributed.distributed_c10d._get_default_store()


#: Accumulation over FSDP2's shards.
SHARDS = Capability("FSDPModule._get_fsdp_state", "accumulation over a model that FSDP2 shards", of_doctor=False)


def shard_groups(module: Any) -> list[Any]:
    """The groups of parameters that a module of FSDP2's is sharded in: a list of them in torch 2.13, one in 2.9.

    Raises: UnsupportedTorch.
    """
    of_module = getattr(module, "_get_fsdp_state", None)
    state: Any = of_module() if of_module is not None else None
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)
    if hasattr(state, "_fsdp_param_group"):
        return [group for group in [state._fsdp_param_group] if group is not None]
    SHARDS.missing = ["FSDPModule._get_fsdp_state()._fsdp_param_groups"]
    raise UnsupportedTorch(SHARDS.describe())


def flatten_mesh(mesh: Any) -> Any:
    """All ranks of a mesh of several axes, along one."""
    return mesh._flatten()


def rebuild_buckets(model: Any) -> None:
    """DDP: what it does at the end of its first backward, for a backward that it did not see."""
    model.reducer._rebuild_buckets()


def has_communication_hooks(model: Any) -> bool:
    """Whether gradients are shared by a hook of the user's."""
    return bool(getattr(model, "_comm_hooks", None))
