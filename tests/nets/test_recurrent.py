"""The hand-derived gradients through time equal autograd's."""

import pytest
import torch

from twofold.nets.flat import Flat
from twofold.nets.recurrent import Recurrent, Unroll


def network(copies, dtype=torch.float64):
    net = Recurrent(4, 6, 3, generator=torch.Generator().manual_seed(1), copies=copies).to(dtype)
    return net, Flat(net)


def reference(net, x, steps):
    hidden, outputs, states = net.start(x.shape[2]), [], []
    for t in range(steps):
        out, hidden = net(x[:, t], hidden)
        outputs.append(out)
        states.append(hidden)
    return torch.stack(outputs, 1), torch.stack(states, 1)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("steps", [1, 5])
def test_outputs_and_gradients_equal_autograd(copies, steps):
    net, flat = network(copies)
    draw = torch.Generator().manual_seed(2)
    unroll = Unroll(net, 7, 2)
    unroll.x.copy_(torch.randn(unroll.x.shape, generator=draw, dtype=torch.float64))
    q = unroll.forward(net, steps).clone()
    wanted, states = reference(net, unroll.x, steps)
    assert torch.allclose(q, wanted, atol=1e-12) and torch.allclose(
        unroll.hidden[:, :steps], states, atol=1e-12
    )
    d_q, d_hidden = (torch.randn(t.shape, generator=draw, dtype=torch.float64) for t in (q, states))
    flat.zero_grad()
    ((wanted * d_q).sum() + (states * d_hidden).sum()).backward()
    autograd = flat.grads.clone()
    flat.grads.fill_(float("nan"))
    unroll.backward(net, d_q, d_hidden)
    assert torch.allclose(flat.grads, autograd, atol=1e-12)


def test_a_second_longer_pass_is_not_disturbed_by_the_first():
    net, _ = network(1)
    unroll = Unroll(net, 6, 2)
    unroll.x.normal_(generator=torch.Generator().manual_seed(3))
    unroll.forward(net, 2)
    assert torch.allclose(unroll.forward(net, 6), reference(net, unroll.x, 6)[0], atol=1e-12)


def test_it_is_a_standard_gated_recurrent_unit():
    net, _ = network(1)
    gru = torch.nn.GRUCell(6, 6).double()
    past, reset, update = net.recur[0].split(6, -1)
    with torch.no_grad():
        gru.weight_ih.copy_(net.gates[0, :-1].t())
        gru.bias_ih.copy_(net.gates[0, -1])
        gru.weight_hh.copy_(torch.cat([reset, update, past], -1)[:-1].t())
        gru.bias_hh.copy_(torch.cat([reset, update, past], -1)[-1])
    x, hidden = torch.randn(1, 2, 4, dtype=torch.float64), torch.randn(1, 2, 6, dtype=torch.float64)
    entered = torch.relu(x[0] @ net.enter[0, :-1] + net.enter[0, -1])
    assert torch.allclose(net(x, hidden)[1][0], gru(entered, hidden[0]), atol=1e-12)
