"""`torch.library.Library`: operations that are declared by a schema, and given functions later.

```
 key of the function                         when it is called
 Autograd, AutogradCPU                       first, but not below itself (`below_autograd`)
 CPU, CompositeExplicitAutograd              when the value is needed; its gradient is registered
 CompositeImplicitAutograd, none             at once, where there is no function for the CPU; its
                                             gradient is that of what it calls
 Meta                                        for shapes and dtypes: `register_fake`
 others                                      never: they are for devices that are not there
```
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad.library.operation import CustomOpDef, definition_of
from livegrad.library.schema import parse


class Library:
    """Operations of one namespace. "DEF" begins it, "FRAGMENT" adds to it, "IMPL" gives functions
    to operations that were defined."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError("Unsupported kind: ", kind)
        if kind != "IMPL" and ns in ("aten", "prim", "prims"):
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name"
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Defines an operation, and returns its name."""
        if self.kind == "IMPL":
            raise RuntimeError("Library.define: a library of kind IMPL defines nothing; use DEF")
        said = parse(schema)
        if not said.name:
            raise RuntimeError(f"Library.define: {schema!r} has no name before its arguments")
        CustomOpDef.declared(f"{self.ns}::{said.name}", said)
        return said.name

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Gives an operation its function for a dispatch key."""
        if with_keyset:
            raise RuntimeError("Library.impl: livegrad has no keys to dispatch by; no with_keyset")
        name = op_name if isinstance(op_name, str) else op_name.name()
        name = name.partition("::")[2] or name
        if self.ns == "aten":
            raise RuntimeError(
                f"Library.impl: aten::{name} cannot be replaced: livegrad has no dispatcher. "
                "torch.overrides.TorchFunctionMode sees the functions that are called"
            )
        found = definition_of(f"{self.ns}::{name}")
        found.give(dispatch_key or self.dispatch_key or "CompositeImplicitAutograd", fn)

    def fallback(self, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """RuntimeError: there is no dispatcher that could fall back."""
        raise RuntimeError(
            "Library.fallback: livegrad has no dispatcher. torch.overrides.TorchFunctionMode sees "
            "the functions that are called"
        )


def define(qualname: str, schema: Any, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Defines an operation by its name, "namespace::name", and a schema without it."""
    if isinstance(qualname, Library):  # the older way, a decorator: define(lib, "name(...) -> ...")

        def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
            name = qualname.define(schema)
            qualname.impl(name, f)
            return f

        return wrap
    space, found, name = qualname.partition("::")
    if not found:
        raise ValueError(f'define: name must be "namespace::name", got {qualname!r}')
    (lib or Library(space, "FRAGMENT")).define(name + schema)
    return None


def impl(
    qualname: Any, types: Any, func: Callable[..., Any] | None = None, *, lib: Any = None
) -> Any:
    """Gives an operation its function for types of devices, "default" for all of them; a decorator
    if `func` is left out. Or, as of old, `impl(library, name, dispatch_key)`."""
    if isinstance(qualname, Library):

        def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(types, f, func or "")  # type: ignore[arg-type]
            return f

        return wrap
    return register_kernel(qualname, types, func, lib=lib)


def register_kernel(
    op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """`op.register_kernel`, of an operation or its name."""
    return definition_of(op).register_kernel(device_types, func)
