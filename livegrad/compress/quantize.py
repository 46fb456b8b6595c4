"""Models with int8 weights: `quantize_dynamic`; `prepare` and `convert`; `prepare_qat`.

quantize_dynamic(model)                     weights now, activations as they come
prepare ──► run it on some data ──► convert activations rounded to steps found beforehand
prepare_qat ──► train ──► convert           as above, learnt with the rounding in view
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from livegrad import nn
from livegrad.compress import layers, qat, recurrent
from livegrad.compress.observers import PlaceholderObserver
from livegrad.compress.qconfig import QConfig
from livegrad.compress.schemes import as_quantized, qint8
from livegrad.nn.module import Module
from livegrad.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from livegrad.tensor import Tensor

STATIC: dict[type, Any] = {
    nn.Linear: layers.Linear,
    nn.Conv1d: layers.Conv1d,
    nn.Conv2d: layers.Conv2d,
    nn.Conv3d: layers.Conv3d,
    nn.Embedding: layers.Embedding,
}
DYNAMIC: dict[type, Any] = {
    nn.Linear: layers.Linear,
    nn.LSTM: recurrent.LSTM,
    nn.GRU: recurrent.GRU,
    nn.Embedding: layers.Embedding,
}
_DEFAULT_DYNAMIC = (nn.Linear, nn.LSTM, nn.GRU)


# ------------------------------------------------------------------------------------ dynamic


def quantize_dynamic(
    model: Module,
    qconfig_spec: Any = None,
    dtype: Any = qint8,
    mapping: Any = None,
    inplace: bool = False,
) -> Any:
    """`model` with int8 weights; activations are quantised as they come, row by row.

    `qconfig_spec` is a set, or the keys of a dict, of types and names of modules; by default all
    of Linear, LSTM and GRU. Embeddings are taken if they are named.
    """
    if as_quantized(dtype) != qint8:
        raise ValueError(f"quantize_dynamic: got dtype {dtype}; expected qint8")
    chosen = set(_DEFAULT_DYNAMIC if qconfig_spec is None else qconfig_spec)
    known = DYNAMIC if mapping is None else mapping
    for item in chosen:
        if isinstance(item, type) and item not in known:
            raise ValueError(
                f"quantize_dynamic: no quantised layer for {item.__name__}; there are those of "
                f"{', '.join(sorted(kind.__name__ for kind in known))}"
            )
    model = model if inplace else copy.deepcopy(model)

    def quantised(name: str, module: Module) -> Module | None:
        kind = type(module)
        if kind not in known or not (kind in chosen or _is_named(name, chosen)):
            return None
        made: Module = known[kind].from_float(module)
        return made

    return _replaced(model, quantised)


def _is_named(name: str, chosen: set[Any]) -> bool:
    """Whether a module, or one that it is in, is among the names."""
    parts = name.split(".")
    return any([".".join(parts[: i + 1]) in chosen for i in range(len(parts))])


def _replaced(model: Module, replacement: Callable[[str, Module], Module | None]) -> Module:
    """`model` with its modules replaced where there is something else for them."""
    whole = replacement("", model)
    if whole is not None:
        return whole.train(model.training)
    made: dict[int, Module] = {}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        for child_name, child in _children(module):
            full = f"{name}.{child_name}" if name else child_name
            found = made.get(id(child)) or replacement(full, child)
            if found is not None:
                made[id(child)] = found.train(child.training)
                setattr(module, child_name, found)
    return model


def _children(module: Module) -> list[tuple[str, Module]]:
    """All, also those that are there under several names."""
    return [(name, child) for name, child in module._modules.items() if child is not None]


# ------------------------------------------------------------------------------------- static


class QuantStub(Module):
    """Where PyTorch's programs quantise: here layers do so themselves, and it gives its input."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """`x`."""
        return x


class DeQuantStub(QuantStub):
    """Where PyTorch's programs go back to floating-point numbers: they are so already."""


class QuantWrapper(Module):
    """A module between stubs."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.quant, self.dequant, self.module = QuantStub(), DeQuantStub(), module

    def forward(self, X: Tensor) -> Tensor:
        """What the module gives."""
        return self.dequant(self.module(self.quant(X)))


class _Watch:
    """A hook that shows a layer's input to its observer."""

    def __call__(self, module: Any, inputs: Any) -> Any:
        return (module.input_observer(inputs[0]), *inputs[1:])


def _configured(model: Module, above: Any = None, inside: str = "") -> Iterator[Any]:
    """(name, module, qconfig) of all modules: a module's own `qconfig`, or that of one above."""
    own = getattr(model, "qconfig", above)
    yield inside, model, own
    for name, child in model.named_children():
        yield from _configured(child, own, f"{inside}.{name}" if inside else name)


def _check_config(name: str, found: list[Any]) -> None:
    if not found:
        raise ValueError(
            f"{name}: no layer has a qconfig. Set model.qconfig = get_default_qconfig() first"
        )


def prepare(
    model: Module,
    inplace: bool = False,
    allow_list: Any = None,
    observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: Any = None,
) -> Any:
    """`model` with observers of its layers' inputs; run it on some data, then `convert` it."""
    model = model if inplace else copy.deepcopy(model)
    found = [
        (module, config)
        for _, module, config in _configured(model)
        if type(module) in STATIC and isinstance(config, QConfig)
    ]
    _check_config("prepare", found)
    for module, config in found:
        module.qconfig = config
        if isinstance(module, nn.Embedding):
            continue
        module.add_module("input_observer", config.activation())
        module.register_forward_pre_hook(_Watch())
    return model


def convert(
    module: Module,
    mapping: Any = None,
    inplace: bool = False,
    remove_qconfig: bool = True,
    is_reference: bool = False,
    convert_custom_config_dict: Any = None,
) -> Any:
    """A prepared model with int8 layers in place of those that were observed."""
    model = module if inplace else copy.deepcopy(module)
    known = STATIC if mapping is None else mapping
    count = 0

    def quantised(name: str, layer: Module) -> Module | None:
        nonlocal count
        kind = qat.FLOAT.get(type(layer), type(layer))
        config = getattr(layer, "qconfig", None)
        if kind not in known or not isinstance(config, QConfig):
            return None
        if kind is not nn.Embedding and not hasattr(layer, "input_observer"):
            return None
        count += 1
        return _converted(name, layer, known[kind], config)

    found = _replaced(model, quantised)
    if not count:
        raise ValueError("convert: no layer is prepared. Call prepare() or prepare_qat() first")
    if remove_qconfig:
        for part in found.modules():
            part.__dict__.pop("qconfig", None)
    return found


def _converted(name: str, layer: Any, kind: Any, config: QConfig) -> Module:
    made: Module
    if kind is layers.Embedding:
        made = kind.from_float(layer)
        return made
    observer = layer.input_observer
    inner = getattr(observer, "activation_post_process", observer)
    weights = getattr(layer, "weight_fake_quant", None) or config.weight()
    if isinstance(inner, PlaceholderObserver):
        made = kind.from_float(layer, None, weights)
        return made
    try:
        qparams = observer.calculate_qparams()
    except RuntimeError as error:
        raise RuntimeError(f"convert: layer {name or type(layer).__name__}: {error}") from None
    made = kind.from_float(layer, qparams, weights)
    return made


def prepare_qat(model: Module, mapping: Any = None, inplace: bool = False) -> Any:
    """`model` with layers that round weights and inputs as int8 layers will; train it, then
    `convert` it."""
    if not model.training:
        raise ValueError("prepare_qat: the model is in eval mode; call model.train() first")
    model = model if inplace else copy.deepcopy(model)
    configs = {
        name: config for name, _, config in _configured(model) if isinstance(config, QConfig)
    }
    known = qat.LAYERS if mapping is None else mapping
    count = 0

    def learning(name: str, layer: Module) -> Module | None:
        nonlocal count
        config = configs.get(name)
        if type(layer) not in known or config is None:
            return None
        count += 1
        made: Module = known[type(layer)].from_float(layer, config)
        return made

    model = _replaced(model, learning)
    if not count:
        raise ValueError(
            "prepare_qat: no layer has a qconfig. Set model.qconfig = get_default_qat_qconfig()"
        )
    return model


def quantize(
    model: Module, run_fn: Any, run_args: Any, mapping: Any = None, inplace: bool = False
) -> Any:
    """`prepare`, `run_fn(model, *run_args)`, `convert`."""
    model = prepare(model.eval(), inplace)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model: Module, run_fn: Any, run_args: Any, inplace: bool = False) -> Any:
    """`prepare_qat`, `run_fn(model, *run_args)`, `convert`."""
    model = prepare_qat(model.train(), inplace=inplace)
    run_fn(model, *run_args)
    return convert(model.eval(), inplace=True)


# -------------------------------------------------------------------------------------- fusing


def fuse_modules(
    model: Module, modules_to_fuse: Any, inplace: bool = False, fuser_func: Any = None,
    fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """Batch norms folded into the layers before them, as in evaluation.

    `modules_to_fuse` is a list of names, or of such lists: `["conv", "bn", "relu"]`. Activations
    stay where they are: kernels have them fused in any case.
    """
    if model.training:
        raise ValueError("fuse_modules: the model is in training mode; call model.eval() first")
    model = model if inplace else copy.deepcopy(model)
    groups = modules_to_fuse
    if all([isinstance(name, str) for name in groups]):
        groups = [groups]
    for names in groups:
        _fuse(model, list(names))
    return model


def _fuse(model: Module, names: list[str]) -> None:
    found = [model.get_submodule(name) for name in names]
    kinds = [type(part) for part in found]
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    rest = found[2:] if len(found) > 1 and isinstance(found[1], norms) else found[1:]
    if not isinstance(found[0], nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear) or not all(
        [isinstance(part, nn.ReLU | nn.Identity) for part in rest]
    ):
        shown = ", ".join([kind.__name__ for kind in kinds])
        raise NotImplementedError(
            f"fuse_modules: cannot fuse {shown}; expected a convolution or Linear, then a batch "
            "norm, then ReLU"
        )
    if len(rest) == len(found) - 1:
        return
    fused = (fuse_linear_bn_eval if isinstance(found[0], nn.Linear) else fuse_conv_bn_eval)(
        found[0], found[1]
    )
    _put(model, names[0], fused)
    _put(model, names[1], nn.Identity())


def _put(model: Module, name: str, module: Module) -> None:
    above, _, last = name.rpartition(".")
    setattr(model.get_submodule(above), last, module)


def propagate_qconfig_(module: Module, qconfig_dict: Any = None) -> None:
    """Gives each layer the `qconfig` of the module that it is in."""
    for _, part, config in list(_configured(module)):
        if config is not None:
            part.qconfig = config


def add_quant_dequant(module: Module) -> Module:
    """A module between stubs."""
    return QuantWrapper(module)


__all__ = [
    "DeQuantStub", "QuantStub", "QuantWrapper", "add_quant_dequant", "convert", "fuse_modules",
    "prepare", "prepare_qat", "propagate_qconfig_", "quantize",
    "quantize_dynamic", "quantize_qat",
]  # fmt: skip
