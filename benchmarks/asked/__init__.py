"""The questions that the sources ask, one module each: ``measure(rounds, quick)`` answers with a table."""
