"""What it finds
    A Function's forward or backward, or a plain function that the doctor is asked about, that takes its tensors to
    NumPy, computes there and comes back, where the same in torch was found, does the same, and takes at most two thirds
    of the time; at least 5 % of the watched time.

Why it matters
    Whatever NumPy computes is done by its rules: on one thread, on the CPU, by temporaries in float64 where a constant
    asks for it, and out of sight of autograd, of `torch.compile` and of `torch.func`. A backward that calls `numpy()`
    can't be differentiated again, and none of it runs on a GPU without a copy there and back.

When it is fine
    Where NumPy is as fast: its exponential and its sorting are faster than torch's on some CPUs. Such detours are not
    reported, because both were timed.

The fix
    The diff that is shown: every array is a tensor, every call of NumPy's the same call of torch's (`axis` is `dim`,
    `np.maximum(a, 0)` is `a.clamp(min=0)`, what is float64 in NumPy is float64 there).

References
    The notes of the PyTorch documentation on extending torch with NumPy and SciPy.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import TorchTwin
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW310", "numpy-detour", "warning", needs=(TorchTwin,), rewrite="leave_numpy")


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for twin in facts.of(TorchTwin):
        yield RULE.finding(
            subject,
            at=twin.location,
            message=f"{subject.name} computes with NumPy: {twin.share_of_step * 100:.0f} % of the step, "
            f"{twin.before_seconds / twin.after_seconds:.1f} times as long as the same in torch",
            why=f"Its tensors leave torch at `{twin.text}` and come back (tried on {twin.tried_on}).",
            hints=["stay in torch: the same operations have the same names there, or nearly"],
            evidence=[twin.id],
        )
