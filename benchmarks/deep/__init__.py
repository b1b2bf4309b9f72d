"""Networks that get deeper, and what their memory is measured with."""
