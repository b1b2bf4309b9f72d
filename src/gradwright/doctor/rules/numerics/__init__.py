"""Rules GW5xx: NaN, infinity, and what leads there."""
