"""Programs of papers, and the small repositories that many begin with."""

from __future__ import annotations

from tests.conformance.programs.program import Program, several

_POLICY = "--env Pendulum-v1 --start_timesteps 300 --eval_freq 200 --max_timesteps 400"
_SERIES = "--data ETTh1 --features M --root_path data/ --train_epochs 1 --itr 1 --num_workers 0"

RESEARCH: list[Program] = [
    *several(
        "openai+spinningup",
        """
        1_simple_pg.py | --env_name CartPole-v1
        2_rtg_pg.py | --env_name CartPole-v1
        """,
        below="spinup/examples/pytorch/pg_math/",
    ),
    *several("tanelp+tiny-diffusion", "ddpm.py | --num_epochs 2 --experiment_name x"),
    *several(
        "facebookresearch+dlrm",
        """
        dlrm_s_pytorch.py | --mini-batch-size=2 --data-size=6
        dlrm_s_pytorch.py | --mini-batch-size=16 --data-size=600 --optimizer adagrad
        """,
    ),
    *several("sfujim+TD3", f"main.py | {_POLICY}\nmain.py | --policy DDPG {_POLICY}"),
    *several(
        "pranz24+pytorch-soft-actor-critic",
        "main.py | --env-name Pendulum-v1 --start_steps 200 --num_steps 300 --batch_size 32",
    ),
    *several("ikostrikov+pytorch-trpo", "main.py | --env-name Pendulum-v1 --batch-size 600"),
    *several(
        "greydanus+hamiltonian-nn",
        """
        experiment-spring/train.py | --total_steps 50
        experiment-pend/train.py | --total_steps 50 --baseline
        """,
    ),
    *several(
        "thuml+Autoformer",
        f"run.py | --is_training 1 --model_id t --model Autoformer --d_model 16 --d_ff 8 {_SERIES}",
        ("ett", "data"),
    ),
    *several(
        "cure-lab+LTSF-Linear",
        f"run_longExp.py | --is_training 1 --model_id t --model DLinear {_SERIES}",
        ("ett", "data"),
    ),
    *several(
        "zhouhaoyi+Informer2020",
        f"main_informer.py | --model informer --d_model 16 --d_ff 16 {_SERIES}",
        ("ett", "data"),
    ),
]
