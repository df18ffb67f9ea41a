"""Nothing of it is seen from Python: `commit` uses it in C."""
