"""Programs whose structure is another one at every step, written once for torch and livegrad.

Each is a function (namespace, seed) -> step, where `step()` does one training step, another
structure every time, and returns the loss, unread. `python -m benchmarks.changing` compares them.
"""

from benchmarks.changing import decoding, learning, loops, mixed, programs, recurrent, tagging

ALL = {
    "tree": programs.tree_lstm,
    "dag": programs.random_layers,
    "expressions": programs.random_expressions,
    "mlp": programs.random_mlp,
    "graphs": programs.graph_network,
    "halting": programs.halting_gru,
    "forest": programs.forest,
    "mixed": mixed.mixed,
    "writes": loops.unread_writes,
    "write-read": loops.read_writes,
    "replay": loops.replay_buffer,
    "sieve": loops.sieve,
    "edit-distance": loops.edit_distance,
    "condition": loops.element_condition,
    "decode": decoding.decode_preallocated,
    "decode-read": decoding.decode_preallocated_read,
    "decode-cat": decoding.decode_cat,
    "decode-cat-read": decoding.decode_cat_read,
    "generate": decoding.generate,
    "generate-read": decoding.generate_read,
    "lstm-cells": recurrent.lstm_cells,
    "sine-waves": recurrent.sine_waves,
    "names": recurrent.names,
    "names-module": recurrent.names_module,
    "crf": tagging.crf,
    "viterbi": tagging.viterbi,
    "reinforce": learning.reinforce,
    "cartpole": learning.reinforce_cartpole,
    "dqn": learning.dqn,
}

USUAL_STEPS = 150
# Those whose steps are long do fewer.
STEPS = {
    "forest": 30,
    "generate": 24,
    "generate-read": 24,
    "lstm-cells": 30,
    "sine-waves": 18,
    "crf": 60,
    "reinforce": 60,
    "cartpole": 60,
}

# How many losses are compared where a last bit may turn a decision: another action, another token.
COMPARED = {
    "halting": 40,
    "decode": 20,
    "decode-read": 20,
    "decode-cat": 20,
    "decode-cat-read": 20,
    "generate": 4,
    "generate-read": 4,
    "cartpole": 8,
    "dqn": 40,
}
