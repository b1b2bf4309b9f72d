"""Questions on custom gradients, one module each: ``measure(rounds, quick)`` answers with a table."""
