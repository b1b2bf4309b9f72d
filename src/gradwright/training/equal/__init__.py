"""Behind ``check_equivalence``: a gradient computed both ways, and why they differ."""
