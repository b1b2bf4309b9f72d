"""What it finds
    A loss with a shape that no loss of its kind has: negative, not zero at a perfect prediction, falling as the error
    grows, with a jump, with a gradient of the wrong sign, or steeper than was declared. The cause says which, the
    message where.

Why it matters
    The optimizer goes where the loss is low, and there the prediction is wrong. A loss that falls with a growing error
    is the first sign of two masks that don't complement each other, long before the overflow.

When it is fine
    Losses that are meant so: a critic's, a log-likelihood of a density, a redescending robust loss. Say so:
    `nonnegative=False`, `minimum_at_target=False`.

The fix
    Look at the branch that is in force where the message says it happens.

References
    Huber 1964; a Huber loss whose second mask is one minus the error.
"""

from gradwright.doctor.rules.rule import Rule

RULE = Rule("GW504", "loss-shape-wrong", "error", needs=(), told_by="gw.check_loss")
