"""What it finds
    A loss whose reductions disagree: "mean" is not "sum" divided by the number of elements, or "sum" not the sum of
    "none".

Why it matters
    The learning rate that was found with one of them is wrong for the other, and accumulation over micro-batches does
    not give the big batch.

When it is fine
    Weighted means, which divide by the sum of weights: this is recognised where a weight, a mask or an ignored class is
    given.

The fix
    Compute the elements once and reduce them at the end.

References
    torch.nn.functional's losses, whose reductions are consistent.
"""

from gradwright.doctor.rules.rule import Rule

RULE = Rule("GW505", "loss-reduction-inconsistent", "error", needs=(), told_by="gw.check_loss")
