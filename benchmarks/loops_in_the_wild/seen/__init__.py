"""Looked at while the compiler was written."""
