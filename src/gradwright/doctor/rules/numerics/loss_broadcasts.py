"""What it finds
    A loss that takes a prediction of shape (n, 1) with a target of shape (n,) without a word, and returns the mean over
    all n * n pairs.

Why it matters
    Every prediction is pulled towards the mean of all targets. Nothing fails, and the loss even falls.

When it is fine
    Where broadcasting is the point.

The fix
    Compare the shapes at the top of the loss, and raise; `target.view_as(prediction)` where it is called.

References
    The warning of torch.nn.functional.mse_loss on sizes that differ.
"""

from gradwright.doctor.rules.rule import Rule

RULE = Rule("GW506", "loss-broadcasts", "info", needs=(), told_by="gw.check_loss")
