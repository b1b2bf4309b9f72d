"""The formulas of how_fast_is_a_formula.py and how_soon_is_a_formula_ready.py."""
