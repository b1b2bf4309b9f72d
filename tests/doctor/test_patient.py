"""The script runs as `python train.py args` would run it, and nothing that it does loses what was known."""

import functools
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.session.facts import FunctionCalls, GradientVerdict, OptimizerSteps

WRONG = """
import torch

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 2

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return x * grad_output

x = torch.ones(3, requires_grad=True)
Wrong.apply(x).sum().backward()
"""


NO_FIXES = {"fix_seconds": 0.0}  # where it matters what is found, and not what would mend it


@pytest.fixture
def run(run: Callable) -> Callable:
    return functools.partial(run, anew=True)  # it is the run itself that is looked at


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str, name: str = "train.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def no_fixes(tmp_path: Path) -> None:
    """As ``NO_FIXES``, for the command."""
    (tmp_path / "pyproject.toml").write_text("[tool.gradwright]\nfix-seconds = 0\n")


ITSELF = """
import os, sys, __main__
own = __main__.__dict__ is globals()
for item in (__name__, __file__, __package__, __spec__, __doc__, sys.argv, os.getcwd(), sys.path[0], own):
    print(repr(item))
print(sorted(name for name in globals() if name.startswith("__")))
print(sys.stdin.read())
"""


def test_the_script_sees_what_python_would_show_it(gradwright: Callable, script: Callable, tmp_path: Path) -> None:
    script(ITSELF, "sub/train.py")
    words = ["sub/train.py", "--epochs", "1", "-m", "x"]
    plain = subprocess.run([sys.executable, *words], cwd=tmp_path, input="typed", capture_output=True, text=True)
    called = gradwright("diagnose", "--output", "report.txt", *words, cwd=tmp_path, stdin="typed", cold=True)
    assert called.stdout == plain.stdout
    assert called.session.script.argv == tuple(words)


def test_a_module_sees_what_python_m_would_show_it(gradwright: Callable, script: Callable, tmp_path: Path) -> None:
    script("", "package/__init__.py")
    script(ITSELF.replace("__spec__,", "__spec__.name,"), "package/train.py")
    words = ["package.train", "--lr", "1"]
    plain = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, input="", capture_output=True, text=True)
    called = gradwright("diagnose", "--output", "report.txt", "-m", *words, cwd=tmp_path, cold=True)
    assert called.stdout == plain.stdout


@pytest.mark.usefixtures("no_fixes")
def test_the_report_and_the_scripts_prints_never_mix(gradwright: Callable, script: Callable, tmp_path: Path) -> None:
    script(WRONG + "\nprint('a line of the script')\n")
    called = gradwright("diagnose", "train.py", cwd=tmp_path)
    assert "GW101" in called.stdout and "a line of the script" not in called.stdout
    assert "a line of the script" in called.stderr
    assert called.code == 1


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('no')", 1),
        ("raise SystemExit", 0),
        ("import os; os._exit(7)", 7),
    ],
)
def test_an_exit_of_the_script_is_its_own_and_nothing_is_lost(
    ending: str, code: int, run: Callable, script: Callable
) -> None:
    ran = run(script(WRONG + ending), **NO_FIXES)
    assert ran.report.script.exit_code == code
    assert ran.codes == ["GW101"]


def test_an_exception_keeps_its_traceback_and_the_findings_before_it(run: Callable, script: Callable) -> None:
    path = script(WRONG + "\ndef inner():\n    return {}['missing']\n\ninner()\n")
    plain = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    ran = run(path, **NO_FIXES)
    assert ran.stderr == plain.stderr
    assert ran.report.script.exit_code == 1
    assert ran.report.script.exception.type == "KeyError"
    assert ran.codes == ["GW101", "GW901"]


KILLED = """
import os, signal, sys, time
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    model(torch.randn(4, 2)).sum().backward()
    optimizer.step()
    time.sleep(0.2)
"""


@pytest.mark.parametrize(
    ("ending", "signal"),
    [("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"), ("import ctypes; ctypes.string_at(0)", "SIGSEGV")],
)
def test_a_killed_patient_loses_nothing_it_knew(
    ending: str, signal: str, gradwright: Callable, script: Callable, tmp_path: Path
) -> None:
    script(WRONG + KILLED + ending)
    called = gradwright("diagnose", "train.py", cwd=tmp_path)
    assert signal in called.stdout
    assert {finding.code for finding in called.session.findings} == {"GW601", "GW902"}
    assert [calls.backward_calls for calls in called.session.of(FunctionCalls)] == [1]
    assert any("could be tried" in item.why for item in called.session.not_examined)
    assert called.code == 1


@pytest.mark.parametrize(
    "endless",
    ["while True: pass", "while True:\n    try:\n        time.sleep(9)\n    except KeyboardInterrupt:\n        pass"],
)
def test_an_endless_script_is_stopped_and_reported(
    endless: str, gradwright: Callable, script: Callable, tmp_path: Path
) -> None:
    script("import torch" + KILLED.replace("0.2", "0.02") + endless)
    called = gradwright("diagnose", "--max-seconds", "2", "train.py", cwd=tmp_path)
    assert "GW601" in called.stdout
    assert called.session.script.stopped_early
    assert called.code == 1


def test_a_long_training_is_stopped_after_enough_steps(run: Callable, script: Callable) -> None:
    ran = run(script(WRONG + KILLED.replace("range(5)", "range(10**9)").replace("0.2", "0")), max_steps=20, **NO_FIXES)
    assert ran.report.script.stopped_early == "after 20 optimizer steps"
    assert [steps.steps for steps in ran.report.of(OptimizerSteps)] == [20]
    assert ran.codes == ["GW101", "GW601"]


def test_to_the_end_means_to_the_end(run: Callable, script: Callable) -> None:
    ran = run(
        script(KILLED.replace("import os", "import torch, os").replace("0.2", "0").replace("5", "250")), to_end=True
    )
    assert ran.report.script.steps == 250
    assert ran.report.script.stopped_early is None


def test_what_forked_children_do_stays_theirs(run: Callable, script: Callable) -> None:
    ran = run(
        script(
            WRONG
            + """
import os, sys
if os.fork() == 0:
    print("in the child")
    sys.exit(5)
print("status", os.waitstatus_to_exitcode(os.wait()[1]))
"""
        ),
        **NO_FIXES,
    )
    assert sorted(ran.stdout.splitlines()) == ["in the child", "status 5"]
    assert ran.codes == ["GW101"]


def test_spawned_workers_find_the_main_module(gradwright: Callable, script: Callable, tmp_path: Path) -> None:
    script(
        """
        import multiprocessing

        def double(n):
            return 2 * n

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [1, 2]))
        """
    )
    called = gradwright("diagnose", "--output", "report", "train.py", cwd=tmp_path, cold=True)
    assert called.stdout == "[2, 4]\n"
    assert called.code == 0


def test_threads_are_waited_for_as_python_does(run: Callable, script: Callable) -> None:
    ran = run(
        script(
            """
            import threading, time
            import torch

            def work():
                time.sleep(0.3)
                torch.ones(2, requires_grad=True).sum().backward()
                print("done")

            threading.Thread(target=work).start()
            """
        )
    )
    assert ran.stdout == "done\n"
    assert ran.report.script.gradients == 1


@pytest.mark.usefixtures("no_fixes")
def test_functions_in_pytest_tests_are_found(gradwright: Callable, script: Callable, tmp_path: Path) -> None:
    script(
        WRONG.replace("\nx = ", "\ndef test_it():\n    x = ").replace("\nWrong", "\n    Wrong"), "tests/test_wrong.py"
    )
    called = gradwright("diagnose", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/", cwd=tmp_path)
    assert "1 passed" in called.stderr
    assert {finding.code for finding in called.session.findings} == {"GW101"}


def test_torch_is_not_imported_for_the_script(gradwright: Callable, script: Callable, tmp_path: Path) -> None:
    script("import sys\nprint('torch' in sys.modules)\n")
    called = gradwright("diagnose", "--output", "report.txt", "train.py", cwd=tmp_path, cold=True)
    assert called.stdout == "False\n"
    assert called.code == 0
    assert "never imported torch" in (tmp_path / "report.txt").read_text()


@pytest.mark.parametrize(
    "setting",
    [
        "torch.set_default_dtype(torch.float64)",
        "import os; os.chdir('/')",
        "print('x' * 10**6)",
        "torch.set_default_device('cpu')",
    ],
)
def test_settings_of_the_script_do_not_upset_the_doctor(setting: str, run: Callable, script: Callable) -> None:
    ran = run(script(WRONG.replace("\nx = ", f"\n{setting}\nx = ")), **NO_FIXES)
    assert ran.codes == ["GW101"]
    assert ran.report.findings[0].location.path == "train.py"


@pytest.mark.usefixtures("no_fixes")
def test_a_script_may_change_directory_and_die(gradwright: Callable, script: Callable, tmp_path: Path) -> None:
    script(WRONG + "\nimport os; os.chdir('/'); raise ValueError('far from home')\n", "sub/train.py")
    called = gradwright("diagnose", "sub/train.py", cwd=tmp_path)
    found = {finding.code: finding.location.path for finding in called.session.findings}
    assert found == {"GW101": "sub/train.py", "GW901": "sub/train.py"}


def test_another_default_device_does_not_upset_the_trials(run: Callable, script: Callable) -> None:
    on_cpu = WRONG.replace(
        "torch.ones(3, requires_grad=True)", "torch.linspace(1, 2, 3, device='cpu', requires_grad=True)"
    )
    ran = run(script(on_cpu.replace("\nx = ", "\ntorch.set_default_device('meta')\nx = ")))
    assert ran.codes == ["GW101"] and ran.report.findings[0].fix is not None
    assert ran.report.not_examined == ()


@pytest.mark.usefixtures("no_fixes")
def test_results_stay_equal_to_the_last_bit(gradwright: Callable, script: Callable, tmp_path: Path) -> None:
    script(
        """
        import random, torch
        torch.manual_seed(1)
        random.seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(7))
        optimizer = torch.optim.Adam(model.parameters())

        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x ** 3
            @staticmethod
            def backward(ctx, g):
                return 3 * ctx.saved_tensors[0] ** 2 * g

        def total(x):
            out = torch.zeros(())
            for i in range(x.shape[0]):
                for j in range(x.shape[1]):
                    out = out + x[i, j] * torch.rand(())
            return out

        for step in range(20):
            optimizer.zero_grad()
            loss = total(Cube.apply(model(torch.randn(6, 5)))) + random.random()
            loss.backward()
            optimizer.step()
        print(loss.item().hex(), [p.detach().double().sum().item().hex() for p in model.parameters()])
        """
    )
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True)
    called = gradwright("diagnose", "--output", "report.txt", "train.py", cwd=tmp_path, cold=True)
    assert called.stdout == plain.stdout != ""


def test_a_compiled_model_still_compiles_in_one_graph(run: Callable, script: Callable) -> None:
    ran = run(
        script(
            WRONG
            + """
def loop(x):
    out = 0.0
    for i in range(3):
        out = out + x[i]
    return out

apply = Wrong.apply
compiled = torch.compile(lambda x: loop(apply(x)), backend="eager", fullgraph=True)
compiled(torch.ones(3, requires_grad=True)).backward()
print("compiled")
"""
        ),
        **NO_FIXES,
    )
    assert ran.stdout == "compiled\n", ran.stderr


def test_the_doctor_names_what_it_did_not_see(run: Callable, script: Callable) -> None:
    ran = run(
        script(
            WRONG
            + "\nclass Unused(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        pass\n"
        ),
        **NO_FIXES,
    )
    assert "Unused" in [item.what for item in ran.report.not_examined]


def test_specimens_keep_to_their_bound_and_say_so(run: Callable, script: Callable) -> None:
    calls = "\nfor n in range(1, 12):\n    Wrong.apply(torch.ones(n, requires_grad=True)).sum().backward()\n"
    watched = {"probe_seconds": 0.0, **NO_FIXES}
    ran = run(script(WRONG + calls), **watched)
    assert len(ran.report.specimens) == 8
    assert any("further call" in item.what for item in ran.report.not_examined)
    ran = run(script(WRONG.replace("ones(3", "ones(1000")), specimen_bytes=1000, **watched)
    assert len(ran.report.specimens) == 0
    assert any("bound" in item.why for item in ran.report.not_examined)


def test_ctrl_c_ends_the_script_as_ever_and_what_is_known_is_told(script: Callable, tmp_path: Path) -> None:
    script("import torch" + KILLED.replace("range(5)", "range(10**6)").replace("0.2", "0.01"))
    words = [sys.executable, "-m", "gradwright", "diagnose", "train.py"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        words,
        cwd=tmp_path,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
        # A test run in the background is born with SIGINT ignored, and would hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 30
    journal = ""
    while '"steps": 5' not in journal and time.monotonic() < deadline:
        time.sleep(0.05)
        kept = process_journal(process.pid)
        journal = kept.read_text() if kept else ""
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=600)
    assert "KeyboardInterrupt" in stderr and "interrupted; the report follows" in stderr
    assert "GW601" in stdout and "GW901" not in stdout
    assert process.returncode == 1


def process_journal(pid: int) -> Path | None:
    """The journal of a running command, by the command line of its patient."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in children:
        words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        found = [word for word in words if word.endswith(".jsonl")]
        if found:
            return Path(found[0])
    return None


def test_a_subject_that_never_ends_alone_is_given_up_and_named(run: Callable, script: Callable) -> None:
    """In the script it ends; tried on other values it does not."""
    ran = run(
        script(
            """
            import torch

            class Spin(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    while float(x.sum()) != 3.0:
                        pass
                    return x * 2
                @staticmethod
                def backward(ctx, grad_output):
                    return grad_output * 2

            Spin.apply(torch.ones(3, requires_grad=True)).sum().backward()
            """
        ),
        probe_seconds=12.0,
    )
    assert ran.report.script.exit_code == 0
    assert ran.faults == []
    assert any("had not ended" in item.why or "used up" in item.why for item in ran.report.not_examined)


def test_memory_of_a_trial_is_bounded(run: Callable, script: Callable) -> None:
    ran = run(
        script(
            """
            import torch

            class Hungry(torch.autograd.Function):
                calls = 0
                @staticmethod
                def forward(ctx, x):
                    Hungry.calls += 1
                    if Hungry.calls > 1:
                        torch.empty(1 << 36)
                    return x * 2
                @staticmethod
                def backward(ctx, grad_output):
                    return grad_output * 2

            Hungry.apply(torch.ones(3, requires_grad=True)).sum().backward()
            """
        )
    )
    assert ran.report.script.exit_code == 0
    assert ran.faults == []


def test_a_fault_of_the_watching_never_becomes_the_scripts(
    gradwright: Callable, script: Callable, tmp_path: Path
) -> None:
    """A tensor subclass that raises at whatever the watching asks of it."""
    script(
        """
        import torch

        class Shy(torch.Tensor):
            @property
            def shape(self):
                raise RuntimeError("none of your business")

        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return torch.ones(2)
            @staticmethod
            def backward(ctx, grad_output):
                return None

        x = torch.ones(2).as_subclass(Shy).requires_grad_()
        Double.apply(x)
        print("the script went on")
        """
    )
    called = gradwright("diagnose", "--output", "report.txt", "train.py", cwd=tmp_path)
    assert called.stdout == "the script went on\n"
    assert called.code == 3
    assert "none of your business" in called.stderr


PLANT = """
from gradwright.doctor.observe import clock
from gradwright.doctor.patient import Patient

def plant(owner, name):
    \"\"\"In place of a method, one that raises, in a file of the doctor's as far as a traceback can tell.\"\"\"
    made = {}
    exec(compile("def fail(*given): (1).a_name_that_is_gone", clock.__file__, "exec"), made)
    setattr(owner, name, made["fail"])
"""


def test_a_script_goes_on_where_the_watching_cannot_begin(
    gradwright: Callable, script: Callable, tmp_path: Path
) -> None:
    script(PLANT + 'plant(Patient, "_watch_torch")\n' + WRONG + "\nprint('the script went on', x.grad.tolist())\n")
    called = gradwright("diagnose", "train.py", cwd=tmp_path, cold=True)
    assert called.code == 3
    assert "the script went on [1.0, 1.0, 1.0]" in called.stderr  # its prints: the report has standard output
    assert "the doctor itself failed; please report this" in called.stderr
    assert "has no attribute 'a_name_that_is_gone'" in called.stderr
    assert "nothing was judged: the doctor itself failed" in called.stdout
    assert called.session.script.exit_code == 0 and called.session.script.exception is None


def test_a_script_goes_on_where_what_stands_around_its_calls_fails(
    gradwright: Callable, script: Callable, no_fixes: None, tmp_path: Path
) -> None:
    planted = "".join(f'plant(clock.Clock, "{name}")\n' for name in ("skip", "saw", "saw_gradient"))
    script(PLANT + planted + WRONG + "\nprint('the script went on', x.grad.tolist())\n")
    called = gradwright("diagnose", "train.py", cwd=tmp_path, cold=True)
    assert called.code == 3
    assert "the script went on [1.0, 1.0, 1.0]" in called.stderr
    assert called.stderr.count("has no attribute 'a_name_that_is_gone'") == 1
    assert called.session.script.exit_code == 0 and called.session.script.exception is None


def test_an_exception_of_the_doctors_own_that_ends_a_script_is_not_the_scripts(
    gradwright: Callable, script: Callable, no_fixes: None, tmp_path: Path
) -> None:
    script(PLANT + 'plant(clock.Clock, "stop_if_enough")\n' + WRONG)
    called = gradwright("diagnose", "train.py", cwd=tmp_path, cold=True)
    assert called.code == 3
    assert "the doctor itself failed; please report this" in called.stderr
    assert "in fail" in called.stderr  # the frame that raised it is shown
    assert called.session.script.exit_code == 1 and called.session.script.exception is None
    assert not [finding for finding in called.session.findings if finding.subject == "script"]


def test_without_custom_functions_a_run_is_no_clean_bill(
    gradwright: Callable, script: Callable, no_fixes: None, tmp_path: Path
) -> None:
    script(
        PLANT
        + """
begin = Patient._watch_torch

def begin_without(patient):
    from gradwright.doctor.observe.functions import FunctionWatch
    plant(FunctionWatch, "install")
    begin(patient)

Patient._watch_torch = begin_without
"""
        + WRONG
    )
    called = gradwright("diagnose", "train.py", cwd=tmp_path, cold=True)
    assert called.code == 3
    assert "calls of custom Functions can't be watched with this torch: that is no clean bill" in called.stderr
    assert called.stdout.startswith("custom Functions not watched · 1 gradient call watched")
    assert "nothing was found in what could be watched" in called.stdout
    kept = gradwright("report", cwd=tmp_path)
    assert kept.code == 3 and kept.stdout == called.stdout
    fixing = gradwright("fix", "train.py", cwd=tmp_path, cold=True)
    assert fixing.code == 3
    assert "the last session is without calls of custom Functions: diagnosing first" in fixing.stderr
    assert "calls of custom Functions can't be watched with this torch: there may be fixes" in fixing.stderr


def test_an_observer_that_cannot_be_imported_is_not_examined_and_all_else_is(
    gradwright: Callable, script: Callable, no_fixes: None, tmp_path: Path
) -> None:
    script(
        """
        import sys

        class Gone:
            def find_spec(self, name, path=None, target=None):
                if name == "gradwright.doctor.observe.lookers.kept_graphs":
                    raise ImportError("cannot import name '_gone' from 'torch._C'")

        sys.meta_path.insert(0, Gone())
        """
        + textwrap.indent(WRONG, " " * 8)
    )
    called = gradwright("diagnose", "train.py", cwd=tmp_path, cold=True)
    assert called.code == 1 and "GW101" in called.stdout
    why = "can't be watched with torch {}: ImportError: cannot import name '_gone' from 'torch._C'"
    (left_out,) = [item for item in called.session.not_examined if item.what == "training: kept graphs"]
    assert left_out.why == why.format(called.session.environment.torch)


def test_where_a_child_cannot_go_backward_the_trials_stay_in_the_process(
    gradwright: Callable, script: Callable, no_fixes: None, tmp_path: Path
) -> None:
    """Autograd has threads of its own after 70 nested checkpoints: a backward in a forked child would raise."""
    script(
        "from torch.utils.checkpoint import checkpoint\n"
        + WRONG
        + """
def nest(t, depth):
    return checkpoint(lambda u: nest(u, depth - 1), t, use_reentrant=True) if depth else t * 2

class Right(Wrong):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output

nest(x, 70).sum().backward()
Right.apply(x).sum().backward()
"""
    )
    called = gradwright("diagnose", "train.py", cwd=tmp_path, cold=True)
    assert [finding.code for finding in called.session.findings if finding.severity == "error"] == ["GW101"]
    assert "crashes and memory of subjects tried alone" in called.stdout
    verdicts = {fact.subject.split("@")[0]: fact.verdict for fact in called.session.of(GradientVerdict)}
    assert verdicts == {"function:Wrong": "wrong", "function:Right": "right"}


def test_a_function_that_writes_files_is_not_replayed(run: Callable, script: Callable, tmp_path: Path) -> None:
    ran = run(script(WRONG.replace("return x ** 2", "open('log.txt', 'a').write('forward ')\n        return x ** 2")))
    assert (tmp_path / "log.txt").read_text() == "forward "
    assert ran.codes == []
    assert any("opens a file" in item.why for item in ran.report.not_examined)
