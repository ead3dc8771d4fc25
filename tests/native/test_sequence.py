"""The recurrent network and the mixer in C equal autograd: in double exactly, as built within 1e-5."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.native_parts import double, needs_native
from twofold.native.sequence import Sequences, sequences
from twofold.nets.flat import Flat
from twofold.nets.recurrent import Recurrent, Unroll
from twofold.team.mixers import Monotonic
from twofold.team.mixing import Mixing

STEPS, ROWS = 6, 5
LIVE = {"all": [5] * 6, "ends": [5, 5, 4, 4, 1, 1], "at once": [5, 0, 0, 0, 0, 0]}


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Sequences:
    return Sequences(double(tmp_path_factory.mktemp("double")))


def unrolls(
    native: Sequences, dtype: torch.dtype, live: str, copies: int = 1
) -> tuple[Recurrent, Flat, Unroll, Unroll]:
    net = Recurrent(4, 6, 3, generator=torch.Generator().manual_seed(1), copies=copies).to(dtype)
    flat = Flat(net)
    ours, torchs = Unroll(net, STEPS, ROWS, native=native), Unroll(net, STEPS, ROWS, torch_only=True)
    x = torch.randn(ours.x.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    ours.x.copy_(x)
    torchs.x.copy_(x)
    ours.live[:] = LIVE[live]
    return net, flat, ours, torchs


def gradients(net: Recurrent, flat: Flat, unroll: Unroll, live: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs where they matter, and the gradients of a loss of those alone."""
    matters = torch.arange(ROWS) < torch.tensor(LIVE[live])[:, None]  # [T, R]
    q = unroll.forward(net, STEPS).clone()
    draw = torch.Generator().manual_seed(3)
    d_q, d_hidden = (
        torch.randn(t.shape, generator=draw, dtype=torch.float64).to(q.dtype) * matters[..., None]
        for t in (q, unroll.hidden)
    )
    flat.grads.fill_(float("nan"))
    unroll.backward(net, d_q, d_hidden)
    return q[:, matters], flat.grads.clone()


@pytest.mark.parametrize("live", LIVE)
@pytest.mark.parametrize("copies", [1, 3])
def test_the_recurrent_network_equals_the_one_in_torch(exact: Sequences, live: str, copies: int) -> None:
    net, flat, ours, torchs = unrolls(exact, torch.float64, live, copies)
    for found, wanted in zip(
        gradients(net, flat, ours, live), gradients(net, flat, torchs, live), strict=True
    ):
        assert torch.allclose(found, wanted, rtol=1e-10, atol=1e-12)


@needs_native
@pytest.mark.parametrize("live", LIVE)
def test_as_built_it_equals_torch_within_rounding(live: str) -> None:
    built = sequences(torch.zeros(1))
    assert built is not None
    net, flat, ours, torchs = unrolls(built, torch.float32, live)
    for found, wanted in zip(
        gradients(net, flat, ours, live), gradients(net, flat, torchs, live), strict=True
    ):
        assert (found - wanted).norm() <= 1e-5 * wanted.norm()


def test_other_numbers_than_float32_are_left_to_torch() -> None:
    assert sequences(torch.zeros(1, dtype=torch.float64)) is None


def mixer(dtype: torch.dtype) -> tuple[Monotonic, Flat]:
    draw = torch.Generator().manual_seed(1)
    made = Monotonic(3, 7, embed=4, hyper=5, layers=2, generator=draw).to(dtype)
    return made, Flat(made)


def compare_mixers(native: Sequences, dtype: torch.dtype, tolerance: float) -> None:
    made, flat = mixer(dtype)
    draw = torch.Generator().manual_seed(2)
    state, values = torch.randn(9, 7, generator=draw).to(dtype), torch.randn(6, 3, generator=draw).to(dtype)
    at, slope = torch.tensor([8, 1, 2, 3, 5, 7]), torch.randn(6, generator=draw).to(dtype)
    given = values.clone().requires_grad_()
    wanted = made(given, state[at])
    flat.zero_grad()
    wanted.backward(slope)
    by_autograd = flat.grads.clone()
    flat.grads.fill_(float("nan"))
    ours = Mixing(made, native)
    joint, d_values = ours.forward(made, values, state, at), ours.backward(slope)
    for found, expected in ((joint, wanted), (d_values, given.grad), (flat.grads, by_autograd)):
        assert expected is not None and (found - expected).norm() <= tolerance * expected.norm()


def test_the_mixer_equals_autograd(exact: Sequences) -> None:
    compare_mixers(exact, torch.float64, 1e-12)


@needs_native
def test_as_built_the_mixer_equals_autograd_within_rounding() -> None:
    built = sequences(torch.zeros(1))
    assert built is not None
    compare_mixers(built, torch.float32, 1e-5)


@needs_native
def test_room_of_a_larger_batch_serves_a_smaller_one() -> None:
    built, (made, _) = sequences(torch.zeros(1)), mixer(torch.float32)
    assert built is not None
    ours, state, values = Mixing(made, built), torch.randn(9, 7), torch.randn(9, 3)
    ours.forward(made, values, state, torch.arange(9))
    few = ours.forward(made, values[:2], state, torch.arange(2))
    assert np.allclose(few, made(values[:2], state[:2]).detach(), atol=1e-6)
