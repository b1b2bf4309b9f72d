"""What the text says: loops, positions, facts that need no run. Standard library only."""
