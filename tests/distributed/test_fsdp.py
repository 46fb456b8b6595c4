"""Modules that are spread over one process train as they do alone."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import livegrad as lg
from livegrad import distributed as dist, nn
from livegrad.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    FullStateDictConfig,
    FullyShardedDataParallel as FSDP,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
    register_fsdp_forward_method,
)
from livegrad.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    enable_wrap,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)
from livegrad.distributed.tensor import DTensor, Shard

pytestmark = pytest.mark.usefixtures("launched")


def network() -> nn.Sequential:
    lg.manual_seed(3)
    inner = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
    return nn.Sequential(inner, nn.Linear(8, 2))


def trained(model: nn.Module, steps: int = 4) -> list[float]:
    """Losses of some steps on the same data."""
    step = lg.optim.AdamW(model.parameters(), 0.05)
    x = lg.linspace(-1, 1, 24).reshape(6, 4)
    losses = []
    for _ in range(steps):
        loss = (model(x).float() ** 2).mean()
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())
    return losses


def test_fully_shard_trains_as_the_module_itself(tmp_path: Path) -> None:
    alone = network()
    expected = trained(alone)
    model = network()
    weight = model[1].weight
    fully_shard(model[0], offload_policy=CPUOffloadPolicy())
    assert fully_shard(model) is model
    assert dist.is_initialized()
    assert isinstance(model, nn.Sequential)
    assert isinstance(model, FSDPModule)
    assert isinstance(model[0], FSDPModule)
    assert type(model).__name__ == "FSDPSequential"
    assert model[1].weight is weight
    for p in model.parameters():
        assert isinstance(p, DTensor)
        assert isinstance(p, nn.Parameter)
        assert p.placements == (Shard(0),)
    assert type(model(lg.ones(2, 4))) is lg.Tensor
    model.load_state_dict(network().state_dict())
    assert trained(model) == expected
    state = model.state_dict()
    assert isinstance(state["1.weight"], DTensor)
    assert type(state["1.weight"].full_tensor()) is lg.Tensor
    lg.save(
        {k: v.full_tensor() for k, v in state.items() if isinstance(v, DTensor)}, tmp_path / "a.pt"
    )
    lg.testing.assert_close(
        lg.load(tmp_path / "a.pt")["1.weight"], alone[1].weight.detach(), rtol=0, atol=0
    )


def test_fully_shard_of_what_has_no_values_yet() -> None:
    with lg.device("meta"):
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    fully_shard(model[0])
    fully_shard(model)
    model.to_empty(device="cpu")
    for layer in model:
        layer.reset_parameters()
    assert all(isinstance(p, DTensor) for p in model.parameters())
    assert model(lg.ones(2, 3)).shape == (2, 1)


def test_loading_by_assignment_keeps_modules_sharded() -> None:
    model = fully_shard(nn.Linear(2, 2))
    model.load_state_dict({"weight": lg.ones(2, 2), "bias": lg.zeros(2)}, assign=True)
    assert isinstance(model.weight, DTensor)
    assert model(lg.ones(1, 2)).tolist() == [[2.0, 2.0]]


def test_mixed_precision_of_fully_shard() -> None:
    seen: list[lg.dtype] = []

    class Looks(nn.Linear):
        def forward(self, x: lg.Tensor) -> lg.Tensor:
            seen.extend([x.dtype, self.weight.dtype])
            return super().forward(x)

        def other(self, x: lg.Tensor) -> lg.Tensor:
            return x.to(self.weight.dtype) @ self.weight.T

    policy = MixedPrecisionPolicy(param_dtype=lg.bfloat16, output_dtype=lg.float64)
    model = fully_shard(Looks(2, 2), mp_policy=policy)
    out = model(lg.ones(3, 2))
    assert seen == [lg.bfloat16, lg.bfloat16]
    assert out.dtype is lg.float64
    out.sum().backward()
    assert model.weight.dtype is lg.float32
    assert model.weight.grad.dtype is lg.float32
    assert model.weight.grad.tolist() == [[3.0, 3.0]] * 2
    model.unshard()
    assert model.weight.dtype is lg.bfloat16
    model.reshard()
    assert model.weight.dtype is lg.float32
    register_fsdp_forward_method(model, "other")
    assert model.other(lg.ones(1, 2)).dtype is lg.bfloat16

    class Fails(nn.Linear):
        def forward(self, x: lg.Tensor) -> lg.Tensor:
            raise KeyError("inside")

    broken = fully_shard(Fails(2, 2), mp_policy=policy)
    with pytest.raises(KeyError):
        broken(lg.ones(1, 2))
    assert broken.weight.dtype is lg.float32


def test_refused() -> None:
    model = fully_shard(nn.Linear(2, 2))
    with pytest.raises(AssertionError, match="already"):
        fully_shard(model)
    with pytest.raises(ValueError, match="containers"):
        fully_shard(nn.ModuleList([nn.Linear(2, 2)]))
    with pytest.raises(ValueError, match="FSDPModules"):
        model.set_modules_to_forward_prefetch([nn.Linear(1, 1)])
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="init_process_group"):
        FSDP(nn.Linear(2, 2))


def test_the_wrapper_trains_as_the_module_itself() -> None:
    expected = trained(network())
    dist.init_process_group("gloo")
    model = FSDP(network(), sharding_strategy=ShardingStrategy.FULL_SHARD, use_orig_params=True)
    assert trained(model) == expected
    assert list(model.state_dict()) == list(network().state_dict())
    assert [n for n, _ in model.named_parameters()] == [n for n, _ in network().named_parameters()]
    assert model.module[1] is model[1]
    assert model.clip_grad_norm_(1e9) > 0
    with model.no_sync():
        model(lg.ones(2, 4)).sum().backward()
    with FSDP.summon_full_params(model):
        assert model.module[1].weight.shape == (2, 8)
    fresh = FSDP(network())
    fresh.load_state_dict(model.state_dict())
    lg.testing.assert_close(fresh.module[1].weight, model.module[1].weight)
    plain = network()
    plain.load_state_dict(model.state_dict())
    lg.testing.assert_close(plain[1].weight, model.module[1].weight)
    with pytest.raises(RuntimeError, match="Missing key"):
        fresh.load_state_dict({})


@pytest.mark.parametrize(
    ("policy", "wrapped"),
    [
        (ModuleWrapPolicy({nn.Linear}), {"0.0", "1"}),
        (partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.BatchNorm1d}), {"0.1"}),
        (partial(size_based_auto_wrap_policy, min_num_params=30), {"0.0"}),
        (
            CustomPolicy(lambda m: {"mixed_precision": None} if isinstance(m, nn.ReLU) else False),
            {"0.2"},
        ),
    ],
)
def test_policies(policy: object, wrapped: set[str]) -> None:
    dist.init_process_group("gloo")
    model = FSDP(network(), auto_wrap_policy=policy)
    inside = [m for m in FSDP.fsdp_modules(model) if m is not model]
    names = {
        name.replace("_fsdp_wrapped_module.", "").removesuffix("._fsdp_wrapped_module")
        for name, m in model.named_modules()
        if m in inside
    }
    assert names == wrapped
    assert list(model.state_dict()) == list(network().state_dict())
    model.load_state_dict(network().state_dict())
    assert trained(model) == trained(network())


def test_wrap_in_a_model() -> None:
    dist.init_process_group("gloo")
    layer = nn.Linear(1, 1)
    assert wrap(layer) is layer
    with enable_wrap(wrapper_cls=FSDP, mixed_precision=None):
        assert isinstance(wrap(layer), FSDP)
    assert wrap(layer) is layer


def test_mixed_precision_of_the_wrapper() -> None:
    dist.init_process_group("gloo")
    model = FSDP(network(), mixed_precision=MixedPrecision(param_dtype=lg.bfloat16))
    seen = []
    model.module[1].register_forward_hook(lambda m, i, o: seen.append((m.weight.dtype, o.dtype)))
    norm = model.module[0][1]
    norm.register_forward_hook(lambda m, i, o: seen.append(m.weight.dtype))
    model(lg.ones(2, 4)).float().sum().backward()
    assert seen == [lg.float32, (lg.bfloat16, lg.bfloat16)]
    assert model.module[1].weight.grad.dtype is lg.float32


def test_states_of_optimisers_by_name() -> None:
    dist.init_process_group("gloo")
    model = FSDP(network())
    step = lg.optim.Adam(model.parameters(), 0.1)
    model(lg.ones(2, 4)).sum().backward()
    step.step()
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig()):
        state = FSDP.optim_state_dict(model, step)
    assert set(state["state"]) == {n for n, _ in network().named_parameters()}
    other = FSDP(network())
    again = lg.optim.Adam(other.parameters(), 0.5)
    again.load_state_dict(FSDP.optim_state_dict_to_load(other, again, state))
    assert again.param_groups[0]["lr"] == 0.1
    mine, theirs = step.state[model.module[1].bias], again.state[other.module[1].bias]
    lg.testing.assert_close(mine["exp_avg"], theirs["exp_avg"])


def test_sharded_modules_do_not_make_functions_ask() -> None:
    """Parameters of sharded modules are computed with as ordinary ones are."""
    code = (
        "from livegrad.distributed.fsdp import fully_shard\n"
        "from livegrad.ops.support.strangers import Asking\n"
        "import livegrad as lg\n"
        "model = fully_shard(lg.nn.Linear(2, 1))\n"
        "model(lg.ones(3, 2)).sum().backward()\n"
        "lg.optim.SGD(model.parameters(), 0.1).step()\n"
        "print(Asking.installed)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "False\n", ran.stderr
