"""Run by the Python of .venv-peers: one peer over many scripts, a line of JSON for each.

The arguments are the mode and a file that holds [{"name", "path"}]. Each row: {"name", "said": [{"id", "severity",
"lines"}], "failed": "" or why it could not be asked, "seconds"}. What runs a script does so in a fork.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import json
import os
import re
import runpy
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SECONDS = 60.0
Said = list[dict[str, Any]]
failures: list[str] = []  # of the peer itself, in this fork


def torchfix(path: str) -> Said:
    from torchfix.torchfix import GET_ALL_ERROR_CODES, TorchChecker, TorchCodemodConfig  # noqa: F401

    text = Path(path).read_text()
    found = TorchChecker(ast.parse(text), text.splitlines(keepends=True)).run()
    return [{"id": message.split()[0], "severity": "", "lines": [line]} for line, _, message, _ in found]


def mldoct(path: str) -> Said:
    """Its linter alone: the package's own door loads pandas, scikit-learn and a pickled model."""
    package = importlib.util.find_spec("mldoctor")
    assert package is not None and package.submodule_search_locations
    place = Path(package.submodule_search_locations[0]) / "linter.py"
    spec = importlib.util.spec_from_file_location("mldoctor_linter", place)
    assert spec is not None and spec.loader is not None
    linter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(linter)
    found, _ = linter.lint_script(path)
    return [{"id": one["type"], "severity": one["severity"], "lines": [one["line"]]} for one in found]


# --- in a fork -------------------------------------------------------------------------------------------------------


def anomaly(path: str) -> Said:
    import torch

    torch.autograd.set_detect_anomaly(True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            runpy.run_path(path, run_name="__main__")
        except RuntimeError as error:
            if "returned nan values" not in str(error):
                return []
            forward = "\n".join(str(one.message) for one in told if "Traceback of forward call" in str(one.message))
            lines = [int(line) for line in re.findall(rf'File "{re.escape(path)}", line (\d+)', forward)]
            return [{"id": str(error), "severity": "error", "lines": lines}]
        except BaseException:
            return []
    return []


def roots_of(optimizer: Any) -> Iterator[Any]:
    """The outermost modules that hold parameters of this optimizer."""
    from torch import nn

    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    having = [one for one in gc.get_objects() if isinstance(one, nn.Module)]
    having = [one for one in having if any(id(p) in held for p in one.parameters())]
    inner = {id(child) for one in having for child in one.modules() if child is not one}
    return (one for one in having if id(one) not in inner)


def on_new_optimizer(act: Callable[[Any], None]) -> None:
    """Every optimizer of torch's that a script makes."""
    from torch.optim import Optimizer

    plain = Optimizer.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        act(self)

    Optimizer.__init__ = made  # type: ignore[method-assign]


def audit(path: str) -> Said:
    from torch_audit import autopatch

    auditors = []

    def patch(optimizer: Any) -> None:
        for module in roots_of(optimizer):
            auditors.append(autopatch(module, optimizer=optimizer, every_n_steps=1, suppress_internal_errors=True))

    on_new_optimizer(patch)
    run_quietly(path, "torch_audit")
    found = {
        (one.rule_id, one.module_path, one.severity.value) for auditor in auditors for one in auditor.finish().findings
    }
    return [
        {"id": f"{rule} {module}", "severity": severity, "lines": []}
        for rule, module, severity in sorted(found, key=str)
    ]


def torchtest2(path: str) -> Said:
    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook
    from torchtest2 import check_model

    called: dict[int, Any] = {}
    seen: set[int] = set()
    said: Said = []
    busy = False

    def note(module: Any, args: tuple[Any, ...]) -> None:
        if not busy and args and torch.is_grad_enabled():
            called[id(module)] = args

    def check(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal busy
        if busy or id(optimizer) in seen:
            return
        seen.add(id(optimizer))
        busy = True
        try:
            for module in list(roots_of(optimizer)):
                if id(module) in called:
                    # Its Adam would need many steps, and its loss is a stand-in: that check is left out.
                    report = check_model(module, called[id(module)], optimizer=optimizer, skip=("overfit_batch",))
                    said.extend(
                        {"id": one.name, "severity": str(one.status), "lines": [], "message": one.message}
                        for one in (*report.failures, *report.warnings)
                    )
        finally:
            busy = False

    torch.nn.modules.module.register_module_forward_pre_hook(note)
    register_optimizer_step_pre_hook(check)
    run_quietly(path, "torchtest2")
    return said


def run_quietly(path: str, package: str) -> None:
    """The script to its end; what it dies of is its own affair, unless it is the peer's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            runpy.run_path(path, run_name="__main__")
        except BaseException as error:
            places = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
            # The script's own forward runs within the peer's: then the innermost of the two is the script's.
            ours = [place == path for place in places if place == path or f"/{package}/" in place]
            if ours and not ours[-1]:
                failures.append(f"{type(error).__name__}: {error}"[:300])


def in_a_fork(call: Callable[[str], Said], path: str) -> tuple[Said, str]:
    answer, log = Path(path).with_suffix(".answer"), Path(path).with_suffix(".log")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for number in (1, 2):
                os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
            os.chdir(Path(path).parent)
            sys.argv[:] = [path]
            said = call(path)
            answer.write_text(json.dumps({"said": said, "failed": "; ".join(failures)}))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    until = time.monotonic() + SECONDS
    status = (0, 0)
    while status == (0, 0):
        if time.monotonic() > until:
            os.kill(pid, 9)
        time.sleep(0.005)
        status = os.waitpid(pid, os.WNOHANG)
    if not answer.exists():
        return [], (log.read_text()[-300:] if log.exists() else "") or "it was ended"
    told = json.loads(answer.read_text())
    return told["said"], told["failed"]


def main() -> None:
    mode = sys.argv[1]
    questions = json.loads(Path(sys.argv[2]).read_text())
    call = {"torchfix": torchfix, "mldoct": mldoct, "anomaly": anomaly, "audit": audit, "torchtest2": torchtest2}[mode]
    running = mode in ("anomaly", "audit", "torchtest2")
    if running:
        import torch
        import torch._dynamo

        torch.set_num_threads(1)
        if mode == "audit":
            import torch_audit  # noqa: F401
        if mode == "torchtest2":
            import torchtest2 as _  # noqa: F401
    for one in questions:
        started = time.monotonic()
        if running:
            said, failed = in_a_fork(call, one["path"])
        else:
            said, failed = call(one["path"]), ""
        row = {"name": one["name"], "said": said, "failed": failed, "seconds": time.monotonic() - started}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
