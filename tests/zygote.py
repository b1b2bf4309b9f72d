"""A process with torch loaded that forks once per request and is the patient there: a second saved per script.

Reads one JSON request a line from standard input: {"options", "journal", "cwd", "path"}; answers its exit status when
it has ended. What the script prints goes to the files "stdout" and "stderr" of the request. With a folder, processes
that the doctor starts are forks of this one too (see ``warm``).
"""

import gc
import importlib
import json
import os
import pkgutil
import select
import sys
from pathlib import Path

from tests.chance import seed_all
from tests.large_pages import gather_in_large_pages
from tests.warm import Door


def serve(folder: Path | None) -> None:
    door = Door(folder) if folder else None
    import torch

    torch.set_num_threads(1)  # a pool of threads would not survive the fork
    import torch._dynamo  # every optimizer imports it: two seconds

    import gradwright.checking
    import gradwright.doctor

    for package in (gradwright.checking, gradwright.doctor):  # loaded once, and not in every fork
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(info.name)
    from gradwright.doctor.probe.machine import known_limits

    known_limits([torch.device("cpu")])  # as each fork would
    seed_all()
    del sys.path[0]
    for name in ("tests", "tests.chance", "tests.large_pages", "tests.warm"):
        del sys.modules[name]  # a script may have tests of its own
    gc.collect()
    gc.freeze()  # what a fork's collections never touch is never copied for it
    gather_in_large_pages()
    if door is not None and folder is not None:
        door.open(folder / "python")

    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            be_patient(request)
        patient = os.pidfd_open(pid)
        if not select.select([patient], [], [], request["seconds"])[0]:
            os.kill(pid, 9)
        os.close(patient)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    if door is not None:
        door.close()


def stand_in_for_a_gpu() -> None:
    """Nothing waits on a CPU, but what would is the same."""
    import torch

    from gradwright.doctor.observe.training import waits

    if not torch.cuda.is_available():
        waits.is_on_device = lambda tensor: True


def be_patient(request: dict) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(request["stdin"], os.O_RDONLY), 0)
    os.chdir(request["cwd"])
    if request.get("on_gpu"):
        stand_in_for_a_gpu()
    from gradwright.doctor.patient import main

    sys.argv[:] = ["-c"]
    sys.stdin = os.fdopen(0, closefd=False)
    code = 1
    try:
        code = main(request["journal"], request["options"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    os._exit(0)  # there is nothing to tidy up, and a great many modules to do it for
