"""Which of our modules is which of torch's.

A module has the same name in both, unless it is listed here.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from importlib.machinery import PathFinder
from types import ModuleType

ROOT = "torch"
OURS = "livegrad"
VERSION = "2.13.0"  # the PyTorch whose names and meaning are followed

_HERE = "livegrad.porting.modules"

# Modules that are elsewhere here. What begins with one of these names is below the other.
MOVED = {
    "functorch": f"{_HERE}.functorch",
    "torch.ao": f"{_HERE}.ao",
    "torch.ao.nn.qat": "livegrad.compress.qat",
    "torch.ao.quantization": "livegrad.compress",
    "torch.ao.quantization.fake_quantize": "livegrad.compress.fake_quantize",
    "torch.ao.quantization.observer": "livegrad.compress.observers",
    "torch.ao.quantization.qconfig": "livegrad.compress.qconfig",
    "torch.quantization": "livegrad.compress",
    "torch.quantization.observer": "livegrad.compress.observers",
    "torch.__config__": f"{_HERE}.config",
    "torch._C._functorch": f"{_HERE}.batched",
    "torch._dynamo": f"{_HERE}.dynamo",
    "torch._dynamo._trace_wrapped_higher_order_op": f"{_HERE}.dynamo",
    "torch._functorch": f"{_HERE}.functorch",
    "torch._functorch.vmap": f"{_HERE}.functorch_vmap",
    "torch._higher_order_ops": f"{_HERE}.higher_order",
    "torch._higher_order_ops.associative_scan": f"{_HERE}.higher_order",
    "torch._higher_order_ops.cond": f"{_HERE}.higher_order",
    "torch._higher_order_ops.while_loop": f"{_HERE}.higher_order",
    "torch._inductor": f"{_HERE}.inductor",
    "torch._jit_internal": "livegrad.jit",
    "torch._logging": f"{_HERE}.logging",
    "torch._ops": f"{_HERE}.ops",
    "torch._subclasses": f"{_HERE}.dispatch",
    "torch._subclasses.fake_tensor": f"{_HERE}.dispatch",
    "torch._subclasses.functional_tensor": f"{_HERE}.dispatch",
    "torch._tensor": "livegrad.tensor",
    "torch._tensor_str": "livegrad.printing",
    "torch._utils": f"{_HERE}.rebuilding",
    "torch.autograd.grad_mode": "livegrad.autograd.modes",
    "torch.autograd.anomaly_mode": "livegrad.autograd.anomaly",
    "torch.autograd.variable": "livegrad.variable",
    "torch.compiler": f"{_HERE}.compiler",
    "torch.cpu": f"{_HERE}.cpu",
    "torch.cuda.amp.autocast_mode": "livegrad.cuda.amp",
    "torch.cuda.amp.common": "livegrad.cuda.amp",
    "torch.cuda.amp.grad_scaler": "livegrad.cuda.amp",
    "torch.cuda.comm": "livegrad.nn.parallel.scatter_gather",
    "torch.cuda.random": "livegrad.cuda",
    "torch.cuda.memory": "livegrad.cuda",
    "torch.cuda.streams": "livegrad.cuda",
    "torch.distributed._composable": "livegrad.distributed",
    "torch.distributed._composable.fsdp": "livegrad.distributed.fsdp",
    "torch.distributed._functional_collectives": "livegrad.distributed.functional_collectives",
    "torch.distributed._tensor": "livegrad.distributed.tensor",
    "torch.distributed._tensor.device_mesh": "livegrad.distributed.device_mesh",
    "torch.distributed.constants": "livegrad.distributed",
    "torch.distributed.checkpoint.filesystem": "livegrad.distributed.checkpoint",
    "torch.distributed.checkpoint.hf_storage": "livegrad.distributed.checkpoint",
    "torch.distributed.checkpoint.state_dict_loader": "livegrad.distributed.checkpoint",
    "torch.distributed.checkpoint.state_dict_saver": "livegrad.distributed.checkpoint",
    "torch.distributed.fsdp.api": "livegrad.distributed.fsdp",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "livegrad.distributed.fsdp",
    "torch.distributed.fsdp.sharded_grad_scaler": "livegrad.distributed.fsdp",
    "torch.distributed.rpc.api": "livegrad.distributed.rpc",
    "torch.distributed.tensor.parallel.api": "livegrad.distributed.tensor.parallel",
    "torch.distributed.tensor.parallel.style": "livegrad.distributed.tensor.parallel",
    "torch.distributed.launch": "livegrad.porting.launch",
    "torch.distributed.run": "livegrad.porting.launch",
    "torch.fx.experimental.proxy_tensor": f"{_HERE}.dispatch",
    "torch.nn.attention.flex_attention": "livegrad.nn.flex_attention",
    "torch.nn.common_types": f"{_HERE}.types",
    "torch.nn.parallel.comm": "livegrad.nn.parallel.scatter_gather",
    "torch.nn.parallel.parallel_apply": "livegrad.nn.parallel.scatter_gather",
    "torch.nn.parallel.replicate": "livegrad.nn.parallel.scatter_gather",
    "torch.nn.utils._named_member_accessor": f"{_HERE}.members",
    "torch.nn.utils.convert_parameters": "livegrad.nn.utils.vector",
    "torch.ops": f"{_HERE}.ops",
    "torch.optim.adadelta": "livegrad.optim",
    "torch.optim.adagrad": "livegrad.optim",
    "torch.optim.adamax": "livegrad.optim",
    "torch.optim.adamw": "livegrad.optim",
    "torch.optim.nadam": "livegrad.optim",
    "torch.optim.radam": "livegrad.optim",
    "torch.optim.rmsprop": "livegrad.optim",
    "torch.optim.rprop": "livegrad.optim",
    "torch.optim.sparse_adam": "livegrad.optim",
    "torch.torch_version": f"{_HERE}.version",
    "torch.types": f"{_HERE}.types",
    "torch.utils._foreach_utils": f"{_HERE}.foreach_utils",
    "torch.utils._contextlib": f"{_HERE}.contexts",
    "torch.utils._python_dispatch": f"{_HERE}.dispatch",
    "torch.utils._pytree": f"{_HERE}.pytree",
    "torch.utils.cpp_extension": f"{_HERE}.cpp_extension",
    "torch.utils.data._utils": "livegrad.utils.data",
    "torch.utils.data._utils.collate": "livegrad.utils.data.collate",
    "torch.utils.data._utils.pin_memory": f"{_HERE}.pinning",
    "torch.utils.flop_counter": f"{_HERE}.flop_counter",
    "torch.utils.weak": f"{_HERE}.weak",
    "torch.version": f"{_HERE}.version",
    "torchtext": f"{_HERE}.torchtext",
    "torchtext.vocab.vectors": f"{_HERE}.torchtext.vocab",
    "torchtext.vocab.vocab_factory": f"{_HERE}.torchtext.vocab",
    "torchvision": "livegrad.vision",
}

# Modules of other packages that need PyTorch's C++, but are imported by what does not: those that
# tell it about operations, and quantised models.
SKIPPED = frozenset(
    [
        "torchvision._autograd_registrations",
        "torchvision._meta_registrations",
        "torchvision.models.quantization",
    ]
)

# Parts of livegrad that are no part of torch, whatever their names.
PRIVATE = frozenset(
    "absent array_api asked asserting attr checks cli compiler compress control_flow "
    "creation datasets debug demo device dtypes environment events foreach graph introspection "
    "legacy lint methods moving native ops porting printing runtime sequences settings "
    "subclassing temporary tensor text train typed typing variable view vision".split()
)


def ours(name: str) -> str:
    """What a module of torch is called here: `torch.nn.init` is `livegrad.nn.init`."""
    if name in MOVED:
        return MOVED[name]
    above, _, last = name.rpartition(".")
    return f"{ours(above)}.{last}" if above else OURS


def is_torch(name: str) -> bool:
    """Whether this is torch, or a module in it."""
    return name == ROOT or name.startswith(f"{ROOT}.")


def is_found_here(name: str) -> bool:
    """Whether it is ours to say where a module is: torch's, and torchvision's if needed."""
    if is_torch(name) or name.split(".")[0] in ("functorch", "torchtext"):
        return True
    return is_torchvision(name) and not has_torchvision()


def is_torchvision(name: str) -> bool:
    """Whether this is torchvision, or a module in it."""
    return f"{name}.".startswith("torchvision.")


@cache
def has_torchvision() -> bool:
    """Whether torchvision itself is installed; then its Python runs."""
    return PathFinder.find_spec("torchvision") is not None


def is_private(name: str) -> bool:
    """Whether torch has no such module, although livegrad has one of the name."""
    if name in MOVED or not is_torch(name):
        return False
    return name.count(".") == 1 and name.split(".")[1] in PRIVATE


def find(name: str) -> ModuleType | None:
    """Our module for one of torch's; None if there is none."""
    if is_private(name):
        return None
    target = ours(name)
    try:
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{target}.".startswith(f"{error.name}."):
            return None
        raise  # it is there, and needs a package that is not installed


def theirs(module: str) -> str:
    """What one of our modules is called by programs that know it as torch's."""
    for name, known in list(sys.modules.items()):
        if is_found_here(name) and getattr(known, "__name__", None) == module:
            return name
    return module.replace(OURS, ROOT, 1)
