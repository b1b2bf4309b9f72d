"""What the watching of steps leaves behind: torch as it was, and nothing that is alive."""

import runpy
from pathlib import Path

from tests.doctor.training.ordering.step_scripts import HEAD

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.session.journal import Journal


def test_torch_itself_is_as_before_afterwards_and_warns_of_the_users_line(tmp_path: Path) -> None:
    import torch
    from torch.optim import Optimizer, lr_scheduler

    def patched() -> list[object]:
        kinds = (Optimizer, torch.nn.Module, torch.amp.GradScaler, lr_scheduler.SequentialLR)
        return [vars(kind).get(name) for kind in kinds for name in ("__init__", "zero_grad", "scale", "step")] + [
            torch.nn.utils.clip_grad_norm_,
            torch.nn.utils.clip_grad.clip_grad_norm_,
            lr_scheduler._enable_get_lr_call.__enter__,
            torch.nn.parallel.DistributedDataParallel.forward,
        ]

    before = patched()
    script = tmp_path / "train.py"
    script.write_text(
        HEAD + "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    scheduler.step()\n"
    )
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
        assert patched() != before
        ran = runpy.run_path(str(script))
    assert patched() == before
    assert [warning.filename for warning in ran["caught"]] == [str(script)]


def test_nothing_is_kept_alive(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        HEAD + "import gc, weakref\n"
        "for part in rows:\n"
        "    optimizer.zero_grad()\n"
        "    loss = loss_of(part)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "held = [weakref.ref(thing) for thing in (optimizer, model, loss, model[0].weight, model[0].weight.grad)]\n"
        "del optimizer, model, loss\n"
        "gc.collect()\n"
        "alive = [one() is not None for one in held]\n"
    )
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock()):
        ran = runpy.run_path(str(script))
    assert ran["alive"] == [False] * 5
