"""Runs figures one after the other, and writes down what becomes of each at once."""

from __future__ import annotations

import gc
import json
import os
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from on_gpu.comparing import describe_error
from on_gpu.figure import Figure, Machine, OursFailed, Skipped


class Events:
    """A file of JSON lines, on the disk as soon as they are written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: dict[str, Any]) -> None:
        with self.path.open("a") as stream:
            stream.write(json.dumps(event, ensure_ascii=False) + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def write_end(
        self, name: str, outcome: str, seconds: float, why: str, trace: str, data: dict[str, Any] | None
    ) -> None:
        self.write(
            {
                "event": "ended",
                "name": name,
                "outcome": outcome,
                "seconds": round(seconds, 3),
                "why": why,
                "traceback": trace,
                "data": data,
            }
        )


def choose_figures(figures: list[Figure], names: Iterable[str] | None, events: Events) -> list[Figure]:
    """Those of these names (``None``: all), in our order; a name that no figure has is written down as failed."""
    if names is None:
        return figures
    wanted = {name.strip() for name in names} - {""}
    for name in sorted(wanted - {figure.name for figure in figures}):
        events.write({"event": "began", "name": name})
        events.write_end(name, "failed", 0.0, "there is no figure of that name", "", None)
    return [figure for figure in figures if figure.name in wanted]


def fail_all(figures: Iterable[Figure], why: str, events: Events) -> None:
    """Write each down as failed."""
    for figure in figures:
        events.write({"event": "began", "name": figure.name})
        events.write_end(figure.name, "failed", 0.0, why, "", None)


def run_figures(figures: Iterable[Figure], machine: Machine, events: Events) -> bool:
    """Measure each figure. False, where the device is lost on the way: the figures behind have not begun.

    A figure whose device is lost has failed, whatever it returned.
    """
    for figure in figures:
        events.write({"event": "began", "name": figure.name})
        started = time.perf_counter()
        outcome, why, trace, cells = _measure(figure, machine)
        lost = find_loss(machine.device)
        if lost:
            outcome, why = "failed", f"the device is lost: {lost}" + (f"; {why}" if why else "")
        data = {"question": figure.question, "title": figure.title, "row": figure.row, "cells": cells}
        events.write_end(figure.name, outcome, time.perf_counter() - started, why, trace, data)
        if lost:
            return False
    return True


def _measure(figure: Figure, machine: Machine) -> tuple[str, str, str, dict[str, Any]]:
    """The outcome, why, the traceback, and the cells."""
    try:
        cells = figure.measure(machine)
        json.dumps(cells)  # a cell that JSON can't hold is the figure's fault
    except OursFailed as failed:
        return "failed", str(failed), traceback.format_exc(), failed.cells
    except Skipped as skipped:
        return "skipped", str(skipped), "", {}
    except Exception as error:  # one that fails takes no other with it
        return "failed", describe_error(error), traceback.format_exc(), {}
    return "passed", "", "", cells


def find_loss(device: torch.device) -> str:
    """Why the device does nothing more for this process; "" where it does. Frees what the figure held."""
    gc.collect()
    if device.type != "cuda":
        return ""
    try:
        torch.cuda.empty_cache()
        torch.cuda.synchronize(device)
        if torch.arange(4, device=device).sum().item() == 6:
            return ""
    except RuntimeError as error:  # CUDA's errors are
        return describe_error(error)
    return "it adds up wrongly"
