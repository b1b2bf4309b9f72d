"""Custom Functions of published packages: which versions, how each Function is called, what is true of it."""
