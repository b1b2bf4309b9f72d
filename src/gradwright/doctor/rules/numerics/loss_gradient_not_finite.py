"""What it finds
    A loss whose value is fine and whose gradient is NaN or infinite there: at a perfect prediction, at zero, at large
    values.

Why it matters
    The training goes well until the first sample that hits that point; one step later every weight is NaN.

When it is fine
    Never; but a point that can't occur may be left out by giving predictions and targets of one's own.

The fix
    Guard the input of the operation that has no finite slope there (`sqrt`, `log`, a division, a norm), not only its
    result: the safe double `where`, an epsilon inside the root, `logsigmoid` and `logsumexp` for logarithms.

References
    pytorch/pytorch#2421 (a NaN out of the branch not taken).
"""

from gradwright.doctor.rules.rule import Rule

RULE = Rule("GW503", "loss-gradient-not-finite", "error", needs=(), told_by="gw.check_loss")
