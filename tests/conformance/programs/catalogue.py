"""The programs: where they are, and what makes them short."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.conformance.programs.readme import blocks


@dataclass(frozen=True)
class Program:
    """A script of a repository, its arguments, and the data it looks for: (kind, place)."""

    repo: str
    path: str
    args: tuple[str, ...] = ()
    data: tuple[tuple[str, str], ...] = ()
    text: str | None = None  # of a script that is a block of a document
    first: str = ""  # another script that makes its data

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.repo.replace('+', '/')}: {self.path}"


def _all(repo: str, lines: str, *data: tuple[str, str], below: str = "") -> list[Program]:
    """One program for each line: a path, and its arguments."""
    found = []
    for line in lines.strip().splitlines():
        path, *args = line.split("|")
        found.append(Program(repo, below + path.strip(), tuple(" ".join(args).split()), data))
    return found


def _mnist(place: str) -> tuple[str, str]:
    return ("mnist", place)


EXAMPLES = [
    *_all(
        "pytorch+examples",
        """
        mnist/main.py | --epochs 1
        mnist_rnn/main.py | --epochs 1
        mnist_hogwild/main.py | --epochs 1 --num-processes 2
        mnist_forward_forward/main.py | --epochs 2 --train_size 200 --test_size 100
        siamese_network/main.py | --epochs 1 --dry-run
        vae/main.py | --epochs 1
        """,
        _mnist("data"),
        _mnist("mnist_forward_forward/data"),
    ),
    *_all(
        "pytorch+examples",
        """
        regression/main.py
        dcgan/main.py | --dataset fake --dry-run --batchSize 4 --workers 1
        imagenet/main.py | --dummy -a resnet18 --epochs 1 -b 8
        reinforcement_learning/reinforce.py
        reinforcement_learning/actor_critic.py
        word_language_model/main.py | --epochs 1 --emsize 32 --nhid 32
        word_language_model/main.py | --epochs 1 --emsize 32 --nhid 32 --model Transformer
        word_language_model/main.py | --epochs 1 --emsize 32 --nhid 32 --model GRU
        fx/custom_tracer.py
        fx/inline_function.py
        fx/invert.py
        fx/module_tracer.py
        fx/primitive_library.py
        fx/profiling_tracer.py
        fx/proxy_based_graph_creation.py
        fx/replace_op.py
        fx/subgraph_rewriter_basic_use.py
        fx/wrap_output_dynamically.py
        gat/main.py | --epochs 2
        gcn/main.py | --epochs 2
        """,
        ("text", "word_language_model/data/wikitext-2"),
        ("cora", "gcn/cora"),
        ("cora", "gat/cora"),
    ),
    Program(
        "pytorch+examples",
        "time_sequence_prediction/train.py",
        ("--steps", "1"),
        first="time_sequence_prediction/generate_sine_wave.py",
    ),
]

YUNJEY = _all(
    "yunjey+pytorch-tutorial",
    """
    01-basics/linear_regression/main.py
    01-basics/logistic_regression/main.py
    01-basics/feedforward_neural_network/main.py
    02-intermediate/bidirectional_recurrent_neural_network/main.py
    02-intermediate/convolutional_neural_network/main.py
    02-intermediate/recurrent_neural_network/main.py
    02-intermediate/language_model/main.py
    03-advanced/generative_adversarial_network/main.py
    03-advanced/variational_autoencoder/main.py
    """,
    _mnist("tutorials/data"),
    ("words", "tutorials/02-intermediate/language_model/data"),
    below="tutorials/",
)

NLP = _all(
    "graykode+nlp-tutorial",
    """
    1-1.NNLM/NNLM.py
    1-2.Word2Vec/Word2Vec-Skipgram(Softmax).py
    2-1.TextCNN/TextCNN.py
    3-1.TextRNN/TextRNN.py
    3-2.TextLSTM/TextLSTM.py
    3-3.Bi-LSTM/Bi-LSTM.py
    4-1.Seq2Seq/Seq2Seq.py
    4-2.Seq2Seq(Attention)/Seq2Seq(Attention).py
    4-3.Bi-LSTM(Attention)/Bi-LSTM(Attention).py
    5-1.Transformer/Transformer(Greedy_decoder).py
    5-1.Transformer/Transformer.py
    5-2.BERT/BERT.py
    """,
)

JOHNSON = _all(
    "jcjohnson+pytorch-examples",
    """
    autograd/two_layer_net_autograd.py
    autograd/two_layer_net_custom_function.py
    nn/dynamic_net.py
    nn/two_layer_net_module.py
    nn/two_layer_net_nn.py
    nn/two_layer_net_optim.py
    tensor/two_layer_net_tensor.py
    """,
)

ZERO_TO_ALL = _all(
    "hunkim+PyTorchZeroToAll",
    """
    03_auto_gradient.py
    05_linear_regression.py
    06_logistic_regression.py
    07_diabets_logistic.py
    08_1_dataset_loader.py
    08_2_dataset_loade_logistic.py
    09_01_softmax_loss.py
    09_2_softmax_mnist.py
    10_1_cnn_mnist.py
    11_1_toy_inception_mnist.py
    12_1_rnn_basics.py
    12_2_hello_rnn.py
    12_3_hello_rnn_seq.py
    12_4_hello_rnn_emb.py
    13_1_rnn_classification_basics.py
    13_2_rnn_classification.py
    13_3_char_rnn.py
    13_4_pack_pad.py
    14_1_seq2seq.py
    14_2_seq2seq_att.py
    """,
    _mnist("mnist_data"),
    _mnist("data"),
)

MORVAN = _all(
    "MorvanZhou+PyTorch-Tutorial",
    """
    201_torch_numpy.py
    202_variable.py
    203_activation.py
    301_regression.py
    302_classification.py
    303_build_nn_quickly.py
    304_save_reload.py
    305_batch_train.py
    306_optimizer.py
    401_CNN.py
    402_RNN_classifier.py
    403_RNN_regressor.py
    404_autoencoder.py
    406_GAN.py
    406_conditional_GAN.py
    501_why_torch_dynamic_graph.py
    503_dropout.py
    504_batch_normalization.py
    """,
    _mnist("tutorial-contents/mnist"),
    below="tutorial-contents/",
)

GAN = _all(
    "eriklindernoren+PyTorch-GAN",
    """
    aae/aae.py | --n_epochs 1
    acgan/acgan.py | --n_epochs 1
    began/began.py | --n_epochs 1
    bgan/bgan.py | --n_epochs 1
    cgan/cgan.py | --n_epochs 1
    cluster_gan/clustergan.py | --n_epochs 1
    dcgan/dcgan.py | --n_epochs 1
    dragan/dragan.py | --n_epochs 1
    ebgan/ebgan.py | --n_epochs 1
    gan/gan.py | --n_epochs 1
    infogan/infogan.py | --n_epochs 1
    lsgan/lsgan.py | --n_epochs 1
    relativistic_gan/relativistic_gan.py | --n_epochs 1
    sgan/sgan.py | --n_epochs 1
    softmax_gan/softmax_gan.py | --n_epochs 1
    wgan/wgan.py | --n_epochs 1
    wgan_div/wgan_div.py | --n_epochs 1
    wgan_gp/wgan_gp.py | --n_epochs 1
    """,
    _mnist("data/mnist"),
    below="implementations/",
)

KARPATHY = [
    *_all(
        "karpathy+makemore",
        """
        makemore.py | --max-steps 60 --type transformer --n-embd 32 --num-workers 1
        makemore.py | --max-steps 60 --type mlp --num-workers 1
        makemore.py | --max-steps 60 --type rnn --num-workers 1
        makemore.py | --max-steps 60 --type gru --num-workers 1
        makemore.py | --max-steps 60 --type bow --num-workers 1
        makemore.py | --max-steps 60 --type bigram --num-workers 1
        """,
    ),
    *_all("karpathy+ng-video-lecture", "bigram.py\ngpt.py"),
    *_all(
        "karpathy+minGPT",
        """
        projects/adder/adder.py | --trainer.max_iters=40 --model.model_type=gpt-nano
        projects/chargpt/chargpt.py | --trainer.max_iters=20 --model.model_type=gpt-nano
        """,
        ("input", "projects/chargpt"),
    ),
    Program(
        "karpathy+nanoGPT",
        "train.py",
        tuple(
            "config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=2 "
            "--block_size=32 --batch_size=4 --n_layer=2 --n_head=2 --n_embd=64 --max_iters=40 "
            "--lr_decay_iters=40 --dropout=0.0 --log_interval=10 --eval_interval=20".split()
        ),
        (("input", "data/shakespeare_char"),),
        first="data/shakespeare_char/prepare.py",
    ),
]

MINIMAL_RL = _all(
    "seungeunrho+minimalRL",
    """
    REINFORCE.py
    a2c.py
    a3c.py
    acer.py
    actor_critic.py
    ddpg.py
    dqn.py
    ppo.py
    ppo-continuous.py
    ppo-lstm.py
    sac.py
    vtrace.py
    """,
)

OTHERS = [
    *_all("tkipf+pygcn", "pygcn/train.py | --epochs 10", ("cora", "data/cora")),
    *_all("lucidrains+x-transformers", "train_copy.py\ntrain_parity.py"),
]

# Repositories whose README has programs.
DOCUMENTS = [
    "lucidrains+vit-pytorch",
    "lucidrains+x-transformers",
    "lucidrains+vector-quantize-pytorch",
    "lucidrains+perceiver-pytorch",
    "lucidrains+performer-pytorch",
    "lucidrains+mlp-mixer-pytorch",
    "lucidrains+linear-attention-transformer",
]


def programs(checkouts: Path) -> list[Program]:
    """All of them, those in documents included."""
    found = [
        Program(repo, f"README.md, line {line}", text=text)
        for repo in DOCUMENTS
        for line, text in blocks(checkouts / repo / "README.md")
    ]
    scripts = [EXAMPLES, YUNJEY, NLP, JOHNSON, ZERO_TO_ALL, MORVAN, GAN, KARPATHY, MINIMAL_RL]
    return [*(program for part in scripts for program in part), *OTHERS, *found]
