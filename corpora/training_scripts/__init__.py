"""Training scripts as people write them, clean, and faults to plant in them."""
