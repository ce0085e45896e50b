"""Kernels of realistic shape in dsa IR, as the place pass makes them."""

from __future__ import annotations

from typing import Any

from sync_kernels import R

Suite = dict[str, tuple[dict[str, R], list[Any]]]

SUITE: Suite = {
    "add": (
        {"x": R(), "y": R(), "o": R()},
        [
            ("acq", "x"), ("ld", "x", {"arg": 0}), ("acq", "y"), ("ld", "y", {"arg": 1}),
            ("acq", "o"), ("ve", ["x", "y"], ["o"]), ("st", "o", {"arg": 2}),
        ],
    ),
    "matmul": (
        {"acc": R(1), "a": R(), "b": R(), "o": R()},
        [
            ("acq", "acc"), ("ve", [], ["acc"]),
            ("for", [
                ("acq", "a"), ("ld", "a", {"arg": 0}), ("acq", "b"), ("ld", "b", {"arg": 1}),
                ("mm", "a", "b", "acc"),
            ]),
            ("acq", "o"), ("ve", ["acc"], ["o"]), ("st", "o", {"arg": 2}),
        ],
    ),
    "softmax": (
        {"x": R(), "top": R(1), "e": R(1), "sum": R(1), "o": R()},
        [
            ("acq", "x"), ("ld", "x", {"arg": 0}), ("acq", "top"), ("ve", ["x"], ["top"]),
            ("acq", "e"), ("ve", ["x", "top"], ["e"]), ("acq", "sum"), ("ve", ["e"], ["sum"]),
            ("acq", "o"), ("ve", ["e", "sum"], ["o"]), ("st", "o", {"arg": 1}),
        ],
    ),
    "layernorm": (
        {"m": R(1), "v": R(1), "x0": R(), "x1": R(), "x2": R(), "w": R(), "b": R(), "o": R()},
        [
            ("acq", "m"), ("ve", [], ["m"]),
            ("for", [("acq", "x0"), ("ld", "x0", {"arg": 0}), ("ve", ["x0", "m"], ["m"])]),
            ("acq", "v"), ("ve", [], ["v"]),
            ("for", [("acq", "x1"), ("ld", "x1", {"arg": 0}), ("ve", ["x1", "m", "v"], ["v"])]),
            ("for", [
                ("acq", "x2"), ("ld", "x2", {"arg": 0}), ("acq", "w"), ("ld", "w", {"arg": 1}),
                ("acq", "b"), ("ld", "b", {"arg": 2}), ("acq", "o"),
                ("ve", ["x2", "m", "v", "w", "b"], ["o"]), ("st", "o", {"arg": 3}),
            ]),
        ],
    ),
    "attention": (
        {
            "q": R(), "k": R(), "v": R(), "s": R(), "p": R(), "m": R(1), "l": R(1), "acc": R(1),
            "a": R(1), "o": R(),
        },
        [
            ("acq", "q"), ("ld", "q", {"arg": 0}), ("acq", "m"), ("ve", [], ["m"]),
            ("acq", "l"), ("ve", [], ["l"]), ("acq", "acc"), ("ve", [], ["acc"]),
            ("for", [
                ("acq", "k"), ("ld", "k", {"arg": 1}), ("acq", "s"), ("mm", "q", "k", "s"),
                ("acq", "a"), ("ve", ["s", "m"], ["a", "m"]), ("acq", "p"), ("ve", ["s", "m"], ["p"]),
                ("ve", ["l", "a", "p"], ["l"]), ("ve", ["acc", "a"], ["acc"]),
                ("acq", "v"), ("ld", "v", {"arg": 2}), ("mm", "p", "v", "acc"),
            ]),
            ("acq", "o"), ("ve", ["acc", "l"], ["o"]), ("st", "o", {"arg": 3}),
        ],
    ),
    "gather": (
        {"i": R(), "x": R()},
        [
            ("acq", "i"), ("ld", "i", {"arg": 0}), ("acq", "x"), ("ld", "x", "i", {"arg": 1}),
            ("st", "x", {"arg": 2}),
        ],
    ),
    "histogram": (
        {"x": R(), "off": R(), "one": R()},
        [
            ("acq", "x"), ("ld", "x", {"arg": 0}), ("acq", "off"), ("ve", ["x"], ["off"]),
            ("acq", "one"), ("ve", [], ["one"]), ("atomic", "one", "off", {"arg": 1}),
        ],
    ),
    "while": (
        {"x": R(), "s": R(1), "o": R()},
        [
            ("acq", "x"), ("ld", "x", {"arg": 0}),
            ("while", [("acq", "s"), ("ve", ["x"], ["s"]), ("read", "s")], [("ve", ["x"], ["x"])]),
            ("acq", "o"), ("ve", ["x"], ["o"]), ("st", "o", {"arg": 1}),
        ],
    ),
    "prefix": (
        {"x": R(), "n": R(1), "o": R(), "c": R(1)},
        [
            ("acq", "n"), ("ld", "n", {"arg": 0}), ("read", "n"), ("acq", "c"), ("ve", [], ["c"]),
            ("while", [], [
                ("acq", "x"), ("ld", "x", {"arg": 1}), ("acq", "o"), ("ve", ["x", "c"], ["o", "c"]),
                ("st", "o", {"arg": 2}),
            ]),
        ],
    ),
    "nested": (
        {"a": R(), "b": R(), "c": R(3), "acc": R(2), "t": R(1), "o": R()},
        [
            ("for", [
                ("acq", "a"), ("ld", "a", {"arg": 0}),
                ("for", [
                    ("acq", "acc"), ("ve", [], ["acc"]), ("acq", "b"), ("ld", "b", {"arg": 1}),
                    ("for", [
                        ("acq", "c"), ("ld", "c", {"arg": 2}), ("acq", "t"), ("ve", ["c", "a"], ["t"]),
                        ("mm", "t", "b", "acc"),
                    ]),
                    ("acq", "o"), ("ve", ["acc", "a"], ["o"]), ("st", "o", {"arg": 3}),
                ]),
            ]),
        ],
    ),
    "branches": (
        {"x": R(), "y": R(), "o": R(), "n": R(1)},
        [
            ("acq", "x"), ("ld", "x", {"arg": 0}), ("acq", "o"), ("acq", "n"), ("ld", "n", {"arg": 4}),
            ("read", "n"),
            ("if", [("acq", "y"), ("ld", "y", {"arg": 1}), ("ve", ["x", "y"], ["o"])],
                   [("mm", "x", "x", "o")]),
            ("st", "o", {"arg": 2}),
        ],
    ),
    "shared_memory": (
        {"x": R(2, 0), "t": R(1, 128), "u": R(1, 256), "w": R(1, 128), "o": R(2, 512)},
        [
            ("acq", "x"), ("ld", "x", {"arg": 0}), ("acq", "t"), ("ve", ["x"], ["t"]),
            ("acq", "u"), ("mm", "t", "t", "u"), ("acq", "w"), ("ve", ["u"], ["w"]),
            ("acq", "o"), ("mm", "w", "w", "o"), ("st", "o", {"arg": 1}),
        ],
    ),
    "in_place_loop": (
        {"x": R(), "o": R()},
        [
            ("for", [
                ("acq", "x"), ("ld", "x", {"arg": 0}), ("acq", "o"), ("ve", ["x"], ["o"]),
                ("st", "o", {"arg": 0}),
            ]),
        ],
    ),
}  # fmt: skip
