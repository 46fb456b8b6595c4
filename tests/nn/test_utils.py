"""nn.utils without PyTorch: parametrizations, norms, pruning, fusion, skip_init."""

import copy
import pickle

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn
from livegrad.nn.utils import parametrizations, parametrize, prune


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


class Positive(nn.Module):
    def forward(self, x):
        return x.exp()

    def right_inverse(self, y):
        return y.log()


class Rank1(nn.Module):
    def forward(self, x, y):
        return x.unsqueeze(-1) @ y.unsqueeze(-2)

    def right_inverse(self, z):
        return z[:, 0].clone(), z[0].clone() / z[0, 0]


def test_a_parametrized_weight_is_learned_through_its_original():
    layer = nn.Linear(3, 3)
    assert not parametrize.is_parametrized(layer)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert type(layer).__name__ == "ParametrizedLinear"
    assert isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert [n for n, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    optimizer = lg.optim.SGD(layer.parameters(), lr=0.1)
    layer(lg.ones(2, 3)).sum().backward()
    before = layer.weight.tolist()
    optimizer.step()
    assert layer.weight.tolist() != before
    weight = layer.weight.detach().numpy()
    np.testing.assert_array_equal(weight, weight.T)
    other = copy.deepcopy(layer)
    assert other.weight.tolist() == layer.weight.tolist()
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert isinstance(layer.weight, nn.Parameter)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), weight)
    pickle.dumps(layer)
    fresh = nn.Linear(3, 3)
    parametrize.transfer_parametrizations_and_params(other, fresh)
    assert fresh.weight.tolist() == other.weight.tolist()


def test_assigning_goes_through_the_inverse():
    layer = nn.Linear(2, 2)
    with lg.no_grad():
        layer.weight.abs_()
    before = layer.weight.tolist()
    parametrize.register_parametrization(layer, "weight", Positive())
    np.testing.assert_allclose(layer.weight.detach().numpy(), before, rtol=1e-6)
    layer.weight = lg.full((2, 2), 3.0)
    np.testing.assert_allclose(layer.weight.detach().numpy(), 3.0, rtol=1e-6)
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    np.testing.assert_allclose(layer.weight.detach().numpy(), np.log(3.0), rtol=1e-6)


def test_several_originals():
    layer = nn.Linear(3, 2, bias=False)
    with lg.no_grad():
        layer.weight.copy_(lg.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]))
    parametrize.register_parametrization(layer, "weight", Rank1())
    assert list(layer.state_dict()) == [
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    assert layer.weight.tolist() == [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]
    with pytest.raises(ValueError, match="a sequence of tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert list(layer.state_dict()) == ["weight"]


def test_parametrizations_are_tried_out():
    class Shorter(nn.Module):
        def forward(self, x):
            return x[:1]

    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", Shorter())
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Shorter(), unsafe=True)
    assert layer.weight.shape == (1, 2)
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(nn.Linear(2, 2), "kernel", Symmetric())
    with pytest.raises(ValueError, match="does not have a parametrization"):
        parametrize.remove_parametrizations(nn.Linear(2, 2), "weight")


def test_spectral_norm_bounds_the_largest_singular_value():
    lg.manual_seed(0)
    layer = parametrizations.spectral_norm(nn.Linear(6, 5), n_power_iterations=20)
    layer(lg.ones(1, 6))
    sigma = np.linalg.svd(layer.weight.detach().numpy(), compute_uv=False)[0]
    assert sigma == pytest.approx(1.0, rel=1e-3)
    old = nn.utils.spectral_norm(nn.Linear(6, 5), n_power_iterations=20)
    old(lg.ones(1, 6))
    assert np.linalg.svd(old.weight.detach().numpy(), compute_uv=False)[0] == pytest.approx(
        1.0, rel=1e-3
    )
    nn.utils.remove_spectral_norm(old)
    assert list(old.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="not found"):
        nn.utils.remove_spectral_norm(old)


def test_orthogonal_weights_stay_orthogonal():
    lg.manual_seed(0)
    layer = parametrizations.orthogonal(nn.Linear(4, 6))
    optimizer = lg.optim.SGD(layer.parameters(), lr=0.5)
    start = layer.weight.detach().numpy()
    for _ in range(3):
        optimizer.zero_grad()
        layer(lg.ones(2, 4)).square().sum().backward()
        optimizer.step()
    weight = layer.weight.detach().numpy()
    assert not np.allclose(weight, start, atol=1e-3)
    np.testing.assert_allclose(weight.T @ weight, np.eye(4), atol=1e-5)


def test_pruned_weights_get_no_gradient_where_they_are_zero():
    layer = prune.l1_unstructured(nn.Linear(4, 3), "weight", 0.5)
    layer(lg.ones(2, 4)).sum().backward()
    mask = layer.weight_mask.numpy()
    assert mask.sum() == 6
    assert (layer.weight_orig.grad.numpy()[mask == 0] == 0).all()
    assert (layer.weight.detach().numpy()[mask == 0] == 0).all()
    prune.custom_from_mask(layer, "bias", lg.tensor([1.0, 0.0, 1.0]))
    assert layer.bias[1].item() == 0
    assert prune.is_pruned(nn.Sequential(layer))
    prune.remove(layer, "weight")
    prune.remove(layer, "bias")
    assert not prune.is_pruned(layer)
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(layer, "weight")


def test_skip_init_draws_nothing():
    lg.manual_seed(3)
    expected = lg.rand(3).tolist()
    lg.manual_seed(3)
    layer = nn.utils.skip_init(nn.Linear, 3, 4)
    assert layer.weight.shape == (4, 3)
    assert layer.weight.requires_grad
    assert lg.rand(3).tolist() == expected
    with pytest.raises(RuntimeError, match="must support a 'device' arg"):
        nn.utils.skip_init(nn.ReLU)


def test_clip_grads_with_a_known_norm():
    p = nn.Parameter(lg.zeros(2))
    p.grad = lg.tensor([3.0, 4.0])
    total = nn.utils.get_total_norm([p.grad])
    nn.utils.clip_grads_with_norm_([p], 1.0, total)
    np.testing.assert_allclose(p.grad.numpy(), [0.6, 0.8], rtol=1e-5)


def test_what_is_pruned_already_does_not_count_for_the_next_pruning():
    layer = nn.Linear(4, 2, bias=False)
    with lg.no_grad():
        layer.weight.copy_(lg.tensor([[5.0, 0.9, 0.9, 0.9], [5.1, 0.0, 0.0, 0.0]]))
    prune.custom_from_mask(layer, "weight", lg.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]))
    prune.ln_structured(layer, "weight", 1, n=2, dim=0)
    assert layer.weight.tolist() == [[0.0] * 4, pytest.approx([5.1, 0.0, 0.0, 0.0])]


def test_parameters_share_memory_with_the_vector_they_are_made_of() -> None:
    m = lg.nn.Linear(3, 2)
    vector = lg.arange(8.0)
    lg.nn.utils.vector_to_parameters(vector, m.parameters())
    vector.mul_(2)
    assert m.bias.tolist() == [12.0, 14.0]
    with lg.no_grad():
        m.weight.zero_()
    assert vector.tolist() == [0.0] * 6 + [12.0, 14.0]
    assert m.bias.storage_offset() == 6
    assert m.bias.requires_grad


def test_parameters_of_a_vector_that_is_gone_are_taken_apart() -> None:
    m = lg.nn.Linear(3, 2)
    lg.nn.utils.vector_to_parameters(lg.arange(8.0, dtype=lg.float64), m.parameters())
    assert m.weight.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert (m.bias.dtype, m.bias.storage_offset()) == (lg.float64, 0)
    with pytest.raises(RuntimeError):
        lg.nn.utils.vector_to_parameters(lg.arange(7.0), m.parameters())
    with pytest.raises(TypeError, match="expected Tensor"):
        lg.nn.utils.vector_to_parameters([1.0], m.parameters())
