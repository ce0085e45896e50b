"""Where sync puts semaphores, on kernels written by hand."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from sync_kernels import R, kernel, machine, pair_count, steps_text
from sync_oracle import credits_of, races, record, simulate
from sync_suite import SUITE

from dsalang._backend.dialects import dsa, parse_ir, print_ir
from dsalang._backend.dialects.locations import from_ir
from dsalang._backend.errors import InternalError
from dsalang._backend.passes.check import find_hazards
from dsalang._backend.passes.check_deletion import deletion_report
from dsalang._backend.passes.sync import sync
from dsalang._backend.target import Target

OWN = list(range(8))


def synced(
    rings: dict[str, R], steps: list[Any], target: Target | None = None, alias: list[int] = OWN
) -> tuple[str, list[int]]:
    """The kernel after sync as text, and its credits; checked on the way."""
    target = target or machine()
    module = kernel(rings, steps, alias)
    sync(module, target)
    module.verify()
    assert find_hazards(module, target) == []
    return steps_text(module), credits_of(module)


def expect(text: str) -> str:
    return textwrap.dedent(text).strip()


def test_double_buffered_add() -> None:
    text, credits = synced(*SUITE["add"])
    assert text == expect("""
        for
          LD wait 1
          dma.load
          dma.load
          LD set 0
          VE wait 0
          VE wait 3
          vexec
          VE set 1
          VE set 2
          ST wait 2
          dma.store
          ST set 3
    """)
    assert credits == [0, 2, 0, 2]


def test_a_slot_held_for_a_turn_is_handed_over_in_the_next_iteration() -> None:
    steps = [
        ("acq", "x"),
        ("held", "x", 1, "before"),
        ("if", [("ld", "x")], []),
        ("if", [("ve", ["before"], [])], []),
    ]
    text, credits = synced({"x": R(3)}, steps)
    assert text == expect("""
        for
          LD wait 1
          if
            dma.load
          --
          LD set 0
          VE wait 0
          if
            vexec
          --
          VE set 1
    """)
    assert credits == [1, 2]


def test_matmul_prefetches_in_the_k_loop_and_across_programs() -> None:
    text, credits = synced(*SUITE["matmul"])
    assert text == expect("""
        for
          vexec
          VE set 0
          MM wait 0
          for
            LD wait 5
            dma.load
            dma.load
            LD set 4
            MM wait 4
            mma
            MM set 5
          MM set 1
          VE wait 1
          VE wait 3
          vexec
          VE set 2
          ST wait 2
          dma.store
          ST set 3
    """)
    assert credits == [0, 0, 0, 2, 0, 2]


def test_one_slot_means_one_credit() -> None:
    _, credits = synced({"x": R(1)}, [("acq", "x"), ("ld", "x"), ("st", "x")])
    assert sorted(credits) == [0, 1]


def test_credits_stay_within_what_a_semaphore_counts() -> None:
    _, credits = synced({"x": R(9)}, [("acq", "x"), ("ld", "x"), ("st", "x")], machine(8, 3))
    assert sorted(credits) == [0, 3]


def test_a_load_waits_for_its_index_vector_on_its_own_queue() -> None:
    text, _ = synced(
        {"i": R(), "x": R()}, [("acq", "i"), ("ld", "i"), ("acq", "x"), ("ld", "x", "i")]
    )
    assert text == expect("""
        for
          dma.load
          LD set 0
          LD wait 0
          dma.load
    """)


def test_an_atomics_old_values_are_read_by_a_store_of_the_same_queue() -> None:
    text, _ = synced(
        {"x": R(), "off": R(), "old": R()},
        [("acq", "x"), ("acq", "off"), ("acq", "old"), ("atomic", "x", "off", "old", {"arg": 0}),
         ("st", "old", {"arg": 1})],
    )  # fmt: skip
    assert text == expect("""
        for
          dma.atomic
          ST set 0
          ST wait 0
          dma.store
    """)


@pytest.mark.parametrize("first", ["atomic", "st"])
def test_an_atomic_waits_for_a_store_but_not_for_an_atomic(first: str) -> None:
    before = ("st", "x", {"arg": 0}) if first == "st" else ("atomic", "x", "off", {"arg": 0})
    steps = [("acq", "x"), ("acq", "off"), before, ("atomic", "x", "off", {"arg": 0})]
    text, _ = synced({"x": R(), "off": R()}, [("for", steps)])
    assert ("ST set 0" in text) == (first == "st")


def test_hbm_order_is_kept_within_a_program_but_not_between_programs() -> None:
    rings = {"x": R(1), "y": R(1)}
    steps = [("acq", "x"), ("st", "x", {"arg": 0}), ("acq", "y"), ("ld", "y", {"arg": 1})]
    text, credits = synced(rings, steps)
    assert "set" not in text
    text, credits = synced(rings, steps, alias=[0, 0])
    # The second pair only keeps the first from overflowing: nothing else holds the stores back.
    assert text == expect("""
        for
          ST wait 1
          dma.store
          ST set 0
          LD wait 0
          dma.load
          LD set 1
    """)
    assert credits == [0, 2]


def test_hbm_order_is_carried_by_loops_of_a_program() -> None:
    steps = [("for", SUITE["in_place_loop"][1][0][1])]
    text, credits = synced(SUITE["in_place_loop"][0], steps)
    assert text == expect("""
        for
          for
            LD wait 2
            dma.load
            LD set 0
            VE wait 0
            vexec
            VE set 1
            ST wait 1
            dma.store
            ST set 2
    """)
    assert credits == [0, 0, 1]


def test_unknown_pointers_alias_everything() -> None:
    steps = [("acq", "x"), ("st", "x", {"arg": -1}), ("acq", "y"), ("ld", "y", {"arg": 1})]
    text, _ = synced({"x": R(1), "y": R(1)}, steps)
    assert "ST set 0\n  LD wait 0\n  dma.load" in text


def test_rings_that_share_memory_are_ordered() -> None:
    apart = {"x": R(1, 0), "y": R(1, 64)}
    shared = {"x": R(1, 0), "y": R(1, 60)}
    steps = [("acq", "x"), ("ve", [], ["x"]), ("acq", "y"), ("mm", "y", "y", "y")]
    assert "set" not in synced(apart, steps)[0]
    text, credits = synced(shared, steps)
    assert text == expect("""
        for
          VE wait 1
          vexec
          VE set 0
          MM wait 0
          mma
          MM set 1
    """)
    assert credits == [0, 1]


def test_a_scalar_read_waits_for_its_producer_only() -> None:
    text, _ = synced(
        {"s": R(2), "x": R(2)},
        [("acq", "x"), ("ld", "x"), ("acq", "s"), ("ve", [], ["s"]), ("read", "s")],
    )
    assert text == expect("""
        for
          dma.load
          vexec
          VE set 0
          CORE wait 0
          read
    """)


def test_what_the_control_core_knows_needs_no_semaphore() -> None:
    text, _ = synced(
        {"s": R(1)}, [("acq", "s"), ("ld", "s"), ("read", "s"), ("ve", ["s"], ["s"]), ("read", "s")]
    )
    assert text == expect("""
        for
          dma.load
          LD set 0
          CORE wait 0
          read
          vexec
          VE set 1
          CORE wait 1
          read
    """)


def test_a_ring_of_a_branch_keeps_its_pairs_in_the_branch() -> None:
    text, credits = synced(
        {"x": R(2)}, [("if", [("acq", "x"), ("ld", "x"), ("ve", ["x"], [])], [])]
    )
    assert text == expect("""
        for
          if
            LD wait 1
            dma.load
            LD set 0
            VE wait 0
            vexec
            VE set 1
          --
    """)
    assert credits == [0, 2]


def test_uses_in_the_arms_of_a_branch_are_ordered_around_it() -> None:
    text, _ = synced(
        {"x": R(2)}, [("acq", "x"), ("ld", "x"), ("if", [("ve", ["x"], [])], [("st", "x")])]
    )
    assert text == expect("""
        for
          LD wait 2
          LD wait 3
          dma.load
          LD set 0
          LD set 1
          VE wait 0
          ST wait 1
          if
            vexec
          --
            dma.store
          VE set 2
          ST set 3
    """)


def test_the_regions_of_a_while_are_ordered_by_draining() -> None:
    text, credits = synced(
        {"x": R(1)}, [("acq", "x"), ("while", [("mm", "x", "x", "x")], [("ve", ["x"], ["x"])])]
    )
    assert text == expect("""
        for
          while
            VE set 0
            CORE wait 0
            mma
          --
            MM set 0
            CORE wait 0
            vexec
    """)
    assert credits == [0]


def test_signals_stand_at_the_lines_they_guard() -> None:
    module = kernel(
        {"x": R(2)}, [("acq", "x"), ("for", [("ld", "x")]), ("for", [("ve", ["x"], [])])]
    )
    sync(module, machine())
    lines = {}
    for op in module.walk():
        loc = from_ir(op.location)
        if loc and isinstance(op, dsa.IssueOp):
            lines[op.op.data] = loc.line
    engine_line = {0: lines["dma.load"], 3: lines["vexec"]}
    signals = [op for op in module.walk() if isinstance(op, (dsa.SetOp, dsa.WaitOp))]
    assert len(signals) == 4
    for op in signals:
        loc = from_ir(op.location)
        assert loc is not None and loc.line == engine_line[op.engine.value.data]


TEXT = """
builtin.module {
  func.func @k(%x: i64, %n: i32) attributes {dsa.alias = array<i64: 0, -1>} {
    %r = "dsa.ring"() <{label = "x", bytes = 64 : i64, slots = 2 : i64, address = 0 : i64,
                        shape = array<i64: 16>, fmt = "fp32"}> : () -> !dsa.ring
    %core = "dsa.core_id"() : () -> i32
    %cores = "dsa.num_cores"() : () -> i32
    scf.for %program = %core to %n step %cores : i32 {
      %s = "dsa.acquire"(%r) : (!dsa.ring) -> !dsa.slot
      "dsa.issue"(%s, %x) <{op = "dma.load", bind = ["sram", "hbm"], fields = {}, hbm_arg = 0 : i64}>
        : (!dsa.slot, i64) -> ()
      "dsa.issue"(%s, %x) <{op = "dma.store", bind = ["sram", "hbm"], fields = {}, hbm_arg = 0 : i64}>
        : (!dsa.slot, i64) -> ()
      scf.yield
    }
    func.return
  }
}
"""


def test_from_ir_text() -> None:
    module = parse_ir(TEXT)
    sync(module, machine())
    assert find_hazards(module, machine()) == []
    function = next(iter(module.ops))
    assert str(function.attributes["dsa.credits"]) == "array<i64: 0, 2>"
    assert steps_text(parse_ir(print_ir(module))) == expect("""
        for
          LD wait 1
          dma.load
          LD set 0
          ST wait 0
          dma.store
          ST set 1
    """)


def test_a_ring_without_an_address_is_a_bug() -> None:
    module = kernel({"x": R(2, at=-1)}, [("acq", "x"), ("ld", "x")])
    with pytest.raises(InternalError, match="not allocated"):
        sync(module, machine())


def test_a_kernel_without_accesses_gets_no_semaphores() -> None:
    assert synced({}, [("for", [])]) == ("for\n  for", [])


@pytest.mark.parametrize("most", [15, 2, 1])
@pytest.mark.parametrize("semaphores", [32, 8, 4, 3, 2])
@pytest.mark.parametrize("name", list(SUITE))
def test_suite_is_safe_on_any_target(name: str, semaphores: int, most: int) -> None:
    target = machine(semaphores, most)
    module = kernel(*SUITE[name])
    sync(module, target)
    module.verify()
    assert find_hazards(module, target) == []
    credits = credits_of(module)
    assert len(credits) <= semaphores
    for seed in range(3):
        trace = record(module, seed)
        assert races(trace, credits, OWN) == []
        assert simulate(trace, credits, most, 1 + 7 * seed, seed) == ""


@pytest.mark.parametrize("name", list(SUITE))
def test_no_pair_of_the_suite_is_redundant(name: str) -> None:
    target = machine()
    module = kernel(*SUITE[name])
    sync(module, target)
    report = deletion_report(module, target)
    assert report.pairs == pair_count(module)
    assert (report.caught, report.redundant) == (report.pairs, 0), report.redundant_at
