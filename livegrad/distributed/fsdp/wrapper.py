"""FullyShardedDataParallel: a module around another, which trains as that one does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from livegrad.distributed.fsdp.precision import cast_floats, cast_within
from livegrad.distributed.fsdp.settings import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    StateDictSettings,
    StateDictType,
)
from livegrad.distributed.fsdp.wrap import wrap_inside
from livegrad.distributed.groups import group_of
from livegrad.nn.module import Module
from livegrad.nn.utils.clip_grad import clip_grad_norm_

_INSIDE = "_fsdp_wrapped_module"


class FullyShardedDataParallel(Module):
    """Calls `module`; state dicts have its names. With one process, each parameter is whole here.

    `auto_wrap_policy` says which modules inside are wrapped, too; `mixed_precision`, the types of
    parameters and inputs while it is called.
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: Any = None,
        cpu_offload: Any = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: Any = None,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Any = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Any = None,
        device_mesh: Any = None,
        **inside: Any,
    ) -> None:
        super().__init__()
        self.process_group = group_of(
            process_group if not isinstance(process_group, tuple) else process_group[0]
        )
        ignored = set(ignored_modules or ())
        if auto_wrap_policy is not None:
            more = {"mixed_precision": mixed_precision, "param_init_fn": param_init_fn}
            wrapper = partial(FullyShardedDataParallel, process_group=process_group, **more)
            wrap_inside(module, auto_wrap_policy, wrapper, ignored)
        if param_init_fn is not None:
            _begin(module, param_init_fn)
        self.mixed_precision = mixed_precision or MixedPrecision()
        self.sharding_strategy = sharding_strategy
        self._state_dict_settings = StateDictSettings()
        self._fsdp_wrapped_module = module
        self._ignored = ignored
        self.register_load_state_dict_pre_hook(_renamed)

    @property
    def module(self) -> Module:
        """The module inside."""
        inside: Module = self._modules[_INSIDE]
        return inside

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def __getitem__(self, key: Any) -> Any:
        return self.module[key]  # type: ignore[index]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """`module(*args, **kwargs)`, in the types that `mixed_precision` says."""
        policy = self.mixed_precision
        root = not _Called.depth
        if policy.cast_forward_inputs or (root and policy.cast_root_forward_inputs):
            args = cast_floats(args, policy.param_dtype)
            kwargs = cast_floats(kwargs, policy.param_dtype)
        _Called.depth += 1
        try:
            with cast_within(self._modules_to_cast(), policy.param_dtype):
                return self.module(*args, **kwargs)
        finally:
            _Called.depth -= 1

    def _modules_to_cast(self) -> list[Module]:
        """The modules whose parameters are this one's, of classes that are cast."""
        kept = tuple(self.mixed_precision._module_classes_to_ignore)
        return [m for m in _owned(self.module, self._ignored) if not isinstance(m, kept)]

    # ---- state -----------------------------------------------------------------------------

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the module inside."""
        return self.module.state_dict(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Parameters by their names in the module inside."""
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{_INSIDE}.", ""), p

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Buffers by their names in the module inside."""
        for name, p in super().named_buffers(*args, **kwargs):
            yield name.replace(f"{_INSIDE}.", ""), p

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[Any]:
        """The wrapped modules in a module; only the outermost, if `root_only`."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        return found[:1] if root_only else found

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> StateDictSettings:
        """Sets what kind of state dicts there are from now on, and says what was before."""
        before = FullyShardedDataParallel.get_state_dict_type(module)
        now = StateDictSettings(
            state_dict_type,
            state_dict_config or FullStateDictConfig(),
            optim_state_dict_config or FullOptimStateDictConfig(),
        )
        for found in FullyShardedDataParallel.fsdp_modules(module):
            found._state_dict_settings = now
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What kind of state dicts there are."""
        found = FullyShardedDataParallel.fsdp_modules(module)
        return found[0]._state_dict_settings if found else StateDictSettings()

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Iterator[None]:
        """Within it, state dicts are of a kind."""
        settings = (state_dict_type, state_dict_config, optim_state_dict_config)
        before = FullyShardedDataParallel.set_state_dict_type(module, *settings)
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(
                module,
                before.state_dict_type,
                before.state_dict_config,
                before.optim_state_dict_config,
            )

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Within it, parameters are whole: with one process, they always are."""
        yield

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """The state of an optimiser, with parameters by their names."""
        given = optim.state_dict() if optim_state_dict is None else optim_state_dict
        names = _names(model, optim)
        groups = [{**g, "params": [names[i] for i in g["params"]]} for g in given["param_groups"]]
        return {
            "state": {names[i]: state for i, state in given["state"].items()},
            "param_groups": groups,
        }

    full_optim_state_dict = optim_state_dict
    sharded_optim_state_dict = optim_state_dict

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Any,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        """What `optim.load_state_dict` takes, of what `optim_state_dict` gave."""
        numbers = {name: i for i, name in _names(model, optim).items()}
        groups = [
            {**g, "params": [numbers[name] for name in g["params"]]}
            for g in optim_state_dict["param_groups"]
        ]
        found = {
            "state": {numbers[name]: s for name, s in optim_state_dict["state"].items()},
            "param_groups": groups,
        }
        if load_directly:
            optim.load_state_dict(found)
        return found

    # ---- training --------------------------------------------------------------------------

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, backward passes collect gradients of this process alone."""
        yield

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scales all gradients down to a norm, and gives the norm that they had."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    def check_is_root(self) -> bool:
        """Whether no other wrapped module is around it: known while modules are called."""
        return not _Called.depth

    def apply(self, fn: Any) -> Any:
        """Calls `fn` with each module inside."""
        return super().apply(fn)


class _Called:
    """How many wrapped modules are being called, one inside the other."""

    depth = 0


def _owned(module: Module, ignored: set[Module]) -> list[Module]:
    if module in ignored:
        return []
    found = [module]
    for child in module.children():
        if not isinstance(child, FullyShardedDataParallel):
            found += _owned(child, ignored)
    return found


def _begin(module: Module, begin: Any) -> None:
    """Calls `begin` with modules whose parameters have no values yet."""
    for part in module.modules():
        if any(p.is_meta for p in part.parameters(recurse=False)):
            begin(part)


def _renamed(module: Module, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Before loading: values by the names of the module inside get the names of this one."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        name = key[len(prefix) :]
        if not name.startswith(f"{_INSIDE}."):
            state_dict[f"{prefix}{_INSIDE}.{name}"] = state_dict.pop(key)


def _names(model: Module, optim: Any) -> dict[int, str]:
    """The names of an optimiser's parameters by the numbers that its state dict gives them."""
    names = {id(p): name.replace(f"{_INSIDE}.", "") for name, p in model.named_parameters()}
    ordered = [p for group in optim.param_groups for p in group["params"]]
    return {i: names[id(p)] for i, p in enumerate(ordered)}
