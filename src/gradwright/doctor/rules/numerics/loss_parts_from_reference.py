"""What it finds
    A loss that equals a known one (given as `references=`) in one region of the error and parts from it in another.

Why it matters
    It says where the formula, or the branch, is another than was meant.

When it is fine
    Where it is meant to differ.

The fix
    Compare the formula of that region with the reference's.

References
    The reference that was given.
"""

from gradwright.doctor.rules.rule import Rule

RULE = Rule("GW508", "loss-parts-from-reference", "warning", needs=(), told_by="gw.check_loss")
