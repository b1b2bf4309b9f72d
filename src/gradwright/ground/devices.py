"""Constants that were measured on a kind of device: how fast it is, and what each launch costs there.

They stand in ``devices.json`` beside this file, by the name that the driver gives the device ("NVIDIA H200").
`make gpu-read` writes a row of what `make gpu` measured on a machine; see ``benchmarks/on_gpu/constants.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import torch


@dataclass(frozen=True)
class DeviceConstants:
    """What is known of one kind of device."""

    #: The date, and the version of torch: "2026-11-29, torch 2.11.0".
    measured: str
    #: The fields of ``derivatives.planning.cost.Machine``, by name; float32, one device.
    rates: Mapping[str, float]
    #: Rows of a Jacobian that are made at a time where none is kept: fewer cost more launches, more gain nothing.
    rows_together: int


def find_constants(device: torch.device) -> DeviceConstants | None:
    """What was measured on devices of this name; None where nothing was.

    Cost: a look-up; the first call for a device asks the driver for its name.

    >>> find_constants(torch.device("cpu")) is None
    True
    """
    return read_constants().get(name_device(device))


def name_device(device: torch.device) -> str:
    """What the driver calls a CUDA device that is there; of any other, its type.

    >>> name_device(torch.device("meta"))
    'meta'
    """
    if device.type != "cuda" or not torch.cuda.is_available():
        return device.type
    return _cuda_name(torch.cuda.current_device() if device.index is None else device.index)


@cache
def _cuda_name(index: int) -> str:
    return torch.cuda.get_device_name(index)


@cache
def read_constants() -> Mapping[str, DeviceConstants]:
    """All rows of the table, by the name of the device."""
    text = resources.files("gradwright.ground").joinpath("devices.json").read_text(encoding="utf-8")
    return {name: DeviceConstants(**row) for name, row in json.loads(text).items()}
