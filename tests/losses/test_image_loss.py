"""`ImageLoss` against planted truth: shifts, finite differences, the divergence of masks, and input it must refuse."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import pairframe as pf
from pairframe.errors import ArgumentError

torch = pytest.importorskip("torch")

from pairframe.losses import ImageLoss  # noqa: E402
from pairframe.losses import batch as batch_module  # noqa: E402
from pairframe.losses import pair as pair_module  # noqa: E402
from pairframe.losses.batch import forget  # noqa: E402
from pairframe.losses.empty_pixels import NEARLY_EMPTY  # noqa: E402
from pairframe.losses.pair import self_value  # noqa: E402
from pairframe.tiled import NotConvergedWarning, TiledError  # noqa: E402

PENALTIES = ("kl", "partial", "balanced")
TIGHT = {"tol": 1e-12, "max_iterations": 20_000}


def blob(centre_yx: tuple[float, float], radius: float, side: int = 20) -> np.ndarray:
    """A soft disc, exactly 0 outside."""
    yy, xx = np.mgrid[:side, :side]
    return np.clip(radius - np.hypot(yy - centre_yx[0], xx - centre_yx[1]), 0.0, 1.0)


def pair() -> tuple[torch.Tensor, torch.Tensor]:
    a, b = blob((8.0, 8.0), 4.0), 1.4 * blob((10.0, 11.5), 5.0)
    return torch.as_tensor(a)[None], torch.as_tensor(b)[None]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("side", [0, 1])
def test_gradients_are_those_of_finite_differences(penalty: str, side: int) -> None:
    images = list(pair())
    loss = ImageLoss(1.5, 6.0, penalty=penalty, **TIGHT)
    leaf = images[side].clone().requires_grad_()
    direction = torch.rand(leaf.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    direction = direction * (leaf.detach() > 0.05)

    def at(t: float) -> float:
        return float(loss(*(one + t * direction if k == side else one for k, one in enumerate(images))))

    (gradient,) = torch.autograd.grad(loss(*(leaf if k == side else one for k, one in enumerate(images))), leaf)
    h = 1e-4
    wanted = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    assert float((gradient * direction).sum()) == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_torch_checks_the_gradient(penalty: str) -> None:
    a, b = (one[:, 5:10, 6:11].contiguous() + 0.3 for one in pair())
    loss = ImageLoss(1.5, 6.0, penalty=penalty, reduction="none", **TIGHT)
    assert torch.autograd.gradcheck(loss, (a.requires_grad_(), b.requires_grad_()), eps=1e-5, atol=1e-5, rtol=1e-5)


def dense_balanced(a: torch.Tensor, b: torch.Tensor, epsilon: float) -> float:
    """The balanced divergence of two images (1, H, W) by plain logarithmic Sinkhorn, to nearly all digits."""

    def value(a: torch.Tensor, b: torch.Tensor) -> float:
        x, y = a[0].nonzero().double(), b[0].nonzero().double()
        log_a, log_b = (torch.log(one[one > 0] / one.sum()) for one in (a, b))
        z = sum(np.exp(-(k**2) / epsilon) for k in range(-30, 31)) ** 2
        log_k = -(torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist") ** 2) / epsilon
        log_k += 0.5 * (log_a[:, None] + log_b) - np.log(z)
        f, g = torch.zeros_like(log_a), torch.zeros_like(log_b)
        for _ in range(5000):
            before, f = f, log_a - torch.logsumexp(log_k + g, 1)
            f = 0.5 * (f + before) if x.shape == y.shape and torch.equal(x, y) else f  # a self-problem
            g = log_b - torch.logsumexp(log_k + f[:, None], 0)
            if float((f - before).abs().max()) < 1e-9:  # the dual is stationary
                break
        return epsilon * float((f * log_a.exp()).sum() + (g * log_b.exp()).sum())

    return value(a, b) - 0.5 * (value(a, a) + value(b, b))


# Pixels of both images: beside the object, two blurs away, a few more, and in the far corner.
EMPTY = {
    "beside": ((0, 12, 8), (0, 10, 17)),
    "close": ((0, 13, 13), (0, 10, 3)),
    "off": ((0, 2, 17), (0, 2, 1)),
    "corner": ((0, 19, 0), (0, 19, 0)),
}


@pytest.mark.parametrize("place", EMPTY)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("side", [0, 1])
def test_an_empty_pixel_has_the_derivative_of_a_little_mass_in_it(penalty: str, place: str, side: int) -> None:
    """Differences of the loss between 1/e and e times a millionth of the mean mass there, in the logarithm of the mass."""
    images = list(pair())
    loss, where = ImageLoss(1.5, 6.0, penalty=penalty, **TIGHT), EMPTY[place][side]
    leaf = images[side].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(*(leaf if k == side else one for k, one in enumerate(images))), leaf)
    full = images[side]
    assert full[where] == 0
    little = NEARLY_EMPTY * float(full.sum()) / int((full > 0).sum())

    def at(log: float) -> float:
        moved = full.clone()
        moved[where] = little * np.exp(log)
        changed = [moved if k == side else one for k, one in enumerate(images)]
        # The digits that balanced values need here are more than a certificate has.
        return dense_balanced(*changed, 2.25) if penalty == "balanced" else float(loss(*changed))

    h = 0.25
    slope = (45 * (at(h) - at(-h)) - 9 * (at(2 * h) - at(-2 * h)) + at(3 * h) - at(-3 * h)) / (60 * h * little)
    assert float(gradient[where]) == pytest.approx(slope, rel=2e-5)


@pytest.mark.parametrize("penalty", ["partial", "balanced"])
def test_beside_the_image_it_is_the_limit_at_no_mass(penalty: str) -> None:
    a, b = pair()
    loss, where = ImageLoss(1.5, 6.0, penalty=penalty, **TIGHT), EMPTY["beside"][0]
    leaf = a.clone().requires_grad_()
    value = loss(leaf, b)
    (gradient,) = torch.autograd.grad(value, leaf)
    moved = a.clone()
    moved[where] = 1e-5
    slope = (float(loss(moved, b)) - float(value.detach())) / 1e-5
    moved[where] = 2e-5
    slope = 2.0 * slope - (float(loss(moved, b)) - float(value.detach())) / 2e-5
    assert float(gradient[where]) == pytest.approx(slope, rel=1e-6)


def test_mass_far_from_both_images_costs() -> None:
    """It has to be moved or destroyed, so the loss rises with it, however far it is."""
    a, b = pair()
    wide = [torch.nn.functional.pad(one, (60, 60, 60, 60)).requires_grad_() for one in (a, b)]
    for penalty in ("kl", "partial"):
        for gradient in torch.autograd.grad(ImageLoss(1.5, 6.0, penalty=penalty)(*wide), wide):
            assert bool((gradient[0, 0] > 0).all())
            assert bool((gradient[0, :, -1] > 0).all())


def test_it_is_the_divergence_of_masks() -> None:
    a, b = pair()
    config = pf.TransportConfig(penalty="kl", blur_um=2.0, reach_um=10.0, mass_mode="intensity")
    wanted = pf.divergence(a[0].numpy(), b[0].numpy(), config)
    assert float(ImageLoss(2.0, 10.0)(a, b)) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_shift_costs_its_square_and_is_found_again(penalty: str) -> None:
    a = torch.as_tensor(blob((8.0, 7.0), 4.0))[None]
    b = torch.roll(a, (3, 2), (1, 2))
    mass = 1.0 if penalty == "balanced" else float(a.sum())
    loss = ImageLoss(1.5, 500.0, penalty=penalty, tol=1e-10)
    assert float(loss(a, b)) / mass == pytest.approx(13.0, rel=2e-3)
    field = loss.displacement(a, b)
    assert field.shape == (1, 2, 20, 20)
    on = a[0] > 0
    assert torch.allclose(field[0, 0][on], torch.tensor(3.0, dtype=torch.float64), atol=5e-3)
    assert torch.allclose(field[0, 1][on], torch.tensor(2.0, dtype=torch.float64), atol=5e-3)
    assert float(loss(a, a)) == 0.0


def test_channels_and_reductions() -> None:
    a, b = pair()
    many_a, many_b = torch.stack([a, b], 1), torch.stack([b, b], 1)
    each = ImageLoss(2.0, 10.0, reduction="none")(many_a, many_b)
    assert each.shape == (1, 2)
    assert each[0, 1] == 0.0
    assert float(ImageLoss(2.0, 10.0, reduction="sum")(many_a, many_b)) == pytest.approx(float(each.sum()))
    assert float(ImageLoss(2.0, 10.0)(many_a, many_b)) == pytest.approx(float(each.mean()))
    assert ImageLoss(2.0, 10.0).displacement(many_a, many_b).shape == (1, 2, 2, 20, 20)


def test_dtypes_no_grad_and_autocast() -> None:
    a, b = pair()
    loss = ImageLoss(2.0, 10.0)
    wanted = float(loss(a, b))
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 3e-2)):
        leaf = a.to(dtype).requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = loss(leaf, b.to(dtype))
        assert value.dtype == torch.float32
        assert float(value.detach()) == pytest.approx(wanted, rel=tolerance)
        value.backward()
        assert leaf.grad is not None
        assert leaf.grad.dtype == dtype
    with torch.no_grad():
        assert not loss(a.requires_grad_(), b).requires_grad


def test_gradient_descent_finds_the_target() -> None:
    """A disc moves over a gap that no overlap bridges."""
    target = torch.as_tensor(blob((13.0, 13.0), 3.0))[None]
    yy, xx = (torch.as_tensor(one) for one in np.mgrid[:20, :20].astype(float))
    centre = torch.tensor([5.0, 5.0], dtype=torch.float64, requires_grad=True)
    loss, mass = ImageLoss(2.0, 40.0), float(target.sum())
    for _ in range(20):
        image = (3.0 - torch.sqrt((yy - centre[0]) ** 2 + (xx - centre[1]) ** 2 + 1e-9)).clamp(0.0, 1.0)[None]
        (gradient,) = torch.autograd.grad(loss(image, target), centre)
        centre = (centre.detach() - 0.4 * gradient / mass).requires_grad_()  # a shift d costs about mass times d^2
    assert torch.allclose(centre.detach(), torch.tensor([13.0, 13.0], dtype=torch.float64), atol=0.1)


# torch warns about itself: wherever it resumes a function, it reads the gradients of tensors that are not leaves.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_torch_compile_leaves_it_as_it_is() -> None:
    a, b = pair()
    loss = ImageLoss(2.0, 10.0)
    leaf = a.clone().requires_grad_()
    value = torch.compile(lambda x, y: 2.0 * loss(x + 0.0, y), backend="eager")(leaf, b)
    value.backward()
    assert float(value.detach()) == 2.0 * float(loss(a, b))
    assert float(leaf.grad.abs().sum()) > 0


def test_a_second_derivative_is_refused() -> None:
    a, b = pair()
    leaf = a.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(ImageLoss(2.0, 10.0)(leaf, b), leaf, create_graph=True)
    with pytest.raises(TiledError, match=r"a first derivative.*difference of two gradients"):
        torch.autograd.grad(gradient.sum(), leaf)


def test_settings_are_checked_again_when_they_were_changed() -> None:
    a, b = pair()
    loss = ImageLoss(2.0, float("inf"), penalty="balanced")  # which ignores the reach
    assert float(loss(a, b)) > 0
    loss.penalty = "partial"
    with pytest.raises(ArgumentError, match="a positive reach"):
        loss(a, b)
    loss.reach, loss.reduction = 10.0, "max"
    with pytest.raises(ArgumentError, match="a reduction: mean, sum, none"):
        loss(a, b)


def dual_tensor(loss: ImageLoss, a: torch.Tensor, b: torch.Tensor) -> None:
    with torch.autograd.forward_ad.dual_level():
        loss(torch.autograd.forward_ad.make_dual(a, torch.ones_like(a)), b)


TRANSFORMS = {
    "vmap": lambda loss, a, b: torch.func.vmap(loss)(a[None], b[None]),
    "grad": lambda loss, a, b: torch.func.grad(lambda x: loss(x, b))(a),
    "jvp": lambda loss, a, b: torch.func.jvp(lambda x: loss(x, b), (a,), (a,)),
    "dual tensor": dual_tensor,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functions_are_refused(name: str) -> None:
    with pytest.raises(TiledError, match=r"ImageLoss outside of torch.func.*use backward\(\)"):
        TRANSFORMS[name](ImageLoss(2.0, 10.0), *pair())


def test_hardly_any_mass_is_named_as_the_reason_of_a_stop() -> None:
    """A prediction that has collapsed: more iterations would not help. The value is the price of creating the target."""
    a, b = pair()
    with pytest.warns(NotConvergedWarning, match=r"the limit is 100000\).*hardly any mass.*iterations do not help"):
        value = ImageLoss(2.0, 40.0, max_iterations=100_000)(1e-18 * a, b)
    assert float(value) == pytest.approx(1600.0 * float(b.sum()), rel=0.01)


def test_a_solve_that_stops_early_warns() -> None:
    a, b = pair()
    with pytest.warns(NotConvergedWarning, match=r"1 of 1 pairs stopped after up to 2 kernel .*raise max_iterations"):
        ImageLoss(2.0, 10.0, max_iterations=2, tol=1e-9)(a, b)


@pytest.mark.parametrize("count", [1, 2])
def test_a_self_problem_that_stops_early_warns_every_time(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of a target, whose value is remembered otherwise."""
    for module in (pair_module, batch_module):
        monkeypatch.setattr(
            module, "self_value", lambda *words, **named: replace(self_value(*words, **named), error=1.0)
        )
    forget()
    a, b = (one.expand(count, -1, -1) for one in pair())
    for _ in range(2):
        with pytest.warns(NotConvergedWarning, match=f"{count} of {count} pairs"):
            ImageLoss(2.0, 10.0)(a, b)


def test_settings_may_be_changed_between_calls() -> None:
    a, b = pair()
    loss = ImageLoss(2.0, 10.0)
    rough = float(loss(a, b))
    loss.tol, loss.max_iterations = 1e-12, 20_000
    assert float(loss(a, b)) == pytest.approx(float(ImageLoss(2.0, 10.0, **TIGHT)(a, b)), rel=1e-13)
    assert float(loss(a, b)) != rough
    assert "tol=1e-12, max_iterations=20000, jobs=1" in repr(loss)
    loss.tol = 2.0
    with pytest.raises(ArgumentError, match="tol between 0 and 1"):
        loss(a, b)


def test_numbers_that_are_none_or_too_large_are_named() -> None:
    a, b = (one.repeat(3, 1, 1) for one in pair())
    a[1, 3, 3] = torch.nan
    with pytest.raises(ArgumentError, match=r"NaN or inf, first in image 1.*division by zero"):
        ImageLoss(2.0, 10.0)(a, b)
    with pytest.raises(ArgumentError, match=r"values up to 1e\+100, got .*e\+300.*divide both"):
        ImageLoss(2.0, 10.0)(1e300 * b, b)
    with pytest.raises(ArgumentError, match=r"positive reach below 1e100, in pixels, got inf.*balanced"):
        ImageLoss(2.0, float("inf"))


def test_a_compiled_displacement_is_the_same() -> None:
    a, b = pair()
    loss = ImageLoss(2.0, 50.0, penalty="partial")
    found = torch.compile(loss.displacement, backend="eager")(a, b)
    torch.testing.assert_close(found, loss.displacement(a, b), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("side", "share", "moved"), [(10, 0.977, 9.88), (40, 0.823, 8.32), (100, 0.480, 4.84)])
def test_kl_counts_less_of_a_shift_the_larger_the_object(side: int, share: float, moved: float) -> None:
    """The figures of the page on this loss, at its defaults."""
    a = torch.zeros(1, side + 14, side + 4, dtype=torch.float64)
    a[0, 2 : 2 + side, 2 : 2 + side] = 1.0
    b = a.roll(10, 1)
    loss = ImageLoss()
    assert float(loss(a, b)) / (100.0 * side**2) == pytest.approx(share, abs=0.002)
    assert float(loss.displacement(a, b)[0, 0].nanmean()) == pytest.approx(moved, abs=0.02)


def test_it_prints_and_pickles() -> None:
    loss = pickle.loads(pickle.dumps(ImageLoss(2.0, 10.0, penalty="partial")))
    settings = "blur=2, reach=10, penalty='partial', reduction='mean', tol=1e-06, max_iterations=2000, jobs=1"
    assert repr(loss) == f"ImageLoss({settings})"


@pytest.mark.parametrize("penalty", PENALTIES)
def test_two_processes_give_the_same_bits(penalty: str) -> None:
    a, b = (torch.cat([one, one.flip(1), one.mT, 0.5 * one]) for one in pair())
    found = []
    for jobs in (1, 2):
        forget()
        leaf = a.clone().requires_grad_()
        loss = ImageLoss(1.5, 6.0, penalty=penalty, reduction="none", jobs=jobs)
        values = loss(leaf, b)
        found.append((values.detach(), torch.autograd.grad(values.sum(), leaf)[0], loss.displacement(a, b)))
    for one, two in zip(*found, strict=True):
        assert torch.equal(one.nan_to_num(), two.nan_to_num())


def test_the_value_of_a_target_against_itself_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair()
    forget()
    first = ImageLoss(2.0, 10.0)(a, b)
    solved = []
    monkeypatch.setattr(pair_module, "self_value", lambda mass, *rest: solved.append(mass) or self_value(mass, *rest))
    assert torch.equal(ImageLoss(2.0, 10.0)(a, b), first)
    assert len(solved) == 1, "that of a alone"
    ImageLoss(2.5, 10.0)(a, b)
    assert len(solved) == 3, "another blur is another problem"
    ImageLoss(2.0, 10.0)(*(torch.nn.functional.pad(one, (3, 0, 0, 5)) for one in (a, b)))
    assert len(solved) == 4, "the same mass elsewhere is the same problem"


def test_one_target_for_several_images_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair()
    images = torch.cat([a, 0.5 * a, a.mT])
    wanted = ImageLoss(2.0, 10.0, reduction="none")(images, b.repeat(3, 1, 1))
    forget()
    solved = []
    for module in (pair_module, batch_module):
        monkeypatch.setattr(
            module, "self_value", lambda mass, *rest, **more: solved.append(mass) or self_value(mass, *rest, **more)
        )
    assert torch.equal(ImageLoss(2.0, 10.0, reduction="none")(images, b.expand(3, -1, -1)), wanted)
    assert sum(np.array_equal(mass, b[0].numpy()) for mass in solved) == 1
    assert len(solved) == 4


@pytest.mark.parametrize("penalty", PENALTIES)
def test_pixels_too_far_to_be_summed_in_a_self_problem_are_those_it_does_not_see(
    penalty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every empty pixel summed, all derivatives are the same to rounding."""
    mass = np.zeros((90, 100))
    mass[40:50, 40:52] = np.random.default_rng(0).random((10, 12)) + 0.1
    mass = mass / mass.sum() if penalty == "balanced" else mass
    settings = ImageLoss(1.5, 6.0, penalty=penalty)._settings(None)
    found = self_value(mass, settings, wants_gradient=True).gradient
    monkeypatch.setattr(pair_module, "_near", lambda off, on, box, margin: off)
    wanted = self_value(mass, settings, wants_gradient=True).gradient
    assert found is not None
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert len(np.unique(found[:5, :5])) == 1


FORKED = """
import multiprocessing, torch
from pairframe import ImageLoss

pair = torch.rand(2, 20, 24, dtype=torch.float64), torch.rand(2, 20, 24, dtype=torch.float64)
value = lambda: float(ImageLoss(2.0, 10.0)(*pair).sum())
wanted, context = value(), multiprocessing.get_context("fork")
queue = context.Queue()
worker = context.Process(target=lambda: (torch.set_num_threads(1), queue.put(value())))
worker.start()
assert queue.get(timeout=60) == wanted
worker.join()
"""


def test_it_works_in_a_forked_worker() -> None:
    """In a process of its own: this one may have the threads of other libraries, which do not survive a fork."""
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=120)


BAD = {
    "shapes": (lambda a, b: (a, b[:, :-1]), "images of one shape"),
    "axes": (lambda a, b: (a[0], b[0]), r"shape \(B, H, W\)"),
    "negative": (lambda a, b: (a - 0.5, b), "values >= 0.*down to -0.5"),
    "NaN": (lambda a, b: (a, b * float("nan")), "b of finite values >= 0.*NaN"),
    "infinite": (lambda a, b: (a, b + float("inf")), "b of finite values >= 0.*NaN or inf"),
    "all zero": (
        lambda a, b: (torch.cat([a, 0 * a]), torch.cat([b, b])),
        "some mass in every image of a.*first is image 1\\. ",
    ),
    "all zero in a channel": (
        lambda a, b: (torch.stack([a, 0 * a], 1), torch.stack([b, b], 1)),
        "1 of 2 without any, the first is image 0, channel 1",
    ),
    "integers": (lambda a, b: (a.int(), b), "a in floating point"),
    "bool": (lambda a, b: (a, b > 0), "b in floating point"),
    "arrays": (lambda a, b: (a.numpy(), b), "a to be a tensor"),
    "devices": (lambda a, b: (a, b.to("meta")), r"images on one device.*cpu and meta.*\.to\(other.device\)"),
    "no numbers": (lambda a, b: (a.to("meta"), b.to("meta")), "a to hold numbers"),
    "empty": (lambda a, b: (a[:0], b[:0]), r"at least one image, channel and pixel, got shape \(0, 20, 20\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_images_are_refused(name: str) -> None:
    change, message = BAD[name]
    with pytest.raises((ArgumentError, TiledError), match=message):
        ImageLoss(2.0, 10.0)(*change(*pair()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"blur": 0.0}, "a positive blur"),
        ({"reach": -1.0}, "a positive reach"),
        ({"penalty": "tv"}, "a penalty: kl, partial, balanced"),
        ({"reduction": "max"}, "a reduction: mean, sum, none"),
        ({"tol": 2.0}, "tol between 0 and 1"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"jobs": 0}, "jobs"),
        ({"blur": "2"}, "a positive blur"),
        ({"blur": 1e200}, "a positive blur"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        ImageLoss(**settings)
