"""What an exercise may demand besides a right value and a right gradient: one demand per file."""
