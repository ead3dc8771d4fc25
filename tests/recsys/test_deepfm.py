import numpy as np
import pytest
import torch

from twofold.base.errors import UserError
from twofold.recsys import deepfm, user_model
from twofold.recsys.deepfm import DeepFM, fit_deepfm
from twofold.recsys.synthetic import SyntheticConfig, synthetic
from twofold.recsys.truth import Factors
from twofold.recsys.user_model import DeepFMConfig

DATA = synthetic(SyntheticConfig(users=30, items=25, ratings_per_user=12))


def settings(**changes):
    return DeepFMConfig(**({"n_models": 2, "epoch": 30, "batch": 32, "lr": 0.01, "dnn": (16,)} | changes))


def test_the_ensemble_predicts_better_than_the_mean():
    model = fit_deepfm(DATA, settings(), np.random.default_rng(0))
    error = np.square(model.mean.values - DATA.truth.values).mean()
    assert error < 0.75 * np.square(DATA.train.values.mean() - DATA.truth.values).mean()
    assert len(model.worlds) == 2
    assert (model.spread.values > 0).all()


def test_negatives_push_unrated_items_down():
    plain = fit_deepfm(DATA, settings(n_models=1, epoch=5), np.random.default_rng(0))
    pushed = fit_deepfm(DATA, settings(n_models=1, epoch=5, loss="pointneg"), np.random.default_rng(0))
    assert pushed.mean.values.mean() < plain.mean.values.mean() - 0.3


@pytest.mark.parametrize("loss", ["point", "pointneg", "pair", "pp"])
def test_every_loss_falls_when_trained(loss):
    cfg = settings(loss=loss, n_models=1)
    rng = np.random.default_rng(0)
    network = DeepFM(DATA, cfg, 3.0, torch.Generator().manual_seed(0))
    log, unseen = DATA.train, rng.integers(25, size=(cfg.neg_k, len(DATA.train)))
    batch = (log, np.ones(len(log), np.float32), unseen)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    before = deepfm._loss(network, cfg, *batch).item()
    for _ in range(20):
        optimiser.zero_grad()
        deepfm._loss(network, cfg, *batch).backward()
        optimiser.step()
    assert deepfm._loss(network, cfg, *batch).item() < before


def test_a_plain_machine_as_factors_predicts_what_the_network_does(monkeypatch):
    monkeypatch.setattr(deepfm, "DENSE_CELLS", 10)
    network = DeepFM(DATA, settings(dnn=()), 3.0, torch.Generator().manual_seed(1))
    model = deepfm._as_factors([network], DATA, 0.5)
    users, items = np.array([0, 7, 29]), np.array([3, 24, 0])
    with torch.no_grad():
        wanted = network(torch.from_numpy(users), torch.from_numpy(items))[0].numpy()
    assert isinstance(model.mean, Factors)
    np.testing.assert_allclose(model.mean.at(users, items), wanted, rtol=1e-5)


def test_a_deep_network_over_too_many_pairs_is_refused(monkeypatch):
    monkeypatch.setattr(deepfm, "DENSE_CELLS", 10)
    with pytest.raises(UserError, match=r"dnn=\[\]"):
        fit_deepfm(DATA, settings(), np.random.default_rng(0))


def test_a_saved_model_comes_back_the_same(tmp_path):
    model = fit_deepfm(DATA, settings(epoch=1), np.random.default_rng(0))
    user_model.save(model, tmp_path)
    again = user_model.load(tmp_path)
    np.testing.assert_array_equal(again.mean.values, model.mean.values)
    np.testing.assert_array_equal(again.worlds[1].values, model.worlds[1].values)
    assert (again.kind, again.noise) == (model.kind, model.noise)


def test_factors_are_saved_as_factors(tmp_path):
    network = DeepFM(DATA, settings(dnn=()), 3.0, torch.Generator().manual_seed(1))
    user_model.save(deepfm._as_factors([network], DATA, 0.5), tmp_path)
    again = user_model.load(tmp_path)
    assert isinstance(again.worlds[0], Factors)
    assert not again.mean.rounded
