"""Watch a script while it runs: cheaply, changing no result, keeping detached specimens of what passes by."""
