import torch

from twofold.recsys.gated import GatedWindow


def stepwise(x, mask, inputs, recurrent):
    """The same unit, written as in the paper, for autograd."""
    width = recurrent.shape[1] // 3
    state = x.new_zeros(len(x), width)
    for t in range(x.shape[1]):
        ours = x[:, t] @ inputs[:-1] + inputs[-1]
        theirs = state @ recurrent[:-1] + recurrent[-1]
        reset, keep = torch.sigmoid(ours + theirs)[:, : 2 * width].chunk(2, dim=1)
        new = torch.tanh(ours[:, 2 * width :] + reset * theirs[:, 2 * width :])
        state = torch.where(mask[:, t] > 0, keep * state + (1 - keep) * new, state)
    return state


def made():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(5, 4, 3, generator=generator, dtype=torch.float64)
    # Rows with no item, with one, with two, with all: windows are filled from their end.
    mask = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]).double()
    matrices = [torch.randn(n + 1, 6, generator=generator, dtype=torch.float64) for n in (3, 2)]
    return [x, mask.unsqueeze(-1), *matrices]


def test_states_and_gradients_are_those_of_the_unit_step_by_step():
    found = []
    for unit in (GatedWindow.apply, stepwise):
        x, mask, *matrices = made()
        leaves = [x.requires_grad_(), *(matrix.requires_grad_() for matrix in matrices)]
        state = unit(x, mask, *matrices)
        (state * torch.arange(1.0, 11.0, dtype=torch.float64).view(5, 2)).sum().backward()
        found.append([state.detach(), *(leaf.grad for leaf in leaves)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_the_gradient_is_that_of_finite_differences():
    x, mask, *matrices = made()
    x[mask.expand_as(x) == 0] = 0.0
    leaves = [matrix.requires_grad_() for matrix in matrices]
    assert torch.autograd.gradcheck(lambda *given: GatedWindow.apply(x, mask, *given), leaves)


def test_a_window_without_items_is_a_zero_state():
    x, mask, *matrices = made()
    assert GatedWindow.apply(x, mask, *matrices)[0].tolist() == [0.0, 0.0]
