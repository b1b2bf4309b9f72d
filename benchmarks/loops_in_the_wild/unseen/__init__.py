"""Not looked at while the compiler was written."""
