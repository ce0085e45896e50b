"""The fast engine: the device image translated to host code."""
