"""From findings to fixes: rewrite what a rule names a rewrite for, prove it, and write the finding again with it.

Everything that runs the user's code does so in a forked child, on copies.
"""

from gradwright.doctor.treatment.findings import treat
from gradwright.doctor.treatment.patients import Called, Patients

__all__ = ["Called", "Patients", "treat"]
