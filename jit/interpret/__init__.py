"""The interpreter: kernels as plain Python over numpy. Shares no code with the compiler or the numerics."""
