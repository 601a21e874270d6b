"""Movies and thumbnails are files that other programs open."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

import pairframe as pf
from pairframe.errors import InputError, OutputError
from pairframe.report.figures import morph_strip, new_figure, thumbnail, write_movie
from pairframe.report.figures.movie import CAPTION_PX, movie_frames
from pairframe.report.style import CREATED_COLOUR, DESTROYED_COLOUR, MOVED_COLOUR, rgb
from pairframe.testing import disc, growing_embryo

SHAPE = (40, 60)


@pytest.fixture(scope="module")
def result() -> pf.TransportResult:
    return pf.compare(disc(SHAPE, (18, 20), 8), disc(SHAPE, (22, 30), 11), pf.TransportConfig(px_size_um=2.0))


def has_colour(picture: np.ndarray, colour: str, at_least: int = 20) -> bool:
    return (np.abs(picture[..., :3] / 255 - rgb(colour)).max(axis=-1) < 0.06).sum() >= at_least


@pytest.mark.parametrize("name", ["morph.gif", "morph.png", "morph.apng", "MORPH.GIF"])
def test_a_movie_has_all_its_frames_and_repeats(result: pf.TransportResult, tmp_path: Path, name: str) -> None:
    path = write_movie(result, tmp_path / name, n=7)
    with Image.open(path) as movie:
        assert movie.n_frames == 7
        assert movie.info["loop"] == 0
        durations = [frame.info["duration"] for frame in ImageSequence.Iterator(movie)]
        assert durations[0] > 5 * durations[1]
        assert durations[-1] > 5 * durations[1]
        pictures = [np.array(frame.convert("RGB")) for frame in ImageSequence.Iterator(movie)]
    assert all(np.any(one != other) for one, other in pairwise(pictures))
    assert all((picture[1, 1] == 255).all() for picture in pictures)  # paper is white, in every frame
    assert path.stat().st_size < 300_000


def test_the_movie_shows_what_moves_and_names_its_colours() -> None:
    config = pf.TransportConfig(reach_um=4.0)  # a part stays, the rest is new
    grown = pf.compare(disc(SHAPE, (20, 15), 8), disc(SHAPE, (20, 15), 8) | disc(SHAPE, (20, 45), 8), config)
    first, *_, last = (np.array(picture) for picture in movie_frames(grown, 3))
    for picture in (first, last):
        for colour in (MOVED_COLOUR, CREATED_COLOUR, DESTROYED_COLOUR):
            assert has_colour(picture[-CAPTION_PX:], colour)  # the legend
    assert has_colour(last[:-CAPTION_PX], CREATED_COLOUR)
    assert not has_colour(first[:-CAPTION_PX], CREATED_COLOUR)
    assert has_colour(first[:-CAPTION_PX], MOVED_COLOUR)


def test_an_unconverged_movie_says_so(result: pf.TransportResult) -> None:
    config = pf.TransportConfig(max_iterations=1)
    stopped = pf.compare(disc(SHAPE, (18, 20), 8), disc(SHAPE, (22, 30), 11), config)
    assert has_colour(np.array(next(movie_frames(stopped, 2))), "#B03000", at_least=1000)


@pytest.mark.parametrize(
    "pair",
    [
        (disc(SHAPE, (18, 20), 8), np.zeros(SHAPE, bool)),
        (np.zeros(SHAPE, bool), disc(SHAPE, (18, 20), 8)),
        (np.ones((1, 1), bool), np.ones((1, 1), bool)),
        (np.ones((200, 3), bool), np.ones((200, 3), bool)),
        (np.ones((3, 900), bool), np.ones((3, 900), bool)),
    ],
    ids=["empty target", "empty source", "one pixel", "tall", "longer than the screen"],
)
def test_edge_cases_have_a_movie_and_a_thumbnail(pair, tmp_path: Path) -> None:
    found = pf.compare(*pair)
    with Image.open(write_movie(found, tmp_path / "m.gif", n=3)) as movie:
        assert max(movie.size) < 700
        assert min(movie.size) > CAPTION_PX
    with Image.open(io.BytesIO(thumbnail(found, 64))) as small:
        assert max(small.size) == 64


def test_other_endings_and_places_are_refused(result: pf.TransportResult, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"ending in \.gif, \.png, \.apng.*morph\.mp4"):
        write_movie(result, tmp_path / "morph.mp4")
    with pytest.raises(OutputError, match="a place to write the movie"):
        write_movie(result, tmp_path / "nowhere" / "morph.gif", n=2)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="n to be an integer >= 2"):
        write_movie(result, tmp_path / "morph.gif", n=1)


def test_a_thumbnail_is_small_and_shows_what_was_created_and_destroyed() -> None:
    early, late = growing_embryo(6)[1:4:2]
    found = pf.compare(early, late, pf.TransportConfig(downsample_factor=2, reach_um=10.0))
    content = thumbnail(found)
    assert len(content) < 4000
    with Image.open(io.BytesIO(content)) as small:
        assert max(small.size) == 160
        picture = np.array(small.convert("RGB"))
    assert has_colour(picture, CREATED_COLOUR)
    assert has_colour(picture, MOVED_COLOUR)
    assert (picture[0, 0] == 255).all()


def test_the_thumbnail_of_noise_is_still_small() -> None:
    rng = np.random.default_rng(0)
    noise = [rng.random((160, 160)) < 0.5 for _ in "ab"]
    assert len(thumbnail(pf.compare(*noise, pf.TransportConfig(max_iterations=20)))) < 30_000


def test_one_pixel_of_a_huge_frame_is_seen_in_a_thumbnail() -> None:
    masks = np.zeros((2, 700, 900), bool)
    masks[0, 20, 30] = masks[1, 20, 30] = masks[1, 680, 880] = True
    with Image.open(io.BytesIO(thumbnail(pf.compare(*masks), 128))) as small:
        picture = np.array(small.convert("RGB"))
    assert has_colour(picture, CREATED_COLOUR, at_least=1)


@pytest.mark.parametrize("size", [0, 7, 5000, 1.5, True, None])
def test_a_thumbnail_has_a_size_that_makes_sense(result: pf.TransportResult, size) -> None:
    with pytest.raises(InputError, match="size to be an integer"):
        thumbnail(result, size)


def test_a_strip_has_its_times(result: pf.TransportResult) -> None:
    figure = morph_strip(result, new_figure(9, 3), n=4)
    assert [ax.get_title() for ax in figure.axes] == ["t = 0.00", "t = 0.33", "t = 0.67", "t = 1.00"]
