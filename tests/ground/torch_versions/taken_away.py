"""Diagnose a script once for each capability, with that one taken away: a fork each of a process that has all loaded.

Prints one line of JSON for each: {"name", "why", "lack", "code", "findings", "not_examined", "failed"}.
"""

import gc
import importlib
import json
import os
import pkgutil
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import torch

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, 0.5 * g * x

torch.manual_seed(0)
w = torch.nn.Parameter(torch.randn(4))
layer = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD([w, *layer.parameters()], lr=0.01)
x = torch.randn(8, 4)
for step in range(4):
    optimizer.zero_grad()
    layer(Scale.apply(x, w.expand(8, 4))).square().mean().backward()
    optimizer.step()
"""


def take_away(capability, names):
    """As if torch had none of ``names``, wherever the package has them already."""
    from gradwright.ground.torch_versions import capability as capabilities
    from gradwright.ground.torch_versions import dynamo
    from gradwright.ground.torch_versions.capability import Missing, look_up_class

    capabilities.resolve = lambda path: getattr(capability, "has no such name")
    instead = {
        id(thing): look_up_class(path, capability) if how == "look_up_class" else Missing(capability)
        for thing, path, how in names
    }
    capability.missing = [path for _, path, _ in names] or [capability.name]
    for name, module in list(sys.modules.items()):
        if name.startswith("gradwright"):
            for key, value in list(vars(module).items()):
                if id(value) in instead:
                    setattr(module, key, instead[id(value)])
    if capability is dynamo.MARKS:
        dynamo._strategies = None


def diagnose(folder):
    from gradwright.doctor.options import Options
    from gradwright.doctor.patient import main
    from gradwright.doctor.session.journal import fold

    (folder / "train.py").write_text(SCRIPT)
    os.chdir(folder)
    code = main(str(folder / "journal"), Options(target="train.py", fix_seconds=0.0).to_json())
    report = fold(folder / "journal")
    return {
        "code": code,
        "script": report.script.exit_code,
        "findings": sorted({finding.code for finding in report.findings}),
        "fixed": sorted({finding.code for finding in report.findings if finding.fix is not None}),
        "not_examined": [[item.what, item.why] for item in report.not_examined],
        "failed": report.failed if hasattr(report, "failed") else "",
    }


def try_doors():
    """What each door of the library says: "right", "off" with the error that names what torch lacks, or how it died."""
    import torch

    import gradwright as gw
    from gradwright.errors import UnsupportedTorch
    from gradwright.ground.memory import memory_of

    x = torch.tensor([[0.5, -1.0], [2.0, 0.25]], dtype=torch.float64, requires_grad=True)

    def gradient(y):
        return torch.autograd.grad(y.sum(), x)[0]

    def cube(x):
        return x**3

    def cube_backward(g, x):
        return 3 * x**2 * g

    def loss():
        given = gradient(gw.losses.HuberLoss(delta=1.0, reduction="none")(x, torch.zeros_like(x)))
        return torch.equal(given, x.clamp(-1, 1))

    doors = {
        "check": lambda: gw.check(cube, x.detach()).ok is True,
        "derive": lambda: "def" in str(gw.derive(cube, x.detach())),
        "custom_gradient": lambda: torch.allclose(gradient(gw.custom_gradient(cube, cube_backward)(x)), 3 * x**2),
        "custom_gradient in vmap": lambda: torch.allclose(
            torch.func.vmap(torch.func.grad(lambda t: gw.custom_gradient(cube, cube_backward)(t).sum()))(x.detach()),
            3 * x**2,
        ),
        "elementwise": lambda: torch.allclose(gradient(gw.elementwise("x * x")(x)), 2 * x),
        "batch_jacobian": lambda: torch.allclose(
            gw.batch_jacobian(x.sin(), wrt=x), torch.diag_embed(x.cos())
        ),
        "laplacian": lambda: torch.allclose(gw.laplacian((x**3).sum(1), wrt=x), (6 * x).sum(1)),
        "losses": loss,
        "checkpoint": lambda: torch.allclose(gradient(gw.checkpoint(torch.sin, x)), x.cos()),
        "memory": lambda: memory_of(lambda: torch.zeros(1000) + 1, torch.device("cpu")).peak_bytes > 4000,
    }  # fmt: skip
    found = {}
    for name, door in doors.items():
        try:
            found[name] = "right" if door() else "WRONG"
        except UnsupportedTorch as error:
            found[name] = f"off: {error}"
        except Exception as error:
            found[name] = f"died: {type(error).__name__}: {error}"
    return found


def load_everything():
    import torch._dynamo

    import gradwright

    torch.set_num_threads(1)
    for info in pkgutil.walk_packages(gradwright.__path__, "gradwright."):
        if not info.name.startswith(("gradwright.exercises.tasks", "gradwright.__main__", "gradwright.testing")):
            importlib.import_module(info.name)
    assert set(try_doors().values()) == {"right"}  # and what they load is not loaded in every fork
    gc.collect()
    gc.freeze()  # what a fork's collections never touch is never copied for it


def main():
    load_everything()
    from tests.ground.torch_versions.test_names import names_by_capability

    asked = set(sys.argv[1:])
    for capability, names in names_by_capability():
        if asked and capability.name not in asked:
            continue
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(reading)
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            take_away(capability, names)
            found = {"name": capability.name, "why": capability.describe(), "lack": capability.describe_lack()}
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found |= diagnose(Path(folder)) | {"doors": try_doors()}
                except BaseException as error:
                    found["died"] = f"{type(error).__name__}: {error}"
            os.write(writing, json.dumps(found).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            print(answer.read(), flush=True)
        os.wait()


if __name__ == "__main__":
    main()
    os._exit(0)
