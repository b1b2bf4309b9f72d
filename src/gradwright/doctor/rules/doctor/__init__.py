"""The doctor about its own work: what was not examined, and why."""
