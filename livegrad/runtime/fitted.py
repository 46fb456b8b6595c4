"""Plans that serve every size, and how they are found: resizing.py makes them.

It is by the families of the pending nodes, which specs of all sizes share.
"""

from __future__ import annotations

from livegrad.graph.node import Node
from livegrad.native.calls import remainder
from livegrad.native.hot import hot
from livegrad.runtime.cpu.pieces.families import know_families
from livegrad.runtime.executable import Executable

# By a digest of families; those with the same differ in links, in what is kept, or in which sizes
# are equal.
FITTED: dict[int, tuple[Executable, ...]] = {}
_DIGESTS = 1 << 48


@hot
def digest_of_families(nodes: list[Node]) -> int:
    """A number that structures have in common which differ in sizes only; their families must be
    known. The spec of a backward pass says which way it went, and has no sizes. Updates make it 0:
    their families do not tell all of them."""
    digest = 0
    for node in nodes:
        kind = node.spec.op.kind
        if kind == "update":
            return 0
        known = id(node.spec) if kind == "gradient" else id(node.spec.family)
        # So that it stays below 64 bits.
        digest = remainder(digest, _DIGESTS) * 31 + known
    return digest


@hot
def fitted_for(nodes: list[Node]) -> tuple[Executable, ...]:
    """The plans that may serve pending nodes, whatever their sizes."""
    know_families(nodes)
    return FITTED.get(digest_of_families(nodes), ())
