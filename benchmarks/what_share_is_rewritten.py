"""What share of loops that people write does the doctor turn into array code, and does it ever turn one wrong?

A hundred loops after real ones (loops_in_the_wild/): course assignments, PolyBench kernels, losses, metrics, models of
sequences. Two thirds were seen while the compiler was written, one third was not; both parts are reported. Each
function goes through ``gw.diagnose`` with float32 inputs, in a process of its own; the fixes that are offered are
applied to its file, and the changed function is compared with the old one at other sizes and seeds, in float64: what
it returns, what it leaves in its arguments, and the gradients by every real input.

- rewritten right: a fix was offered, and nothing differs
- declined right: a loop that carries a dependence, has effects, draws random numbers, stops early or runs until
  something holds was left alone
- wrongly declined: a loop that has an array form was left alone (why, as the doctor said, stands in the JSON)
- rewritten though hard: one that was to be left alone was changed, and nothing differs
- wrong: something differs. Must be 0

    python benchmarks/what_share_is_rewritten.py [--part seen] [--only NAME ...] [--no-save]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from loops_in_the_wild import KINDS, cases
from loops_in_the_wild.case import Case
from recording import describe_machine, save

PARTS = ("seen", "unseen")
VERDICTS = ("rewritten right", "declined right", "wrongly declined", "rewritten though hard", "wrong", "broke off")
SIZES = (4, 7, 13)
SEEDS = (1, 2)
PATIENCE = 300  # seconds for one loop
RELATIVE = {"torch.float64": 1e-9, "torch.float32": 1e-5}  # sums in any order; float32: what the loop makes itself


def judged(case: Case) -> dict[str, Any]:
    """The verdict on one loop; its source as it is afterwards; what the doctor said; the seconds it took."""
    from loops_in_the_wild.mended import mended

    found = mended(case.function, case.arguments(case.size))
    result = {"expected": case.expected, "told": list(found.told), "seconds": round(found.seconds, 1)}
    if found.function is None:
        verdict = "declined right" if case.expected == "decline" else "wrongly declined"
        return {"verdict": verdict, **result}
    assert difference(case, spoiled(case.function)), "the judge does not see a planted fault"
    differs = difference(case, found.function)
    right = "rewritten right" if case.expected == "rewrite" else "rewritten though hard"
    return {"verdict": "wrong" if differs else right, **result, "differs": differs, "source": found.source}


def difference(case: Case, candidate: Any) -> str:
    """Where the changed function first differs from the old one; "" if nowhere."""
    import torch

    for size in (*SIZES, case.size):
        for seed in SEEDS:
            old = _tried(case.function, case.arguments(size, torch.float64, seed))
            new = _tried(candidate, case.arguments(size, torch.float64, seed))
            if isinstance(old, str):
                continue  # too small for it
            if isinstance(new, str):
                return f"n = {size}: raised {new}"
            for (name, a), (_, b) in zip(old, new, strict=False):
                if not _same(a, b):
                    return f"n = {size}, seed {seed}: {name}"
            if len(old) != len(new):
                return f"n = {size}: {len(new)} results, expected {len(old)}"
    return ""


def spoiled(function: Any) -> Any:
    """The function with its results off by a thousandth, or by one: ``difference`` has to see that."""
    import torch

    def off(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(off(one) for one in value)
        if isinstance(value, torch.Tensor):
            return value * 1.001 if value.is_floating_point() else value + 1
        return value + 1e-3 if isinstance(value, float) else value + 1 if isinstance(value, int) else value

    return lambda *arguments: off(function(*arguments))


def _tried(function: Any, arguments: tuple[Any, ...]) -> list[tuple[str, Any]] | str:
    """Results by name, gradients among them; a string: what it raised."""
    import torch

    leaves = [one for one in arguments if isinstance(one, torch.Tensor) and one.is_floating_point()]
    for leaf in leaves:
        leaf.requires_grad_()
    given = [one.clone() if one is not None and any(one is leaf for leaf in leaves) else one for one in arguments]
    torch.manual_seed(0)
    try:
        returned = function(*given)
        outputs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        results = [(f"output {k}", one) for k, one in enumerate(outputs)]
        results += [(f"argument {k} afterwards", one) for k, one in enumerate(given)]
        roots = [one for one in outputs if isinstance(one, torch.Tensor) and one.requires_grad]
        if roots and leaves:
            # Another weight for each element: a sum would hide what a permutation changes.
            weights = [torch.arange(1.0, one.numel() + 1, dtype=one.dtype).sin().reshape(one.shape) for one in roots]
            gradients = torch.autograd.grad(roots, leaves, weights, allow_unused=True)
            results += [
                (f"gradient {k}", torch.zeros_like(leaf) if one is None else one)
                for k, (leaf, one) in enumerate(zip(leaves, gradients, strict=True))
            ]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return results


def _same(a: Any, b: Any) -> bool:
    import torch

    if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
        return False
    if isinstance(a, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype or a.requires_grad != b.requires_grad:
            return False
        if not a.is_floating_point():
            return torch.equal(a, b)
        scale = float(a.detach().abs().nan_to_num(posinf=0.0).max()) if a.numel() else 0.0
        near = RELATIVE[str(a.dtype)]
        return torch.allclose(a.detach(), b.detach(), rtol=near, atol=near * max(scale, 1.0), equal_nan=True)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return type(a) is type(b) and (a == b or abs(a - b) <= RELATIVE["torch.float64"] * max(abs(a), 1.0))
    if isinstance(a, (str, type(None))):
        return bool(a == b)
    return type(a) is type(b)


def in_a_process(part: str, case: Case) -> dict[str, Any]:
    """``judged`` in a child of its own: what one loop does to the process is not the next one's matter."""
    command = [sys.executable, __file__, "--child", part, case.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return {"verdict": "broke off", "expected": case.expected, "told": [f"no answer in {PATIENCE} s"]}
    if done.returncode:
        return {"verdict": "broke off", "expected": case.expected, "told": done.stderr.strip().splitlines()[-3:]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def counted(details: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found = [one["verdict"] for one in details.values()]
    wanted = sum(one["expected"] == "rewrite" for one in details.values())
    row: dict[str, Any] = {"loops": len(found)} | {verdict: found.count(verdict) for verdict in VERDICTS}
    share = found.count("rewritten right") / wanted if wanted else 0.0
    return row | {"share_of_those_to_rewrite": f"{share:.0%}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        part, name = options.child
        (case,) = (case for case in cases(part) if case.name == name)
        print(json.dumps(judged(case)))
        return
    results, details = {}, {}
    for part in PARTS if options.part is None else (options.part,):
        of_part = {}
        for case in cases(part):
            if options.only and case.name not in options.only:
                continue
            of_part[case.name] = answer = in_a_process(part, case)
            print(f"{part:7}{case.name:34}{answer['verdict']:22}{'; '.join(answer['told'])[:120]}", flush=True)
        details[part] = of_part
        results[part] = counted(of_part)
        print(results[part], flush=True)
    if not (options.no_save or options.only or options.part):
        save(
            "what_share_is_rewritten",
            {"machine": describe_machine(), "results": results, "tables": tables(details), "details": details},
        )


def tables(details: dict[str, dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """By kind of loop, both parts together."""
    kind_of = {case.name: case.function.__module__.split(".")[-1] for part in PARTS for case in cases(part)}
    every = {name: one for part in details.values() for name, one in part.items()}
    return {"By kind": {kind: counted({n: one for n, one in every.items() if kind_of[n] == kind}) for kind in KINDS}}


if __name__ == "__main__":
    main()
