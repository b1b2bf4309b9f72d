"""The session: plain data, its journal, and its JSON. Standard library only; the whole doctor reads it."""
