"""Programs whose structure is another one at every step, written once for torch and livegrad.

Each is a function (namespace, seed) -> step, where `step()` does one training step, another
structure every time, and returns the loss, unread.
"""

from benchmarks.changing import programs

ALL = {
    "tree": programs.tree_lstm,
    "dag": programs.random_layers,
    "expressions": programs.random_expressions,
    "mlp": programs.random_mlp,
    "graphs": programs.graph_network,
    "halting": programs.halting_gru,
}
