"""Arrays of all kinds become memory, without a copy."""

from __future__ import annotations

import ctypes
import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsalang._backend.errors import LaunchError
from dsalang._backend.formats import FORMATS
from dsalang._runtime.arrays import Extent, extents_of, is_array, scalar_of, view_of


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_every_format_is_recognised(fmt):
    array = np.zeros(4, fmt.storage)
    view = view_of(array, "x")
    assert view.fmt is fmt
    assert (view.address, view.stop - view.start) == (array.ctypes.data, 4 * fmt.bytes)


def test_writes_through_the_extent_reach_the_array():
    array = np.zeros(3, np.int32)
    extents, _ = extents_of([("x", view_of(array, "x"))])
    extents[0].bytes().view(np.int32)[1] = 7
    assert array.tolist() == [0, 7, 0]


def test_negative_strides_start_at_element_zero():
    base = np.arange(10, dtype=np.int16)
    view = view_of(base[::-2], "x")
    assert view.address == base.ctypes.data + 18
    assert (view.start, view.stop) == (base.ctypes.data + 2, base.ctypes.data + 20)


def test_zero_strides_reach_one_element():
    view = view_of(np.broadcast_to(np.float32(1), (5, 6)), "x")
    assert view.stop - view.start == 4
    assert not view.writable


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.sampled_from([-3, -2, -1, 1, 2, 3]), min_size=3, max_size=3),
    st.permutations(range(3)),
)
def test_extent_is_exactly_what_the_elements_touch(shape, steps, order):
    base = np.arange(int(np.prod([4 * 3] * len(shape))), dtype=np.int16).reshape([12] * len(shape))
    array = base[tuple(slice(None, None, s) for s in steps[: len(shape)])]
    array = array[tuple(slice(0, n) for n in shape)]
    array = array.transpose([d for d in order if d < len(shape)])
    places = [
        array.ctypes.data + sum(i * s for i, s in zip(index, array.strides))
        for index in np.ndindex(array.shape)
    ]
    view = view_of(array, "x")
    assert (view.start, view.stop) == (min(places), max(places) + 2)


def test_empty_array_has_no_extent():
    view = view_of(np.zeros((3, 0), np.float32), "x")
    assert extents_of([("x", view)]) == ([], [0])


def test_overlapping_arrays_share_an_extent_and_a_group():
    base = np.zeros(100, np.float32)
    other = np.zeros(5, np.float32)
    named = [("a", base[:60]), ("o", other), ("b", base[50:]), ("e", base[:0])]
    extents, groups = extents_of([(n, view_of(a, n)) for n, a in named])
    assert groups == [0, 1, 0, 2]
    assert sorted(e.names for e in extents) == [("a", "b"), ("o",)]


def test_touching_arrays_do_not_overlap():
    base = np.zeros(100, np.float32)
    halves = [("a", view_of(base[:50], "a")), ("b", view_of(base[50:], "b"))]
    extents, groups = extents_of(halves)
    assert groups == [0, 1] and len(extents) == 2


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), min_size=1, max_size=6))
def test_groups_are_the_connected_components_of_overlap(spans):
    base = np.zeros(60, np.uint8)
    views = [(str(k), view_of(base[a : a + n], str(k))) for k, (a, n) in enumerate(spans)]
    extents, groups = extents_of(views)
    leader = list(range(len(spans)))
    for _ in spans:
        for i, (a, n) in enumerate(spans):
            for j, (b, m) in enumerate(spans):
                if n and m and a < b + m and b < a + n:
                    leader[i] = leader[j] = min(leader[i], leader[j])
    same = [[leader[i] == leader[j] for j in range(len(spans))] for i in range(len(spans))]
    assert same == [[gi == gj for gj in groups] for gi in groups]
    for before, after in itertools.pairwise(extents):
        assert before.stop <= after.start


def test_read_only_array_gives_read_only_bytes():
    array = np.arange(4, dtype=np.int32)
    array.flags.writeable = False
    extents, _ = extents_of([("x", view_of(array, "x"))])
    with pytest.raises(ValueError, match="read-only"):
        extents[0].bytes()[0] = 1


def test_extent_keeps_its_owners():
    array = np.zeros(4, np.int32)
    extent: Extent = extents_of([("x", view_of(array, "x"))])[0][0]
    assert extent.owners == (array,)


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        (np.zeros(2, np.complex128), "'x' has elements of type complex128", "two float64 arrays"),
        (np.zeros(2, np.complex64), "type complex64", "two float32 arrays"),
        (np.zeros(2, object), "type object", "one of"),
        (np.zeros(2, ml_dtypes.float8_e4m3b11fnuz), "float8_e4m3b11fnuz", "one of"),
        (np.zeros(2, ">i4"), "byte order", "astype"),
        (np.zeros(2, "datetime64[s]"), "datetime64", "one of"),
    ],
)
def test_unknown_elements_are_refused(value, message, hint):
    with pytest.raises(LaunchError) as error:
        view_of(value, "x")
    assert message in error.value.message
    assert hint in error.value.hint


def test_array_interface():
    backing = np.arange(6, dtype=np.float16)

    class Owner:
        __array_interface__ = backing.__array_interface__

    owner = Owner()
    assert is_array(owner)
    view = view_of(owner, "x")
    assert (view.address, view.fmt.name, view.owner) == (backing.ctypes.data, "fp16", owner)


class FakeCuda:
    __cuda_array_interface__ = {"data": (1, False), "shape": (1,), "typestr": "<f4", "version": 3}  # noqa: RUF012


class OnlyDlpack:
    """An exporter that hides numpy's other protocols."""

    def __init__(self, array, device=(1, 0)):
        self.array = array
        self.device = device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


class OldDlpack(OnlyDlpack):
    """From before DLPack 1.0."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


@pytest.mark.parametrize("kind", [OnlyDlpack, OldDlpack])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint64, np.bool_])
def test_dlpack_is_the_same_memory(kind, dtype):
    backing = np.zeros((4, 6), dtype)
    array = backing[1::2, ::-1]
    view = view_of(kind(array), "x")
    assert view.address == array.ctypes.data
    assert (view.start, view.stop) == (view_of(array, "x").start, view_of(array, "x").stop)
    assert view.fmt.storage == np.dtype(dtype)
    assert view.writable


def test_dlpack_read_only():
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    assert not view_of(OnlyDlpack(array), "x").writable


def test_dlpack_complex_is_refused():
    with pytest.raises(LaunchError, match="complex128"):
        view_of(OnlyDlpack(np.zeros(3, np.complex128)), "x")


@pytest.mark.parametrize("value", [OnlyDlpack(np.zeros(1), device=(2, 0)), FakeCuda()])
def test_gpu_arrays_are_refused(value):
    with pytest.raises(LaunchError, match=r"'x' is on .*host memory"):
        view_of(value, "x")


def fake_torch(dtype="torch.bfloat16", device="cpu", layout="torch.strided"):
    """A stand-in for torch.Tensor: what `view_of` touches, and no more."""
    data = (ctypes.c_uint16 * 12)()

    class Device(str):
        type = device

    class Named(str):
        pass

    class Tensor:
        requires_grad = True
        shape = (3, 2)
        keep = data

        def stride(self):
            return (4, 1)

        def data_ptr(self):
            return ctypes.addressof(data)

        def __dlpack__(self):
            raise AssertionError("torch refuses this for tensors that require gradients")

    Tensor.__module__ = "torch"
    Tensor.device, Tensor.layout, Tensor.dtype = Device(device), Named(layout), Named(dtype)
    return Tensor()


def test_torch_tensor():
    tensor = fake_torch()
    assert is_array(tensor)
    view = view_of(tensor, "x")
    assert (view.fmt.name, view.address) == ("bf16", tensor.data_ptr())
    assert view.stop - view.start == (2 * 4 + 1 + 1) * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda:0"}, "is on device cuda:0"),
        ({"dtype": "torch.complex64"}, "type complex64"),
        ({"layout": "torch.sparse_coo"}, "layout torch.sparse_coo"),
    ],
)
def test_torch_tensor_refused(options, message):
    with pytest.raises(LaunchError, match=message):
        view_of(fake_torch(**options), "x")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        (True, True),
        (1.5, 1.5),
        (np.int64(7), 7),
        (np.float16(0.5), 0.5),
        (np.bool_(True), True),
        (np.array(9, np.int8), 9),
        (ml_dtypes.bfloat16(2.0), 2.0),
        (ml_dtypes.float8_e4m3fn(2.0), 2.0),
        (np.float64(0.25), 0.25),
    ],
)
def test_scalars(value, expected):
    assert not is_array(value)
    found = scalar_of(value, "n")
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("value", ["text", [1, 2], {}, 1j, np.complex64(1)])
def test_not_scalars(value):
    with pytest.raises(LaunchError, match="'n' has type"):
        scalar_of(value, "n")
