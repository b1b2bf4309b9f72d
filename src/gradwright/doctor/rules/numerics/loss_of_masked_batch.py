"""What it finds
    A loss that is not finite, or has a gradient that is not zero, where everything is masked or ignored.

Why it matters
    One batch of nothing but padding, and every weight is NaN: 0 divided by 0.

When it is fine
    Where a batch can't be empty by construction.

The fix
    Divide by `count.clamp(min=1)`, or skip the batch; multiply by the mask before any operation that can overflow.

References
    torch.nn.functional.cross_entropy with everything ignored is NaN by design of its mean.
"""

from gradwright.doctor.rules.rule import Rule

RULE = Rule("GW507", "loss-of-masked-batch", "error", needs=(), told_by="gw.check_loss")
