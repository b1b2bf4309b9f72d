"""The doctor: run a script, watch it, try what it met, judge, mend, report."""
