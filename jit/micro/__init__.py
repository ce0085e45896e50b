"""Microkernels in the front end: declaring and registering them, choosing between them and generated code."""
