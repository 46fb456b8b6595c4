"""Process groups of one process: how one is begun, and what it says of itself."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlparse

from livegrad.device import as_device
from livegrad.distributed.stores import FileStore, PrefixStore, Store, TCPStore
from livegrad.futures import Future

default_pg_timeout = timedelta(minutes=30)


class Backend(str):
    """The name of a way to communicate; with one process, none of them is used."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"
    UCC = "ucc"
    XCCL = "xccl"
    backend_list: ClassVar[list[str]] = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi"]

    def __new__(cls, name: str) -> Backend:
        """The name in small letters; "cpu:gloo,cuda:nccl" names one for each device."""
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name!r}")
        for part in name.lower().split(","):
            if part.rpartition(":")[2] not in cls.backend_list:
                raise AssertionError(
                    f"Unknown backend type {name}; there are {', '.join(cls.backend_list[1:])}"
                )
        return super().__new__(cls, name.lower())


class _Op:
    """A way to combine values; `ReduceOp.SUM` and so on."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"RedOpType.{self.name}"


class ReduceOp(_Op):
    """Ways to combine the values of all members; of one value, all of them give that value."""

    RedOpType = _Op
    SUM, AVG, PRODUCT = _Op("SUM"), _Op("AVG"), _Op("PRODUCT")
    MIN, MAX = _Op("MIN"), _Op("MAX")
    BAND, BOR, BXOR = _Op("BAND"), _Op("BOR"), _Op("BXOR")
    PREMUL_SUM = _Op("PREMUL_SUM")


class reduce_op:
    """The old name of `ReduceOp`."""

    SUM, PRODUCT, MIN, MAX = ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX


class Work:
    """A collective that was begun with `async_op=True`: it is done already."""

    def __init__(self, result: list[Any]) -> None:
        self._result = result

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until it is done."""
        return True

    def is_completed(self) -> bool:
        """Yes."""
        return True

    def is_success(self) -> bool:
        """Yes."""
        return True

    def exception(self) -> None:
        """There is none."""

    def result(self) -> list[Any]:
        """The tensors it wrote."""
        return self._result

    def source_rank(self) -> int:
        """Who sent it."""
        return 0

    def synchronize(self) -> None:
        """Nothing is left to be done."""

    def get_future(self) -> Future[list[Any]]:
        """A future that has the tensors it wrote."""
        future: Future[list[Any]] = Future()
        future.set_result(self._result)
        return future


class ProcessGroup:
    """A group of one process."""

    def __init__(self, backend: Backend, store: Store | None, timeout: timedelta) -> None:
        self._backend = backend
        self._store = store
        self.timeout = timeout
        self.group_desc = "default_pg"
        self.group_name = "0"

    def rank(self) -> int:
        """The place of this process in the group."""
        return 0

    def size(self) -> int:
        """How many processes there are."""
        return 1

    def name(self) -> str:
        """The backend."""
        return str(self._backend)

    def __copy__(self) -> ProcessGroup:
        return self

    def __deepcopy__(self, memo: Any) -> ProcessGroup:
        return self

    def __reduce__(self) -> Any:
        return _default_group, ()


class _Groups:
    """The default group, and those that were made besides."""

    default: ProcessGroup | None = None
    others: ClassVar[list[ProcessGroup]] = []


class _Members(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The default group."""
        return _Groups.default


class GroupMember(metaclass=_Members):
    """`WORLD` is the group of all; what `new_group` gives to others is `NON_GROUP_MEMBER`."""

    NON_GROUP_MEMBER: ClassVar[Any] = -100


class group(metaclass=_Members):
    """`group.WORLD` is the group of all."""


def _default_group() -> ProcessGroup:
    if _Groups.default is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return _Groups.default


def group_of(given: Any) -> ProcessGroup:
    """The group that a collective is called with, the default one if it is None."""
    default = _default_group()
    return default if given is None else given


# ------------------------------------------------------------------------------------ beginning


def is_available() -> bool:
    """Whether the package can be used: yes, for programs of one process."""
    return True


def is_initialized() -> bool:
    """Whether there is a default group."""
    return _Groups.default is not None


def is_gloo_available() -> bool:
    """Yes: the name of what is used on CPUs."""
    return True


def is_nccl_available() -> bool:
    """No: there are no GPUs."""
    return False


def is_mpi_available() -> bool:
    """No."""
    return False


def is_ucc_available() -> bool:
    """No."""
    return False


def is_xccl_available() -> bool:
    """No."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether a backend is there; `init_process_group` takes all names, for one process."""
    return backend.lower() == Backend.GLOO


def get_default_backend_for_device(device: Any) -> str:
    """What `init_process_group` uses for a device when nothing is said."""
    kind = as_device(device).type
    found = {"cpu": Backend.GLOO, "cuda": Backend.NCCL}.get(kind)
    if found is None:
        raise ValueError(f"Default backend not registered for device : {kind}")
    return str(found)


def is_torchelastic_launched() -> bool:
    """Whether a launcher such as `torchrun` has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Begins the default group, of one process.

    Number and rank are given, or come from the environment as launchers set it (`env://`), or
    from `tcp://host:port?rank=0&world_size=1` or `file:///path?...`.
    """
    if _Groups.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    name = Backend(Backend.UNDEFINED if backend is None else backend)
    if store is not None:
        if init_method is not None:
            raise AssertionError("Cannot specify both init_method and store.")
        _require(world_size > 0, "world_size must be positive if using store")
        _require(rank >= 0, "rank must be non-negative if using store")
        known: Store = store
    else:
        known, rank, world_size = rendezvous(init_method or "env://", rank, world_size)
    if world_size != 1:
        raise RuntimeError(
            f"init_process_group: got world_size={world_size}; livegrad runs programs of one "
            "process for now. Start one process: WORLD_SIZE=1, --nproc_per_node=1"
        )
    if rank != 0:
        raise ValueError(f"init_process_group: got rank={rank}; expected 0, of one process")
    wait = timeout or default_pg_timeout
    _Groups.default = ProcessGroup(name, PrefixStore("default_pg", known), wait)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def rendezvous(url: str, rank: int = -1, world_size: int = -1) -> tuple[Store, int, int]:
    """Where the members of a group meet: a store, the rank here, and how many there are."""
    if not isinstance(url, str):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    parts = urlparse(url)
    if parts.scheme not in ("env", "tcp", "file"):
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    given = dict(parse_qsl(parts.query))
    rank = rank if rank >= 0 else int(given.get("rank", -1))
    world_size = world_size if world_size >= 0 else int(given.get("world_size", -1))
    if parts.scheme == "env":
        rank = rank if rank >= 0 else int(_environment("RANK"))
        world_size = world_size if world_size >= 0 else int(_environment("WORLD_SIZE"))
        host, port = _environment("MASTER_ADDR"), int(_environment("MASTER_PORT"))
        return TCPStore(host, port, world_size), rank, world_size
    for name, number in (("rank", rank), ("world size", world_size)):
        if number < 0:
            raise _failed(parts.scheme, f"{name} parameter missing")
    if parts.scheme == "file":
        if not parts.path:
            raise _failed("file", "path missing")
        return FileStore(parts.path, world_size), rank, world_size
    if not parts.port:
        raise _failed("tcp", "port number missing")
    return TCPStore(parts.hostname or "localhost", parts.port, world_size), rank, world_size


def _failed(scheme: str, reason: str) -> ValueError:
    return ValueError(
        f"Error initializing livegrad.distributed using {scheme}:// rendezvous: {reason}"
    )


def _environment(name: str) -> str:
    if name not in os.environ:
        raise _failed("env", f"environment variable {name} expected, but not set")
    return os.environ[name]


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group; without one, all groups."""
    if group is None and _Groups.default is None:
        raise AssertionError("Process group cannot be None")
    if group is None or group is _Groups.default:
        _Groups.default = None
        _Groups.others.clear()
    elif group in _Groups.others:
        _Groups.others.remove(group)
    else:
        raise ValueError("Invalid process group specified")


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Another group of the processes there are: of this one, or of none."""
    default = _default_group()
    wanted = [0] if ranks is None else list(ranks)
    if len(wanted) > 1:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    if wanted and wanted[0] != 0:
        raise ValueError(f"Rank {wanted[0]} is out of range. Valid ranks are 0 to 0 (world_size=1)")
    if not wanted:
        return GroupMember.NON_GROUP_MEMBER
    name = default._backend if backend is None else Backend(backend)
    made = ProcessGroup(name, default._store, timeout or default.timeout)
    made.group_desc = group_desc or "undefined"
    made.group_name = str(len(_Groups.others) + 1)
    _Groups.others.append(made)
    return made


# ----------------------------------------------------------------------------------- questions


def get_rank(group: Any = None) -> int:
    """The place of this process in a group; -1 if it is not in it."""
    return -1 if _is_outside(group) else group_of(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many processes a group has; -1 if this one is not in it."""
    return -1 if _is_outside(group) else group_of(group).size()


def get_backend(group: Any = None) -> Backend:
    """The name of a group's backend."""
    found = group_of(group)
    if _is_outside(found):
        raise ValueError("Invalid process group specified")
    return found._backend


def _is_outside(group: Any) -> bool:
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks, in the default group, of a group's processes."""
    group_of(group)
    return [0]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in a group of the process of a rank in the default one."""
    return _translated(group, global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank in the default group of the process of a rank in another."""
    return _translated(group, group_rank)


def _translated(group: ProcessGroup, rank: int) -> int:
    group_of(group)
    if rank != 0:
        raise ValueError(f"rank {rank} is not part of group {group}")
    return 0


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank among the processes of this machine, as launchers set it."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work without a launcher"
    )


def get_pg_count() -> int:
    """How many groups there are."""
    return int(is_initialized()) + len(_Groups.others)


default_group = _default_group

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "default_pg_timeout",
    "destroy_process_group",
    "get_backend",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "new_group",
    "reduce_op",
    "rendezvous",
]
