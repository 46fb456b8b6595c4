"""The gradient of a whole pending graph, recorded as one node.

`backward` on a graph that has not been computed yet need not apply a single rule: it records
GRADIENT, and one GRADIENT_OF per leaf. The planner expands GRADIENT by walking the recorded graph
with the ordinary rules, once per structure; a training step that repeats pays for two kinds of
nodes instead of for its whole backward pass.
"""

from __future__ import annotations

from livegrad.graph.op import Op

GRADIENT = Op(
    "gradient",
    "gradient",
    # Inputs (output,). attrs: how the walk went, one entry per input with a gradient rule, so that
    # equal attrs on equal graphs mean equal walks; see autograd/pending.py.
    infer=lambda metas, attrs, shape: metas[0],
)

GRADIENT_OF = Op(
    "gradient_of",
    "gradient_of",
    # One result of a GRADIENT: attrs (number of the leaf in the order of the walk,).
    infer=lambda metas, attrs, shape: metas[0],
)
