"""Gradient faults that were published and later fixed: the version before, the version after, one call of each."""
