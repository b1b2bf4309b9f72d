"""The adapters on the real packages: tests/training/adapters/engines.py, in one process and on two ranks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.peers

SCRIPT = Path(__file__).parent / "engines.py"
TORCHRUN = ["-m", "torch.distributed.run", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]

FLOAT64, FLOAT32 = 1e-12, 1e-5
EXACT = {
    "accelerate": FLOAT64,
    "accelerate, scaler": FLOAT64,
    "accelerate, resumed": FLOAT64,
    "lightning": FLOAT64,
    "lightning, lists": FLOAT64,
    "lightning, scaler": FLOAT64,
    "trainer, causal": FLOAT32,  # its loss is float32 whatever the model
    "trainer, classifier": FLOAT32,
    "trainer, window without items": FLOAT32,
    "trainer, compute_loss": FLOAT32,
    "trainer, compute_loss_func": FLOAT32,
    "trainer, label smoothing": FLOAT32,
    "trainer by itself, causal": FLOAT32,
}
OFF = {
    "accelerate by itself": 0.1,
    "lightning by itself": 0.1,
    "trainer by itself, classifier": 1.0,
    "trainer by itself, window without items": 0.1,
    "planted: items of this micro-batch's rank alone": 0.05,
    "planted: every micro-batch counts alike": 0.05,
}
ON_SEVERAL_RANKS = {"planted: items of this micro-batch's rank alone"}


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two ranks"])
def found(request: pytest.FixtureRequest) -> dict[str, float]:
    start = [sys.executable]
    if request.param > 1:
        start += [*TORCHRUN, f"--nproc-per-node={request.param}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPT.parents[3])}
    for name in ("WORLD_SIZE", "RANK"):
        environment.pop(name, None)
    done = subprocess.run(
        [*start, str(SCRIPT)], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {"ranks": request.param, **json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize("case", EXACT)
def test_each_update_is_that_of_the_full_batch(found: dict[str, float], case: str) -> None:
    assert found[case] <= EXACT[case]


@pytest.mark.parametrize("case", OFF)
def test_the_same_measure_sees_what_is_not(found: dict[str, float], case: str) -> None:
    if found["ranks"] == 1 and case in ON_SEVERAL_RANKS:
        assert found[case] <= FLOAT32
    else:
        assert found[case] > OFF[case]
