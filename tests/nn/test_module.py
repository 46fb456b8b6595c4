"""Module: members, state dicts, modes, hooks, copies."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn
from livegrad.nn.parallel import scatter_gather


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2, bias=False)
        self.scale = nn.Parameter(lg.ones(2))
        self.register_buffer("count", lg.zeros(1))
        self.register_buffer("scratch", lg.zeros(1), persistent=False)

    def forward(self, x, power=1):
        return (self.second(self.first(x)) * self.scale) ** power


NAMES = ["scale", "first.weight", "first.bias", "second.weight"]


def test_members_are_found_by_path_and_in_order():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == NAMES
    assert [n for n, _ in net.named_parameters(recurse=False)] == ["scale"]
    assert next(iter(net.named_parameters(prefix="net")))[0] == "net.scale"
    assert [n for n, _ in net.named_buffers()] == ["count", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "second"]
    assert list(net.children()) == [net.first, net.second]
    assert net.get_parameter("first.weight") is net.first.weight
    assert net.get_submodule("second") is net.second
    assert net.get_buffer("count") is net.count
    with pytest.raises(AttributeError, match="no submodule `third`"):
        net.get_submodule("third.x")


def test_shared_parameters_appear_once():
    net = Net()
    net.tied = nn.Linear(3, 4)
    net.tied.weight = net.first.weight
    names = [n for n, _ in net.named_parameters()]
    assert "tied.weight" not in names
    assert "tied.bias" in names
    everything = dict(net.named_parameters(remove_duplicate=False))
    assert everything["tied.weight"] is net.first.weight


def test_attributes_and_tables_stay_in_step():
    net = Net()
    fresh = nn.Parameter(lg.zeros(2))
    net.scale = fresh
    assert net._parameters["scale"] is fresh is net.scale
    net._parameters["scale"] = None
    assert net.scale is None
    with pytest.raises(TypeError, match="cannot assign 'float' as parameter 'scale'"):
        net.scale = 3.0
    del net.scale
    assert not hasattr(net, "scale")
    assert "scale" not in net._parameters
    net.count = lg.ones(3)
    assert net._buffers["count"].shape == (3,)
    net.first = nn.Identity()
    assert [n for n, _ in net.named_parameters()] == ["second.weight"]
    net.first = None
    assert net.first is None
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'other'"):
        net.other
    assert "second" in dir(net)


def test_a_buffer_object_becomes_a_buffer():
    net = Net()
    net.kept = nn.Buffer(lg.ones(2))
    net.dropped = nn.Buffer(lg.ones(2), persistent=False)
    assert "kept" in net.state_dict()
    assert "dropped" not in net.state_dict()


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_of_a_buffer_object(again):
    buffer = again(nn.Buffer(lg.ones(2), persistent=False))
    assert isinstance(buffer, nn.Buffer)
    assert not buffer.persistent
    assert again(nn.Buffer(lg.ones(2))).persistent
    assert not buffer.requires_grad
    assert again(nn.Buffer(lg.ones(2, requires_grad=True))).requires_grad


def test_registration_errors():
    net = Net()
    with pytest.raises(KeyError, match="contain"):
        net.register_buffer("a.b", lg.zeros(1))
    with pytest.raises(KeyError, match="already exists"):
        net.register_parameter("forward", nn.Parameter(lg.zeros(1)))
    with pytest.raises(TypeError, match="is not a Module"):
        net.add_module("x", 3)
    product = net.scale * 2
    product.__class__ = nn.Parameter
    with pytest.raises(ValueError, match="non-leaf"):
        net.register_parameter("x", product)

    class Early(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(lg.zeros(1))

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


def test_state_dict_shares_values_and_loads_back():
    net, other = Net(), Net()
    saved = net.state_dict()
    assert list(saved) == ["scale", "count", "first.weight", "first.bias", "second.weight"]
    assert not any(v.requires_grad for v in saved.values())
    with lg.no_grad():
        net.scale.add_(1.0)
    assert saved["scale"].tolist() == [2.0, 2.0]
    assert repr(other.load_state_dict(saved)) == "<All keys matched successfully>"
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        assert b.requires_grad
        assert b.is_leaf
    with lg.no_grad():
        net.scale.add_(1.0)
    assert other.scale.tolist() == [2.0, 2.0]


def test_load_state_dict_reports_everything_wrong_at_once():
    net = Net()
    saved = dict(net.state_dict())
    del saved["scale"]
    saved["extra"] = lg.zeros(1)
    saved["first.bias"] = lg.zeros(7)
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(saved)
    text = str(error.value)
    assert text.startswith("Error(s) in loading state_dict for Net:")
    assert 'Missing key(s) in state_dict: "scale".' in text
    assert 'Unexpected key(s) in state_dict: "extra".' in text
    assert "size mismatch for first.bias: copying a param with shape" in text
    saved["first.bias"] = np.ones(4)
    result = net.load_state_dict(saved, strict=False)
    assert result.missing_keys == ["scale"]
    assert result.unexpected_keys == ["extra"]
    assert net.first.bias.tolist() == [1.0] * 4


def test_load_state_dict_with_assign_replaces_parameters():
    net = Net()
    old = net.scale
    net.load_state_dict({"scale": lg.zeros(2)}, strict=False, assign=True)
    assert net.scale is not old
    assert isinstance(net.scale, nn.Parameter)
    assert net.scale.tolist() == [0.0, 0.0]


def test_state_dict_hooks_and_extra_state():
    class Extra(nn.Module):
        def __init__(self):
            super().__init__()
            self.note = "a"

        def get_extra_state(self):
            return self.note

        def set_extra_state(self, state):
            self.note = state

    net = nn.Sequential(Extra())
    saved = net.state_dict()
    assert saved == {"0._extra_state": "a"}
    net.load_state_dict({"0._extra_state": "b"})
    assert net[0].note == "b"
    seen = []
    net.register_state_dict_post_hook(lambda m, d, prefix, meta: seen.append("post"))
    net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append("pre"))
    net.register_load_state_dict_pre_hook(lambda m, d, *rest: d.update({"0._extra_state": "c"}))
    net.register_load_state_dict_post_hook(lambda m, keys: seen.append(len(keys.missing_keys)))
    net.state_dict()
    net.load_state_dict({})
    assert seen == ["pre", "post", 0]
    assert net[0].note == "c"


def test_train_eval_zero_grad_and_requires_grad():
    net = Net()
    assert net.eval() is net
    assert not net.first.training
    net.train()
    assert net.second.training
    net(lg.ones(1, 3)).sum().backward()
    assert net.scale.grad is not None
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0.0, 0.0]
    net.zero_grad()
    assert net.scale.grad is None
    net.requires_grad_(False)
    assert not net(lg.ones(1, 3)).requires_grad


def test_casting_keeps_the_parameter():
    net = Net()
    weight = net.first.weight
    values = weight.tolist()
    assert net.double() is net
    assert net.first.weight is weight
    assert weight.dtype is lg.float64
    assert net.count.dtype is lg.float64
    assert weight.requires_grad
    assert weight.is_leaf
    assert weight.tolist() == values
    net(lg.ones(1, 3, dtype=lg.float64)).sum().backward()
    assert weight.grad.dtype is lg.float64
    net.to(lg.float32)
    assert weight.grad.dtype is lg.float32
    assert net.half().scale.dtype is lg.float16
    with pytest.raises(TypeError, match="floating point or complex dtypes"):
        net.to(lg.int64)


def test_apply_visits_children_first():
    seen = []
    net = Net()
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "Linear", "Net"]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent_and_complete(duplicate):
    net = Net()
    net.tied = net.first
    other = duplicate(net)
    assert other.tied is other.first
    assert other.first.weight is other.first._parameters["weight"]
    assert other.first.weight is not net.first.weight
    assert isinstance(other.scale, nn.Parameter)
    assert "scratch" in other._non_persistent_buffers_set
    with lg.no_grad():
        net.scale.zero_()
    assert other.scale.tolist() == [1.0, 1.0]
    x = lg.ones(2, 3)
    assert other(x).shape == (2, 2)
    other.scale = nn.Parameter(lg.zeros(2))
    assert other._parameters["scale"] is other.scale


def test_a_forgotten_module_is_freed_at_once():
    net = Net()
    gc.collect()
    gc.disable()
    try:
        reference = weakref.ref(net)
        del net
        assert reference() is None
    finally:
        gc.enable()


def test_forward_hooks_see_and_change():
    net = Net()
    x = lg.ones(1, 3)
    plain = net(x).detach().numpy()
    handles = [
        net.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        net.register_forward_pre_hook(
            lambda m, args, kwargs: (args, {"power": 1}), with_kwargs=True
        ),
        net.register_forward_hook(lambda m, args, out: out + 1),
        net.register_forward_hook(lambda m, args, out: out * 10, prepend=True),
    ]
    with lg.no_grad():
        net.first.bias.zero_()
    changed = net(x, power=7).detach().numpy()
    for handle in handles:
        handle.remove()
    plain = net(x).detach().numpy()
    np.testing.assert_allclose(changed, plain * 20 + 1, rtol=1e-5)


def test_always_called_hooks_run_after_a_failure():
    seen = []
    net = Net()
    net.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    net.register_forward_hook(lambda m, args, out: seen.append("not this"))
    with pytest.raises(RuntimeError):
        net(lg.ones(1, 5))
    assert seen == [None]


def test_full_backward_hooks():
    layer = nn.Linear(2, 1, bias=False)
    seen = []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
    layer.register_full_backward_pre_hook(lambda m, go: (go[0] * 3,))
    x = lg.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    weight = layer.weight.detach().numpy()
    ((grad_input, grad_output),) = seen
    assert grad_output[0].tolist() == [[3.0]]
    np.testing.assert_allclose(grad_input[0].numpy(), weight * 3, rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), weight * 6, rtol=1e-6)
    assert layer.weight.grad.tolist() == [[3.0, 3.0]]
    with lg.no_grad():
        assert layer(x).shape == (1, 1)


def test_backward_hook_without_input_gradient():
    layer = nn.Linear(2, 1)
    seen = []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append(gi))
    layer(lg.ones(1, 2)).sum().backward()
    assert seen == [(None,)]


def test_backward_hooks_of_several_inputs_and_outputs_run_once():
    class Both(nn.Module):
        def forward(self, a, b, c):
            return a * b, (a + b) * c

    net, seen = Both(), []
    net.register_full_backward_pre_hook(lambda m, go: seen.append(go))
    net.register_full_backward_hook(lambda m, gi, go: seen.append(gi))
    a, b = (lg.ones(1, requires_grad=True) for _ in range(2))
    first, second = net(a, b, lg.full((1,), 3.0))
    (first * 2 + second).backward()
    assert [[None if g is None else g.item() for g in grads] for grads in seen] == [
        [2.0, 1.0],
        [5.0, 5.0, None],
    ]
    seen.clear()
    net(a, b, lg.ones(1))[1].backward()
    assert seen[0][0] is None
    assert seen[0][1].item() == 1.0


def test_parameter_takes_the_value_without_its_history():
    x = lg.ones(2, requires_grad=True)
    p = nn.Parameter(x * 2)
    assert p.is_leaf
    assert p.requires_grad
    assert p.tolist() == [2.0, 2.0]
    assert not nn.Parameter(x, requires_grad=False).requires_grad
    assert repr(p).startswith("Parameter containing:\ntensor([2., 2.]")
    assert isinstance(p, lg.Tensor)
    assert not isinstance(p * 1, nn.Parameter)
    with pytest.raises(RuntimeError, match="floating point"):
        nn.Parameter(lg.tensor([1, 2]))


def test_a_plain_attribute_makes_room_for_a_member():
    net = nn.Module()
    net.weight = None
    net.weight = nn.Parameter(lg.zeros(2))
    assert list(net._parameters) == ["weight"]
    net.layer = "later"
    net.layer = nn.Linear(1, 1)
    assert list(net._modules) == ["layer"]
    net.layer = nn.Parameter(lg.zeros(1))
    assert not net._modules
    assert "layer" in net._parameters
    net.plain = 3
    with pytest.raises(KeyError, match="already exists"):
        net.register_buffer("plain", lg.zeros(1))


def test_set_submodule_and_to_empty():
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    net.set_submodule("1.0", nn.Tanh())
    assert type(net[1][0]) is nn.Tanh
    net.set_submodule("1.extra", nn.Identity())
    with pytest.raises(AttributeError, match="no submodule `other`"):
        net.set_submodule("1.other", nn.Identity(), strict=True)
    weight = net[0].weight
    net.to_empty(device="cpu")
    assert net[0].weight is weight
    assert weight.shape == (2, 2)
    assert weight.requires_grad


def test_hooks_of_all_modules():
    from livegrad.nn.modules import module as m

    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    seen = []

    def note(text):
        return lambda mod, *rest: seen.append(text.format(type(mod).__name__))

    handles = [
        m.register_module_forward_pre_hook(note("> {}")),
        m.register_module_forward_hook(note("{}")),
        m.register_module_full_backward_hook(note("{}'")),
        m.register_module_parameter_registration_hook(lambda mod, name, p: seen.append(name)),
        m.register_module_module_registration_hook(lambda mod, name, sub: seen.append(name)),
        m.register_module_buffer_registration_hook(lambda mod, name, buffer: buffer * 2),
    ]
    try:
        x = lg.ones(1, 2, requires_grad=True)
        net(x).sum().backward()
        assert seen == [
            "> Sequential", "> Linear", "Linear", "> ReLU", "ReLU", "Sequential",
            "ReLU'", "Linear'", "Sequential'",
        ]  # fmt: skip
        seen.clear()
        net.other = nn.Module()
        net.other.weight = nn.Parameter(lg.zeros(1))
        net.other.register_buffer("scale", lg.ones(1))
        assert seen == ["other", "weight"]
        assert net.other.scale.item() == 2.0
    finally:
        for handle in handles:
            handle.remove()
    seen.clear()
    nn.Linear(2, 2)(lg.ones(1, 2))
    assert seen == []
    assert not nn.Module._hooked


def test_modules_may_change_how_they_are_loaded():
    class Renamed(nn.Linear):
        _version = 3

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            self.loaded = local_metadata.get("version")
            old = prefix + "kernel"
            if old in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(old)
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    net = nn.Sequential(Renamed(2, 2))
    saved = net.state_dict()
    assert saved._metadata["0"] == {"version": 3}
    net.load_state_dict(saved)
    assert net[0].loaded == 3
    net.load_state_dict({"0.kernel": lg.ones(2, 2), "0.bias": lg.zeros(2)})
    assert net[0].loaded is None
    assert net[0].weight.tolist() == [[1.0, 1.0]] * 2


def test_keys_with_a_prefix_too_many_or_too_few_are_explained():
    net = Net()
    wrapped = {f"module.{key}": value for key, value in net.state_dict().items()}
    with pytest.raises(RuntimeError, match=r'All keys have "module\." in front'):
        net.load_state_dict(wrapped)
    with pytest.raises(RuntimeError, match=r'The keys lack "module\."'):
        nn.DataParallel(net).load_state_dict(net.state_dict())
    nn.modules.utils.consume_prefix_in_state_dict_if_present(wrapped, "module.")
    net.load_state_dict(wrapped)


def test_numbers_saved_as_vectors_of_one_are_taken():
    norm = nn.BatchNorm1d(2)
    saved = dict(norm.state_dict(), num_batches_tracked=lg.tensor([5]))
    norm.load_state_dict(saved)
    assert norm.num_batches_tracked.item() == 5
    del saved["num_batches_tracked"]  # as before PyTorch 0.4.1
    norm.load_state_dict(saved)
    assert norm.num_batches_tracked.item() == 5


def test_a_backward_hook_is_for_later_calls():
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda *_: seen.append("first"))
    y = layer(lg.ones(1, 2))
    layer.register_full_backward_hook(lambda *_: seen.append("second"))
    y.sum().backward()
    assert seen == ["first"]


@pytest.mark.parametrize("whole", [lg.nn.Module.zero_grad, lg.optim.SGD.zero_grad])
def test_gradients_that_are_made_zero_have_no_history(whole):
    layer = nn.Linear(2, 1)
    (layer(lg.ones(1, 2)) ** 2).sum().backward(create_graph=True)
    assert layer.weight.grad.requires_grad
    owner = layer if whole is lg.nn.Module.zero_grad else lg.optim.SGD(layer.parameters(), 0.1)
    whole(owner, set_to_none=False)
    assert not layer.weight.grad.requires_grad
    assert layer.weight.grad.tolist() == [[0.0, 0.0]]


def test_backward_hooks_are_for_gradients_that_pass_the_outputs():
    """A gradient of a gradient may come to the inputs without having passed the outputs."""
    seen = []
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    module.register_full_backward_hook(lambda m, grad_input, grad_output: seen.append(grad_output))
    x = lg.ones(1, 2, requires_grad=True)
    (g,) = lg.autograd.grad(module(x).sum(), x, create_graph=True)
    assert len(seen) == 1
    g.sum().backward()
    assert len(seen) == 1


@pytest.mark.parametrize("name", ["scatter", "gather"])
def test_parts_for_gpus_are_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="no GPU here"):
        getattr(scatter_gather, name)([lg.ones(2)], [0])


def test_lists_and_dicts_of_parameters_are_written_as_in_pytorch() -> None:
    one, two = nn.Parameter(lg.ones(2)), nn.Parameter(lg.ones(1, 2))
    first = "  (0): Parameter containing: [livegrad.float32 of size 2]"
    assert repr(nn.ParameterList([one])) == f"ParameterList({first})"
    assert repr(nn.ParameterList([one, 3])) == (
        f"ParameterList(\n  {first}\n    (1): Object of type: int\n)"
    )
    assert repr(nn.ParameterDict({"a": two})) == (
        "ParameterDict(  (a): Parameter containing: [torch.FloatTensor of size 1x2])"
    )
    assert repr(nn.ParameterList()) == "ParameterList()"


def test_a_table_of_members_may_be_replaced() -> None:
    layer = nn.Linear(2, 2)
    layer._parameters = {"weight": nn.Parameter(lg.ones(2, 2)), "bias": None}
    assert layer(lg.ones(1, 2)).tolist() == [[2.0, 2.0]]
    assert list(layer.state_dict()) == ["weight"]


def test_a_copy_of_the_attributes_gets_tables_of_its_own() -> None:
    layer = nn.Linear(2, 2)
    other = object.__new__(nn.Linear)
    other.__dict__ = layer.__dict__.copy()
    other._parameters = {"weight": lg.ones(2, 2), "bias": None}
    assert other(lg.ones(1, 2)).tolist() == [[2.0, 2.0]]
    assert isinstance(layer.weight, nn.Parameter)
    assert len(list(layer.parameters())) == 2

    replica = layer._replicate_for_data_parallel()
    assert list(replica.parameters()) == []
    replica._parameters["weight"] = lg.ones(2, 2)
    assert not bool((layer.weight == 1).any())


def test_a_class_that_sets_attributes_itself_keeps_tables_of_its_own() -> None:
    class Plain(nn.Module):
        def __setattr__(self, name: str, value: object) -> None:
            object.__setattr__(self, name, value)

    module = Plain()
    module._parameters = {"weight": lg.ones(2)}
    assert module.weight.tolist() == [1.0, 1.0]
    with pytest.raises(AttributeError, match="no attribute 'bias'"):
        _ = module.bias


def test_modules_side_by_side_are_called_with_their_inputs() -> None:
    layers = [nn.Linear(2, 1), nn.Linear(2, 1)]
    x = lg.ones(1, 2)
    first, second = nn.parallel.parallel_apply(layers, [x, (x,)])
    assert first.tolist() == layers[0](x).tolist()
    assert second.tolist() == layers[1](x).tolist()
    with pytest.raises(RuntimeError, match="no GPU here"):
        nn.parallel.replicate(layers[0], [0])


def test_who_holds_a_gradient_holds_it_in_another_dtype_too() -> None:
    m = lg.nn.Linear(2, 2)
    m(lg.ones(1, 2)).sum().backward()
    held = m.weight.grad
    m.double()
    assert m.weight.grad is held
    assert held is not None
    assert held.dtype is lg.float64
    lg.nn.utils.clip_grad_value_(m.parameters(), 0.5)
    assert held.tolist() == [[0.5, 0.5], [0.5, 0.5]]
