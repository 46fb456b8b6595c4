"""Programs of courses and of papers, which are in many small repositories."""

from __future__ import annotations

from tests.conformance.programs.program import Program, several

_FEW = "--env-name Pendulum-v1 --max-iter-num 2 --min-batch-size 300 --num-threads 1"
_VAES = """
    betatcvae cat_vae dipvae fvae gvae hvae iwae joint_Vae logcosh lvae miwae mssimvae swae vae
    vq_vae wae
"""

FURTHER: list[Program] = [
    *several(
        "dragen1860+Deep-Learning-with-PyTorch-Tutorials",
        """
        lesson01-PyTorch初见/autograd_demo.py
        lesson05-手写数字问题/mnist_train.py
        lesson26-LR多分类实战/main.py
        lesson27-MLP网络层/main.py
        lesson48-RNN-Layer使用/rnn.py
        lesson49-时间序列预测/seris.py
        """,
        ("mnist", "data"),
        ("mnist", "lesson05-手写数字问题/mnist_data"),
    ),
    *several(
        "Lizhi-sjtu+DRL-code-pytorch",
        """
        1.REINFORCE/REINFORCE.py
        1.REINFORCE/REINFORCE_baseline.py
        2.Actor-Critic/A2C.py
        7.TD3/TD3.py
        8.SAC/SAC-continuous.py
        """,
    ),
    *several(
        "Khrylx+PyTorch-RL",
        f"""
        a2c_gym.py | {_FEW}
        ppo_gym.py | {_FEW}
        trpo_gym.py | {_FEW}
        """,
        below="examples/",
    ),
    *several("ericyangyu+PPO-for-Beginners", "main.py"),
    *several("MorvanZhou+pytorch-A3C", "discrete_A3C.py\ncontinuous_A3C.py"),
    *several("ikostrikov+pytorch-flows", "flow_test.py"),
    *several("pbloem+former", "tests/test_modules.py"),
    *several("emited+VariationalRecurrentNeuralNetwork", "train.py", ("mnist", "data")),
    *several("kuangliu+pytorch-cifar", "models/dla.py\nmodels/dla_simple.py\nmodels/regnet.py"),
    *several("vwxyzjn+cleanrl", "cleanrl/pqn.py | --total-timesteps 2000 --no-cuda"),
    *several(
        "sagelywizard+pytorch-mdn",
        "tests/basic_test.py\ntests/gradient_test.py",
    ),
    *several(
        "rtqichen+torchdiffeq",
        """
        api_tests.py
        event_tests.py
        gradient_tests.py
        norm_tests.py
        odeint_tests.py
        """,
        below="tests/",
    ),
    *several("AntixK+PyTorch-VAE", "\n".join(f"tests/test_{name}.py" for name in _VAES.split())),
]
