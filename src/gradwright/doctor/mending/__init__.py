"""Fixes of a session become changed files: which of them, how they go together, how they are written and told.

A file gets its new text whole or not at all, and only while it is the very text that the fixes were tried on.
"""
