"""Mutations of bytes and of text."""

from __future__ import annotations

import random

INTERESTING = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255)
WIDE = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1,
        2**63, 2**64 - 1)  # fmt: skip
TOKENS = (
    "0", "-1", "1", "1e9", "nan", "inf", "0x10", "1_000", "true", "[]", "{}", '""', '"edge"', "'''",
    "99999999999999999999", "-9223372036854775808", "1979-05-27", "[hbm]", "[[hbm]]", "[scalar", "= =",
    "\x00", "\ufeff", "é", "a.b.c = 1", "name", "cores", "#", "\\", '"\\ud800"', "[tensor.macs_per_cycle]",
)  # fmt: skip


def some_bytes(data: bytes, rng: random.Random, other: bytes) -> bytes:
    """One to eight edits: bits, bytes, words, cuts, copies, and pieces of another input."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(8)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = rng.choice((rng.randrange(256), *INTERESTING))
        elif kind == 2:
            width = rng.choice((2, 4, 8))
            value = rng.choice(WIDE) & (1 << 8 * width) - 1
            out[at : at + width] = value.to_bytes(width, "little")
        elif kind == 3:
            del out[at : at + rng.choice((1, 2, 4, 8, rng.randrange(1, 100)))]
        elif kind == 4:
            out[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8)))
        elif kind == 5:
            out = out[:at]
        elif kind == 6:
            start, size = rng.randrange(len(other) + 1), rng.randrange(1, 64)
            out[at : at + size] = other[start : start + size]
        else:
            start, size = rng.randrange(len(out) + 1), rng.randrange(1, 64)
            out[at : at + size] = out[start : start + size]
    return bytes(out)


def some_text(text: str, rng: random.Random) -> str:
    """One to four edits of lines, values, keys and characters."""
    lines = text.split("\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(lines))
        key, equals, value = lines[at].partition("=")
        kind = rng.randrange(8)
        if kind == 0:
            lines[at] = f"{key}{equals} {rng.choice(TOKENS)}"
        elif kind == 1:
            lines[at] = f"{key}{equals} {rng.choice((-1, 1)) * rng.choice(WIDE)}"
        elif kind == 2:
            lines.insert(at, rng.choice(lines))
        elif kind == 3:
            del lines[at]
            lines = lines or [""]
        elif kind == 4:
            lines[at] = f"{rng.choice(lines).partition('=')[0]}{equals}{value}"
        elif kind == 5:
            place = rng.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:place] + rng.choice(TOKENS) + lines[at][place:]
        elif kind == 6:
            place = rng.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:place] + chr(rng.randrange(0xD800)) + lines[at][place + 1 :]
        else:
            lines = lines[: at + 1]
    return "\n".join(lines)
