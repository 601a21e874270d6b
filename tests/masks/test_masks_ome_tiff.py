"""OME-TIFFs with several images or in several files, and TIFFs with many samples."""

import numpy as np
import pytest
import tifffile

from pairframe import errors
from pairframe.masks import count_pages, read_mask

PLANES = [np.eye(6, dtype=np.uint8), np.tri(6, dtype=np.uint8), np.ones((6, 6), np.uint8)]


def save_images(path, sizes_um):
    with tifffile.TiffWriter(path, ome=True) as writer:
        for plane, size in zip(PLANES, sizes_um, strict=False):
            writer.write(plane, metadata={"axes": "YX", "PhysicalSizeX": size, "PhysicalSizeY": size})
    return path


def rewrite_xml(path, old, new):
    with tifffile.TiffFile(path) as tiff:
        xml = tiff.ome_metadata
    assert xml.count(old) == 1
    tifffile.tiffcomment(path, xml.replace(old, new).encode())
    return path


def test_each_image_of_an_ome_tiff_has_its_own_pixel_size(tmp_path):
    path = save_images(tmp_path / "a.ome.tif", (0.5, 2.0))
    assert [read_mask(f"{path}@{page}").px_size_um for page in (0, 1)] == [0.5, 2.0]
    for page in (0, 1):
        np.testing.assert_array_equal(read_mask(path, page=page).values, PLANES[page])


def test_a_stack_in_each_image_keeps_the_size_of_its_image(tmp_path):
    path = tmp_path / "a.ome.tif"
    with tifffile.TiffWriter(path, ome=True) as writer:
        for size in (0.5, 2.0):
            metadata = {"axes": "ZYX", "PhysicalSizeX": size, "PhysicalSizeY": size}
            writer.write(np.stack(PLANES), metadata=metadata, photometric="minisblack")
    assert [read_mask(path, page=page).px_size_um for page in range(6)] == [0.5] * 3 + [2.0] * 3


def test_sizes_that_cannot_be_matched_to_images_are_refused(tmp_path):
    # The first image names a page that is not there, so tifffile leaves it out.
    path = save_images(tmp_path / "a.ome.tif", (0.5, 2.0, 3.0))
    rewrite_xml(path, '<TiffData IFD="0" PlaneCount="1"/>', "")
    with pytest.raises(errors.PixelSizeError, match=r"got 3 of them for 2 images in .*save that image"):
        read_mask(path, page=0)


def save_dataset(folder):
    """Two files of one OME dataset: each holds one plane and the metadata of both."""
    for own in range(2):
        path = folder / f"m{own}.ome.tif"
        tifffile.imwrite(
            path, PLANES[own], ome=True, metadata={"axes": "YX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5}
        )
        planes = "".join(
            f'<TiffData FirstZ="{z}" IFD="0" PlaneCount="1"><UUID FileName="m{z}.ome.tif">urn:uuid:{z}</UUID></TiffData>'
            for z in range(2)
        )
        with tifffile.TiffFile(path) as tiff:
            xml = tiff.ome_metadata
        start, stop = xml.index('UUID="'), xml.index('" Creator')
        xml = (xml[:start] + f'UUID="urn:uuid:{own}' + xml[stop:]).replace('SizeZ="1"', 'SizeZ="2"')
        tifffile.tiffcomment(path, xml.replace('<TiffData IFD="0" PlaneCount="1"/>', planes).encode())


@pytest.mark.parametrize("complete", [True, False])
def test_of_an_ome_dataset_in_several_files_only_the_named_one_is_read(tmp_path, capfd, complete):
    save_dataset(tmp_path)
    if not complete:
        (tmp_path / "m0.ome.tif").unlink()
    for own in range(2) if complete else [1]:
        path = tmp_path / f"m{own}.ome.tif"
        assert count_pages(path) == 1
        for name in (path, f"{path}@0"):
            mask = read_mask(name)
            np.testing.assert_array_equal(mask.values, PLANES[own])
            assert mask.px_size_um == 0.5
    with pytest.raises(errors.FileError, match="a page from 0 to 0"):
        read_mask(tmp_path / "m1.ome.tif", page=1)
    assert capfd.readouterr() == ("", "")


def test_a_renamed_ome_tiff_is_read(tmp_path):
    save_images(tmp_path / "a.ome.tif", (0.5,)).rename(tmp_path / "b.ome.tif")
    assert read_mask(tmp_path / "b.ome.tif").px_size_um == 0.5


def test_many_samples_per_pixel_are_refused_before_decoding(tmp_path):
    pixels = np.zeros((8, 8, 30000), np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="minisblack", planarconfig="contig", compression="zlib")
    with pytest.raises(errors.GreyImageError, match=r"at most 4 channels.*got 30000 channels in 'a.tif'"):
        read_mask(tmp_path / "a.tif")


@pytest.mark.parametrize("tile", [None, (16, 16)])
def test_samples_count_against_the_limit(tmp_path, tile):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((16, 16, 3)), photometric="rgb", tile=tile)
    assert read_mask(tmp_path / "a.tif", max_pixels=768).is_empty
    with pytest.raises(errors.FileError, match=r"at most 6136 bytes, .* got 6144 bytes for 16 x 16 px"):
        read_mask(tmp_path / "a.tif", max_pixels=767)
