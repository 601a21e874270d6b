"""What a Mask accepts, refuses and remembers."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pairframe import errors
from pairframe.masks import Mask

BINARY = hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12))


@given(BINARY, st.sampled_from([np.uint8, np.int64, np.float32, ">u2"]), st.sampled_from([1, 255]))
def test_zero_and_one_or_255_is_binary_in_every_dtype(inside, dtype, high):
    mask = Mask.from_array(inside.astype(dtype) * np.array(high, dtype))
    assert mask.values.dtype == bool
    assert mask.is_binary
    np.testing.assert_array_equal(mask.values, inside)


@pytest.mark.parametrize("values", [[[0, 1, 255]], [[0, 2]], [[0, 0.5, 1]], [[0, 254.5, 255]], [[1, 255]]])
def test_a_third_value_makes_it_a_grey_image(values):
    with pytest.raises(errors.GreyImageError, match=r'mass_mode="intensity".*"labels.tif:3" or "labels.tif:all"'):
        Mask.from_array(values)


def test_a_third_value_is_found_behind_the_first_block():
    values = np.zeros((2100, 1024), np.uint8)
    values[0, 0], values[-1, -1] = 255, 7
    with pytest.raises(errors.GreyImageError, match="0 to 255"):
        Mask(values)


def test_a_density_keeps_its_values_and_is_not_binary():
    mask = Mask.from_array(np.array([[0, 255], [0, 255]], ">u2"), density=True)
    np.testing.assert_array_equal(mask.values, [[0, 255], [0, 255]])
    assert mask.values.dtype == np.uint16
    assert mask.values.dtype.isnative
    assert not mask.is_binary


@pytest.mark.parametrize("values", [np.ones((2, 2), bool), np.ones((2, 2), np.uint8)])
def test_the_mask_is_frozen_and_the_array_of_the_caller_is_not(values):
    mask = Mask(values)
    values[0, 0] = 0
    assert mask.area_px == 4
    with pytest.raises(ValueError, match="read-only"):
        mask.values[0, 0] = False


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda mask: pickle.loads(pickle.dumps(mask))])
def test_a_copy_is_frozen_too(clone):
    mask = Mask(np.eye(3), px_size_um=0.5, source="a.tif", history=("kept",))
    twin = clone(mask)
    np.testing.assert_array_equal(twin.values, mask.values)
    assert not twin.values.flags.writeable
    assert (twin.px_size_um, twin.source, twin.history) == (0.5, "a.tif", ("kept",))


def test_areas_are_counted_in_pixels_and_micrometres():
    mask = Mask(np.tri(3, dtype=bool), px_size_um=0.5)
    assert mask.shape_hw == (3, 3)
    assert mask.area_px == 6
    assert mask.area_um2 == 1.5
    assert Mask(np.tri(3, dtype=bool)).area_um2 is None
    assert not mask.is_empty
    assert Mask(np.zeros((2, 2))).is_empty


def test_repr_is_short_and_names_what_matters():
    assert repr(Mask(np.eye(3), 0.65, "a.png")) == "Mask(3 x 3 px, binary, 3 px inside, 0.65 um/px, 'a.png')"
    assert "density float64, 3 px inside, unknown pixel size" in repr(Mask(np.eye(3) / 2, density=True))


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (np.zeros((3, 4, 5)), errors.MaskError, r"got 3 axes.*\(page= for a file\), or make a projection"),
        (np.zeros(3), errors.MaskError, "got 1 axes"),
        (np.zeros((0, 5)), errors.MaskError, "at least one pixel, got a canvas of 0 x 5"),
        (np.zeros((2, 2), complex), errors.MaskError, "got dtype complex128"),
        (np.array([["a"]]), errors.MaskError, "got dtype <U1"),
        ([[1], [1, 2]], errors.MaskError, "rectangular"),
        (np.ma.masked_equal(np.eye(2), 0), errors.MaskError, r"filled\(0\)"),
        (np.array([[0, np.nan]]), errors.MaskError, r"finite values in the mask, got nan at \(y=0, x=1\)"),
        (np.array([[0, np.inf]]), errors.MaskError, "got inf at"),
        (np.array([[0, -np.inf]]), errors.MaskError, "got -inf at"),
        (np.array([[0, -1]]), errors.MaskError, "values >= 0 in the mask, got a minimum of -1"),
    ],
)
@pytest.mark.parametrize("density", [False, True])
def test_bad_arrays_are_refused_with_advice(values, error, message, density):
    with pytest.raises(error, match=message):
        Mask(values, density=density)


@pytest.mark.parametrize("px_size_um", [0, -1, np.nan, np.inf, "0.5", True, 5e-324, 1e200, 10**400])
def test_bad_pixel_sizes_are_refused(px_size_um):
    with pytest.raises(errors.PixelSizeError, match="a finite, positive pixel size in um, got"):
        Mask(np.eye(2), px_size_um=px_size_um)


def test_importing_masks_loads_no_image_library():
    code = "import sys, pairframe.masks; print(sorted({'PIL', 'tifffile', 'zarr', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Wrapper:
    """Something that numpy can read, such as a table's column."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def read_only_view(array):
    view = array.view()
    view.flags.writeable = False
    return view


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize(
    "given_as", [np.asarray, lambda array: array.view(np.matrix), Wrapper, read_only_view, lambda array: array[::1]]
)
def test_a_mask_shares_no_memory_with_its_caller(given_as, density):
    array = np.ones((2, 3), bool)
    mask = Mask(given_as(array), density=density)
    array[:] = False
    assert mask.area_px == 6
    assert type(mask.values) is np.ndarray


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_mask_does_not_follow_a_file_that_changes(tmp_path, mode):
    np.save(tmp_path / "a.npy", np.ones((2, 3), bool))
    mask = Mask(np.load(tmp_path / "a.npy", mmap_mode=mode))
    np.load(tmp_path / "a.npy", mmap_mode="r+")[:] = False
    assert mask.area_px == 6


def test_nobody_can_thaw_a_mask():
    mask = Mask(np.eye(3))
    with pytest.raises(ValueError, match="WRITEABLE"):
        mask.values.flags.writeable = True


def test_numpy_takes_a_mask_for_its_values():
    mask = Mask(np.eye(3) / 2, density=True)
    np.testing.assert_array_equal(np.asarray(mask), np.eye(3) / 2)
    assert np.asarray(mask, dtype=np.float32).dtype == np.float32
    np.array(mask)[0, 0] = 7
    assert mask.values[0, 0] == 0.5


@pytest.mark.skipif(np.finfo(np.longdouble).max <= np.finfo(float).max, reason="longdouble is no larger than float64")
def test_a_value_beyond_float64_is_not_finite():
    with pytest.raises(errors.MaskError, match="finite values in the mask, got inf"):
        Mask(np.array([[0, np.longdouble("1e400")]]), density=True)


def test_channels_behind_the_pixels_are_suspected():
    with pytest.raises(errors.MaskError, match=r"the last axis holds 3 channels"):
        Mask(np.zeros((8, 9, 3)))
