"""The programs: where they are, and what makes them short."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.programs.further import FURTHER
from tests.conformance.programs.program import Program, several
from tests.conformance.programs.readme import blocks
from tests.conformance.programs.research import RESEARCH


def _mnist(place: str) -> tuple[str, str]:
    return ("mnist", place)


EXAMPLES = [
    *several(
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
    *several(
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

YUNJEY = several(
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

NLP = several(
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

JOHNSON = several(
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

ZERO_TO_ALL = several(
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

MORVAN = several(
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

GAN = several(
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
    *several(
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
    *several("karpathy+ng-video-lecture", "bigram.py\ngpt.py"),
    *several(
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

MINIMAL_RL = several(
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

DISTRIBUTED = several(
    "pytorch+examples",
    """
    ddp/example.py
    FSDP2/example.py
    tensor_parallelism/tensor_parallel_example.py
    tensor_parallelism/sequence_parallel_example.py
    tensor_parallelism/fsdp_tp_example.py
    minGPT-ddp/mingpt/main.py
    rpc/batch/parameter_server.py
    rpc/rnn/main.py
    rpc/pipeline/main.py
    """,
    below="distributed/",
)

_DNN, _CNN, _CODER = (
    "04-패션_아이템을_구분하는_DNN",
    "05-이미지_처리능력이_탁월한_CNN",
    "06-사람의_지도_없이_학습하는_오토인코더",
)
_ANN, _GAN, _DQN = (
    "03-파이토치로_구현하는_ANN",
    "09-경쟁하며_학습하는_GAN",
    "10-주어진_환경과_상호작용하며_성장하는_DQN",
)
KEON = several(
    "keon+3-min-pytorch",
    f"""
    {_ANN}/autograd_basic.py
    {_ANN}/tensor_basic.py
    {_ANN}/tensor_operation.py
    {_ANN}/basic_neural_network.py
    {_DNN}/fashion_mnist.py
    {_DNN}/neural_network.py
    {_DNN}/overfitting_and_regularization.py
    {_CNN}/cnn.py
    {_CODER}/basic_autoencoder.py
    {_CODER}/denoising_autoencoder.py
    {_GAN}/gan.py
    {_GAN}/conditional_gan.py
    {_DQN}/cartpole_dqn.py
    """,
    *[("fashion", f"{place}/.data") for place in (_DNN, _CODER, _GAN)],
    _mnist(f"{_CNN}/.data"),
)

BEGINNER = several(
    "L1aoXingyu+pytorch-beginner",
    """
    01-Linear Regression/Linear_Regression.py
    02-Logistic Regression/Logistic_Regression.py
    03-Neural Network/neural_network.py
    04-Convolutional Neural Network/convolution_network.py
    05-Recurrent Neural Network/recurrent_network.py
    06-Natural Language Process/N-Gram.py
    06-Natural Language Process/bag-of-word.py
    06-Natural Language Process/seq-lstm.py
    08-AutoEncoder/simple_autoencoder.py
    08-AutoEncoder/conv_autoencoder.py
    08-AutoEncoder/Variational_autoencoder.py
    09-Generative Adversarial network/simple_Gan.py
    09-Generative Adversarial network/conv_gan.py
    11-backward/backward.py
    """,
    ("fashion", "datasets"),
    ("fashion", "02-Logistic Regression/datasets"),
    ("fashion", "03-Neural Network/datasets"),
    _mnist("datasets"),
    *[
        _mnist(f"{part}/data")
        for part in (
            "04-Convolutional Neural Network",
            "05-Recurrent Neural Network",
            "08-AutoEncoder",
            "09-Generative Adversarial network",
        )
    ],
)

DIFFEQ = several(
    "rtqichen+torchdiffeq",
    """
    ode_demo.py | --niters 20 --test_freq 10 --data_size 200
    ode_demo.py | --niters 5 --test_freq 5 --data_size 100 --adjoint
    bouncing_ball.py
    learn_physics.py
    latent_ode.py | --niters 3
    cnf.py | --niters 3 --num_samples 32 --width 16 --hidden_dim 8
    odenet_mnist.py | --nepochs 1 --network resnet --batch_size 32 --data_aug False
    """,
    _mnist("examples/.data/mnist"),
    below="examples/",
)

LABML = several(
    "labmlai+annotated_deep_learning_paper_implementations",
    """
    transformers/label_smoothing_loss.py
    transformers/positional_encoding.py
    transformers/alibi/__init__.py
    transformers/aft/__init__.py
    transformers/rope/__init__.py
    transformers/xl/relative_mha.py
    normalization/batch_norm/__init__.py
    normalization/group_norm/__init__.py
    normalization/instance_norm/__init__.py
    normalization/layer_norm/__init__.py
    normalization/weight_standardization/conv2d.py
    optimizers/amsgrad.py
    optimizers/radam.py
    optimizers/noam.py
    optimizers/performance_test.py
    activations/fta/__init__.py
    diffusion/stable_diffusion/model/unet.py
    gan/cycle_gan/__init__.py
    """,
    below="labml_nn/",
)

IGNITE = several(
    "pytorch+ignite",
    """
    mnist/mnist.py | --epochs 1
    mnist/mnist_save_resume_engine.py | --epochs 1
    mnist/mnist_with_tqdm_logger.py | --epochs 1
    mnist/mnist_with_tensorboard.py | --epochs 1
    gan/dcgan.py | --dataset fake --epochs 1 --batch-size 4 --workers 1 --dataroot . --output-dir o
    reinforcement_learning/reinforce.py
    reinforcement_learning/actor_critic.py
    """,
    *[_mnist(f"examples/mnist/{place}") for place in (".", "data")],
    below="examples/",
)

OTHERS = [
    *several("tkipf+pygcn", "pygcn/train.py | --epochs 10", ("cora", "data/cora")),
    *several("lucidrains+x-transformers", "train_copy.py\ntrain_parity.py"),
    *several("cloneofsimo+minDiffusion", "superminddpm.py", _mnist("data")),
    *several(
        "rasbt+LLMs-from-scratch",
        """
        appendix-A/01_main-chapter-code/DDP-script.py
        ch04/01_main-chapter-code/gpt.py
        ch04/03_kv-cache/gpt_with_kv_cache.py
        ch04/04_gqa/gpt_with_kv_gqa.py | --emb_dim 64 --n_heads 4 --n_layers 2 --n_kv_groups 2
        """,
    ),
]

LOEBER = several(
    "patrickloeber+pytorchTutorial",
    """
    02_tensor_basics.py
    03_autograd.py
    04_backpropagation.py
    05_1_gradientdescent_manually.py
    05_2_gradientdescent_auto.py
    06_1_loss_and_optimizer.py
    07_linear_regression.py
    08_logistic_regression.py
    11_softmax_and_crossentropy.py
    12_activation_functions.py
    13_feedforward.py
    16_tensorboard.py
    17_save_load.py
    """,
    _mnist("data"),
)

PERSSON = several(
    "aladdinpersson+Machine-Learning-Collection",
    """
    Basics/pytorch_tensorbasics.py
    Basics/pytorch_init_weights.py
    Basics/pytorch_simple_fullynet.py
    Basics/pytorch_simple_CNN.py
    Basics/pytorch_rnn_gru_lstm.py
    Basics/pytorch_bidirectional_lstm.py
    Basics/pytorch_progress_bar.py
    CNN_architectures/lenet5_pytorch.py
    CNN_architectures/pytorch_resnet.py
    CNN_architectures/pytorch_efficientnet.py
    object_detection/YOLOv3/model.py
    more_advanced/transformer_from_scratch/transformer_from_scratch.py
    more_advanced/VAE/model.py
    image_segmentation/semantic_segmentation_unet/model.py
    """,
    _mnist("ML/Pytorch/Basics/dataset"),
    below="ML/Pytorch/",
)

PTRBLCK = several(
    "ptrblck+pytorch_misc",
    """
    LocallyConnected2d.py
    accumulate_gradients.py
    adaptive_batchnorm.py
    batch_norm_manual.py
    channel_to_patches.py
    conv_rnn.py
    edge_weighting_segmentation.py
    image_rotation_with_matrix.py
    momentum_update_nograd.py
    mnist_autoencoder.py
    shared_array.py
    shared_dict.py
    unet_demo.py
    weighted_sampling.py
    """,
    _mnist("data"),
)

CLEANRL = several(
    "vwxyzjn+cleanrl",
    """
    ppo.py | --total-timesteps 2000 --no-cuda
    dqn.py | --total-timesteps 1500 --learning-starts 200 --no-cuda
    c51.py | --total-timesteps 1500 --learning-starts 200 --no-cuda
    ppo_continuous_action.py | --env-id Pendulum-v1 --total-timesteps 2500 --no-cuda
    ddpg_continuous_action.py | --env-id Pendulum-v1 --total-timesteps 400 --learning-starts 200
    td3_continuous_action.py | --env-id Pendulum-v1 --total-timesteps 400 --learning-starts 200
    sac_continuous_action.py | --env-id Pendulum-v1 --total-timesteps 400 --learning-starts 200
    """,
    below="cleanrl/",
)

SEQUENCES = [
    *several(
        "locuslab+TCN",
        """
        adding_problem/add_test.py | --cuda --epochs 1 --seq_len 20 --levels 3 --batch_size 1024
        copy_memory/copymem_test.py | --cuda --epochs 1 --blank_len 30 --levels 3 --batch_size 200
        """,
        below="TCN/",
    ),
    *several("karpathy+pytorch-made", "made.py"),
    *several(
        "kamenbliznashki+normalizing_flows",
        """
        planar_flow.py | --train --n_steps 100 --flow_length 4
        """,
    ),
    *several("fxia22+pointnet.pytorch", "pointnet/model.py"),
    *several("google-research+torchsde", "examples/sde_gan.py | --steps 5"),
    *several(
        "patrick-kidger+torchcde",
        "example/time_series_classification.py | --num_epochs 2",
    ),
    *several("Diego999+pyGAT", "train.py | --epochs 3 --no-cuda", ("cora", "data/cora")),
]

# PyTorch's own tutorials, whose code is the same here, in a smaller repository.
_PLACES = """
    advanced_source
    beginner_source
    beginner_source/basics
    beginner_source/blitz
    beginner_source/examples_autograd
    beginner_source/examples_nn
    beginner_source/examples_tensor
    beginner_source/former_torchies
    beginner_source/hybrid_frontend
    beginner_source/introyt
    beginner_source/nlp
    intermediate_source
    recipes_source/recipes
    unstable_source
""".split()
TUTORIALS = several(
    "PyTorchKorea+tutorials-kr",
    """
    advanced_source/numpy_extensions_tutorial.py
    advanced_source/python_custom_ops.py
    beginner_source/basics/autogradqs_tutorial.py
    beginner_source/basics/buildmodel_tutorial.py
    beginner_source/basics/data_tutorial.py
    beginner_source/basics/optimization_tutorial.py
    beginner_source/basics/quickstart_tutorial.py
    beginner_source/basics/tensorqs_tutorial.py
    beginner_source/basics/transforms_tutorial.py
    beginner_source/blitz/data_parallel_tutorial.py
    beginner_source/blitz/neural_networks_tutorial.py
    beginner_source/blitz/tensor_tutorial.py
    beginner_source/examples_autograd/polynomial_autograd.py
    beginner_source/examples_autograd/polynomial_custom_function.py
    beginner_source/examples_nn/dynamic_net.py
    beginner_source/examples_nn/polynomial_module.py
    beginner_source/examples_nn/polynomial_nn.py
    beginner_source/examples_nn/polynomial_optim.py
    beginner_source/examples_tensor/polynomial_numpy.py
    beginner_source/examples_tensor/polynomial_tensor.py
    beginner_source/former_torchies/autograd_tutorial_old.py
    beginner_source/former_torchies/nnft_tutorial.py
    beginner_source/former_torchies/parallelism_tutorial.py
    beginner_source/former_torchies/tensor_tutorial_old.py
    beginner_source/hybrid_frontend/learning_hybrid_frontend_through_example_tutorial.py
    beginner_source/introyt/autogradyt_tutorial.py
    beginner_source/introyt/modelsyt_tutorial.py
    beginner_source/introyt/tensorboardyt_tutorial.py
    beginner_source/introyt/tensors_deeper_tutorial.py
    beginner_source/introyt/trainingyt.py
    beginner_source/nlp/advanced_tutorial.py
    beginner_source/nlp/deep_learning_tutorial.py
    beginner_source/nlp/pytorch_tutorial.py
    beginner_source/nlp/sequence_models_tutorial.py
    beginner_source/nlp/word_embeddings_tutorial.py
    beginner_source/understanding_leaf_vs_nonleaf_tutorial.py
    intermediate_source/autograd_saved_tensors_hooks_tutorial.py
    intermediate_source/forward_ad_usage.py
    intermediate_source/fx_profiling_tutorial.py
    intermediate_source/jacobians_hessians.py
    intermediate_source/neural_tangent_kernels.py
    intermediate_source/parametrizations.py
    intermediate_source/pruning_tutorial.py
    intermediate_source/reinforcement_q_learning.py
    intermediate_source/scaled_dot_product_attention_tutorial.py
    intermediate_source/torch_compile_conv_bn_fuser.py
    intermediate_source/visualizing_gradients_tutorial.py
    recipes_source/recipes/defining_a_neural_network.py
    recipes_source/recipes/reasoning_about_shapes.py
    recipes_source/recipes/swap_tensors.py
    recipes_source/recipes/tensorboard_with_pytorch.py
    recipes_source/recipes/timer_quick_start.py
    recipes_source/recipes/warmstarting_model_using_parameters_from_a_different_model.py
    recipes_source/recipes/what_is_state_dict.py
    unstable_source/maskedtensor_adagrad.py
    unstable_source/maskedtensor_advanced_semantics.py
    unstable_source/maskedtensor_overview.py
    unstable_source/maskedtensor_sparsity.py
    unstable_source/vmap_recipe.py
    """,
    *[(kind, f"{place}/data") for place in _PLACES for kind in ("fashion", "mnist")],
)

# Repositories whose README has programs.
DOCUMENTS = [
    "lucidrains+vit-pytorch",
    "lucidrains+x-transformers",
    "lucidrains+vector-quantize-pytorch",
    "lucidrains+perceiver-pytorch",
    "lucidrains+performer-pytorch",
    "lucidrains+mlp-mixer-pytorch",
    "lucidrains+linear-attention-transformer",
    "lucidrains+deformable-attention",
]


def programs(checkouts: Path) -> list[Program]:
    """All of them, those in documents included."""
    found = [
        Program(repo, f"README.md, line {line}", text=text)
        for repo in DOCUMENTS
        for line, text in blocks(checkouts / repo / "README.md")
    ]
    scripts = [EXAMPLES, YUNJEY, NLP, JOHNSON, ZERO_TO_ALL, MORVAN, GAN, KARPATHY, MINIMAL_RL]
    scripts += [DISTRIBUTED, KEON, BEGINNER, DIFFEQ, LABML, IGNITE]
    scripts += [LOEBER, PERSSON, PTRBLCK, CLEANRL, SEQUENCES, TUTORIALS, RESEARCH, FURTHER]
    return [*(program for part in scripts for program in part), *OTHERS, *found]
