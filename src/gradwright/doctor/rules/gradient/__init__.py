"""Rules GW1xx: the value of a gradient."""
