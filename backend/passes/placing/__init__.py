"""The parts of the place pass."""
