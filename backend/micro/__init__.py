"""Microkernels: functions that write a call's instructions themselves (docs/microkernels.md).

`contract` says what one is, `writer` is what it writes with, `tiles` and `scalars` what it writes about, `vector`
traces vector programs, `bounds` holds an instruction to the tiles that it was given.
"""
