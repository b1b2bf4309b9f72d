"""A call of an elementwise function: its arguments bound and checked, and what they make it do, prepared once."""
