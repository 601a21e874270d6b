"""Volumes: `compare` on (Z, Y, X) masks with voxels as they are, against planted truth, 2-D, and the dense oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pairframe as pf
from pairframe import errors
from pairframe.maps.motion import decompose_motion
from pairframe.results.rows import result_row

VOXEL_UM = (2.5, 1.0, 1.0)


def ball(shape: tuple[int, int, int], centre_px: tuple[float, ...], radius_um: float, voxel_um=VOXEL_UM) -> np.ndarray:
    grid = np.meshgrid(*(np.arange(n, dtype=float) for n in shape), indexing="ij", sparse=True)
    return sum(((x - c) * h) ** 2 for x, c, h in zip(grid, centre_px, voxel_um, strict=True)) <= radius_um**2


@pytest.fixture(scope="module")
def shifted() -> pf.TransportResult:
    shape = (20, 34, 38)
    source, target = ball(shape, (8, 14, 14), 11.0), ball(shape, (10, 17, 18), 11.0)
    return pf.compare(source, target, pf.TransportConfig(px_size_um=VOXEL_UM))


def test_a_shifted_ball_shows_only_the_shift_in_um(shifted: pf.TransportResult) -> None:
    assert shifted.status == "converged"
    moved = shifted.velocity_field[shifted.velocity_valid]
    np.testing.assert_allclose(moved, np.broadcast_to((5.0, 3.0, 4.0), moved.shape), atol=1e-3 * np.sqrt(50))
    assert shifted.total_mass_created <= 1e-6 * shifted.M_target
    assert shifted.mean_displacement_um == pytest.approx(np.sqrt(50), rel=1e-6)
    assert shifted.divergence_length_um == pytest.approx(np.sqrt(50), rel=1e-5)
    assert shifted.transport_length_um == pytest.approx(np.sqrt(50), rel=1e-5)
    assert shifted.motion.shift_yx == pytest.approx((5.0, 3.0, 4.0), abs=1e-5)
    assert shifted.motion.shift_share == pytest.approx(1.0, abs=1e-9)


def test_volumes_are_in_cubic_micrometres(shifted: pf.TransportResult) -> None:
    n_voxels = int(ball((20, 34, 38), (8, 14, 14), 11.0).sum())
    assert shifted.M_source == n_voxels
    assert shifted.volume_source_um3 == pytest.approx(2.5 * n_voxels)
    assert np.isnan(shifted.area_source_um2)
    assert f"{2.5 * n_voxels:.6g} um^3" in shifted.summary()
    row = result_row(shifted, "pair")
    assert row["volume_moved_um3"] == pytest.approx(2.5 * n_voxels, rel=1e-5)
    assert row["mean_displacement_dz_um"] == pytest.approx(5.0, abs=1e-4)
    assert row["mean_displacement_dx_um"] == pytest.approx(4.0, abs=1e-4)
    assert (row["px_size_z_um"], row["px_size_um"]) == (2.5, 1.0)
    assert (row["canon_depth_px"], row["canon_height_px"], row["canon_width_px"]) == (20, 34, 38)
    assert np.isnan(row["area_moved_um2"])


def test_a_volume_against_itself_shows_nothing() -> None:
    source = ball((12, 20, 20), (6, 10, 10), 7.0)
    result = pf.compare(source, source, pf.TransportConfig(px_size_um=VOXEL_UM))
    assert np.nanmax(np.abs(result.velocity_field)) == 0.0
    assert result.divergence == pytest.approx(0.0, abs=1e-9)
    assert result.destroyed_is_noise
    assert result.created_is_noise


def test_growth_is_a_shell_of_the_planted_volume() -> None:
    shape = (18, 36, 36)
    source, target = ball(shape, (9, 18, 18), 11.0), ball(shape, (9, 18, 18), 13.0)
    result = pf.compare(source, target, pf.TransportConfig(px_size_um=VOXEL_UM, penalty="partial"))
    net = int(target.sum()) - int(source.sum())
    assert result.total_mass_created == pytest.approx(net, rel=1e-4)
    assert result.mass_created[target & ~source].sum() >= 0.7 * net


@pytest.mark.parametrize("penalty", ["partial", "tv", "kl", "balanced"])
def test_a_slab_of_one_voxel_is_an_image(penalty: str) -> None:
    y, x = np.ogrid[:40, :50]
    source = (y - 18) ** 2 + ((x - 20) / 1.4) ** 2 <= 9**2
    target = (y - 20) ** 2 + ((x - 25) / 1.4) ** 2 <= (9.0 if penalty == "balanced" else 10.0) ** 2
    extra = {"normalization": "each"} if penalty == "balanced" else {}
    image = pf.compare(source, target, pf.TransportConfig(penalty=penalty, tol=1e-13, **extra))
    slab = pf.compare(source[None], target[None], pf.TransportConfig(penalty=penalty, tol=1e-13, volume=True, **extra))
    for name in ("total_mass_created", "total_mass_destroyed", "total_mass_moved", "mean_displacement_um"):
        assert getattr(slab, name) == pytest.approx(getattr(image, name), rel=1e-12, abs=1e-12 * image.M_source), name
    for name in ("mass_created", "mass_destroyed", "cost_source"):
        np.testing.assert_allclose(getattr(slab, name)[0], getattr(image, name), atol=1e-11)
    np.testing.assert_allclose(slab.velocity_field[0, ..., 1:], image.velocity_field, atol=1e-11)
    assert np.nanmax(np.abs(slab.velocity_field[..., 0])) == 0.0
    assert slab.reach_um == image.reach_um


@pytest.mark.parametrize("penalty", ["partial", "kl"])
def test_the_dense_oracle_agrees_on_anisotropic_voxels(penalty: str) -> None:
    shape = (6, 12, 12)
    source, target = ball(shape, (2.5, 5, 5), 4.5), ball(shape, (2.5, 6, 7), 5.0)
    configs = [
        pf.TransportConfig(px_size_um=VOXEL_UM, penalty=penalty, backend=backend, tol=1e-9, max_iterations=50_000)
        for backend in ("grid", "oracle")
    ]
    grid, oracle = (pf.compare(source, target, config) for config in configs)
    assert grid.objective == pytest.approx(oracle.objective, rel=1e-8)
    assert grid.total_mass_created == pytest.approx(oracle.total_mass_created, rel=1e-5)
    np.testing.assert_allclose(grid.mass_created, oracle.mass_created, atol=1e-4)
    np.testing.assert_allclose(grid.velocity_field, oracle.velocity_field, atol=1e-3)


def test_pooled_blocks_keep_all_mass_and_the_shift() -> None:
    shape = (20, 60, 60)
    source, target = ball(shape, (9, 26, 26), 19.0), ball(shape, (9, 30, 32), 19.0)
    result = pf.compare(source, target, pf.TransportConfig(px_size_um=VOXEL_UM, downsample_factor=2))
    assert result.M_source == source.sum()
    assert result.mass_destroyed.sum() + result.total_mass_moved == pytest.approx(source.sum(), rel=1e-12)
    assert result.motion.shift_yx == pytest.approx((0.0, 4.0, 6.0), abs=0.02)


def test_a_kept_volume_comes_back_bit_for_bit(shifted: pf.TransportResult, tmp_path: Path) -> None:
    shifted.save(tmp_path / "store")
    again = pf.load(tmp_path / "store")
    assert again.transform == shifted.transform
    assert again.config == shifted.config
    np.testing.assert_array_equal(again.velocity_field, shifted.velocity_field)
    np.testing.assert_array_equal(again.work.potential_source, shifted.work.potential_source)
    np.testing.assert_array_equal(again.work.velocity_px, shifted.work.velocity_px)
    assert again.volume_source_um3 == shifted.volume_source_um3
    dataset = again.to_xarray()
    assert dict(dataset.sizes)["z_um"] == 20
    np.testing.assert_allclose(np.diff(dataset["z_um"]), 2.5)
    assert dataset["velocity_dz"].dims == ("z_um", "y_um", "x_um")


def test_a_volume_starts_from_the_previous_one(shifted: pf.TransportResult) -> None:
    shape = (20, 34, 38)
    source, target = ball(shape, (8, 14, 14), 11.0), ball(shape, (10, 17, 18), 11.0)
    warm = pf.compare(source, target, pf.TransportConfig(px_size_um=VOXEL_UM), init=shifted)
    assert warm.iterations < shifted.iterations
    assert warm.motion.shift_yx == pytest.approx((5.0, 3.0, 4.0), abs=1e-4)


def test_an_empty_volume_needs_no_solve() -> None:
    source = ball((12, 20, 20), (6, 10, 10), 7.0)
    result = pf.compare(source, np.zeros_like(source), pf.TransportConfig(px_size_um=VOXEL_UM))
    assert result.status == "empty_target"
    assert result.total_mass_destroyed == source.sum()
    assert np.isnan(result.velocity_field).all()
    assert np.isnan(result_row(result, "pair")["mean_displacement_dz_um"])


def test_other_ways_to_ask_give_the_same_shift() -> None:
    shape = (12, 26, 28)
    source, target = ball(shape, (5, 11, 12), 7.0), ball(shape, (6, 13, 14), 7.0)
    config = pf.TransportConfig(px_size_um=VOXEL_UM, debug=True)
    there, back = pf.compare_many([(source, target), (target, source)], config, jobs=1)
    assert there.motion.shift_yx == pytest.approx((2.5, 2.0, 2.0), abs=1e-5)
    assert back.motion.shift_yx == pytest.approx((-2.5, -2.0, -2.0), abs=1e-5)
    single = pf.compare(source, target, pf.TransportConfig(px_size_um=VOXEL_UM, dtype="float32"))
    assert single.motion.shift_yx == pytest.approx((2.5, 2.0, 2.0), abs=1e-3)
    assert pf.divergence(source, target, config) == pytest.approx(there.divergence)
    part = pf.compare(source, target, pf.TransportConfig(px_size_um=VOXEL_UM, moved_share=0.9))
    assert part.total_mass_moved == pytest.approx(0.9 * part.M_source, rel=1e-5)


def test_the_motion_of_a_volume_has_four_exact_parts() -> None:
    rng = np.random.default_rng(3)
    before = rng.standard_normal((200, 3)) * (3.0, 2.0, 1.0)
    angle = np.radians(25.0)
    turn = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
    after = 1.2 * before @ turn.T + (4.0, -1.0, 2.0)
    weights = rng.random(200)
    motion = decompose_motion(weights, before, after)
    assert motion.turn_deg == pytest.approx(25.0)
    assert motion.scale == pytest.approx(1.2)
    assert motion.deformation_share == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(motion.fitted(before), after, atol=1e-10)
    bent = after + 0.3 * np.sin(before)
    parts = decompose_motion(weights, before, bent)
    total = float(weights / weights.sum() @ ((bent - before) ** 2).sum(axis=1))
    assert parts.mean_square == pytest.approx(total)
    assert parts.deformation_share > 0


# --- what is refused -------------------------------------------------------------------------

STACK = np.zeros((4, 8, 8), bool)
STACK[1:3, 2:6, 2:6] = True


def test_a_stack_that_nobody_called_a_volume_is_refused_with_both_choices() -> None:
    with pytest.raises(errors.MaskError, match=r"volume=True.*if it is a series of images, choose one plane"):
        pf.compare(STACK, STACK)


@pytest.mark.parametrize(
    ("masks", "config", "message"),
    [
        ((STACK[None], STACK[None]), {"volume": True}, r"one volume \(z, y, x\).*4 axes.*one time point"),
        ((STACK[0], STACK[0]), {"volume": True}, r"one volume.*2 axes.*without volume=True"),
        ((pf.Mask(STACK, volume=True), STACK[1]), {}, "two volumes, or two images"),
    ],
)
def test_masks_that_are_no_two_volumes_are_refused(masks, config, message) -> None:
    with pytest.raises(errors.MaskError, match=message):
        pf.compare(*masks, pf.TransportConfig(**config))


@pytest.mark.parametrize("size", [(2.5, 1.0), (2.5, 1.0, None), (2.5, 1.0, 1.0, 1.0), (2.5, 0.0, 1.0)])
def test_a_voxel_size_needs_every_axis(size) -> None:
    for make in (lambda: pf.TransportConfig(px_size_um=size), lambda: pf.Mask(STACK, px_size_um=size)):
        with pytest.raises(errors.PixelSizeError, match=r"three sides|positive pixel size"):
            make()


@pytest.mark.parametrize(
    ("field", "value"),
    [("align", "rigid"), ("strain", True), ("error_bars", True), ("min_area_um2", 3.0), ("max_support_points", 9)],
)
def test_what_is_for_images_is_refused_for_volumes(field, value) -> None:
    with pytest.raises(errors.ConfigError, match=f"{field}=.* for volumes") as found:
        pf.TransportConfig(volume=True, **{field: value})
    assert found.value.field == field


def test_alignment_of_volumes_is_refused() -> None:
    with pytest.raises(errors.MaskError, match="to be an image, got a volume"):
        pf.align(pf.Mask(STACK, volume=True), pf.Mask(STACK, volume=True))


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_the_default_blur_is_the_same_at_any_downsample_factor(factor: int) -> None:
    """Also if the planes of a flat volume become one."""
    voxel_um = (5.0, 1.0, 1.0)
    pair = [ball((4, 40, 40), (1.5, 18 + k, 18), 15.0, voxel_um) for k in range(2)]
    result = pf.compare(*pair, pf.TransportConfig(px_size_um=voxel_um, downsample_factor=factor, tol=1e-3))
    assert result.blur_um == pytest.approx(5.0)


def test_a_real_scan_that_is_shifted_shows_only_the_shift(tmp_path: Path) -> None:
    """The anatomical scan that nibabel ships, thresholded; voxels of 2 mm."""
    nibabel = pytest.importorskip("nibabel")
    scan = Path(nibabel.__file__).parent / "tests" / "data" / "anatomical.nii"
    if not scan.is_file():
        pytest.skip("this nibabel comes without its test data")
    brain = np.pad(np.asarray(nibabel.load(scan).dataobj) > 9000, 4)  # x, y, z
    for name, mask in (("early", brain), ("late", np.roll(brain, (3, 0, -2), (0, 1, 2)))):
        image = nibabel.Nifti1Image(mask.astype(np.uint8), np.diag([2.0, 2.0, 2.0, 1.0]))
        image.header.set_xyzt_units("mm", "sec")
        nibabel.save(image, tmp_path / f"{name}.nii.gz")
    result = pf.compare(tmp_path / "early.nii.gz", tmp_path / "late.nii.gz")
    assert result.status == "converged"
    assert result.motion.shift_yx == pytest.approx((-4000.0, 0.0, 6000.0), abs=1.0)
    assert result.total_mass_created <= 1e-5 * result.M_target
    assert repr(result).startswith("TransportResult(33 x 49 x 41 voxels: moved by 7211 um")


def test_many_pairs_of_volumes_in_two_processes_are_those_of_one() -> None:
    shape = (12, 22, 24)
    balls = [ball(shape, (5 + 0.5 * k, 10, 10 + k), 7.0) for k in range(3)]
    config = pf.TransportConfig(px_size_um=VOXEL_UM)
    pairs = [(balls[0], balls[1]), (balls[1], balls[2])]
    for one, other in zip(pf.compare_many(pairs, config, jobs=1), pf.compare_many(pairs, config, jobs=2), strict=True):
        np.testing.assert_array_equal(one.velocity_field, other.velocity_field)
        np.testing.assert_array_equal(one.mass_created, other.mass_created)
