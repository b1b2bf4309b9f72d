"""The commands, one file each: arguments in, exit code out. What they do is done elsewhere, and loaded when it is."""
