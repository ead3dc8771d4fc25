"""Names that users of other codes type: SB3, RL Zoo, CleanRL, Spinning Up, EPyMARL.

Beside the aliases that settings declare: what they stand for here, and what is said where there is no such setting.
"""

from __future__ import annotations

_BOTH_RATES = ("learner.actor_lr", "learner.critic_lr")
_BOTH_SHAPES = ("networks.actor_hidden", "networks.critic_hidden")
STANDS_FOR = {
    "total_timesteps": ("trainer.steps",),
    "n_timesteps": ("trainer.steps",),
    "num_timesteps": ("trainer.steps",),
    "n_envs": ("trainer.rows",),
    "n_eval_episodes": ("trainer.eval_episodes",),
    "save_freq": ("trainer.save_every",),
    "target_policy_noise": ("learner.policy_noise",),
    "target_noise_clip": ("learner.noise_clip",),
    "policy_frequency": ("learner.policy_delay",),
    "noise_std": ("learner.expl_noise",),
    "learning_rate": _BOTH_RATES,
    "lr": _BOTH_RATES,
    "net_arch": _BOTH_SHAPES,
    "hidden_sizes": _BOTH_SHAPES,
}

_DEVICE = "where learning computes is `device`: cpu, cuda, mps or auto"
_RATIO = "trainer.updates_per_item is gradient_steps / train_freq (1 by default)"
_TRACK = (
    "metrics go to W&B, MLflow or CSV with --log=wandb, mlflow or csv; `twofold page runs` needs no account"
)
_SEARCH = "`twofold sweep` searches settings and confirms the best on fresh seeds"
HINTS = {
    # SB3 and RL Zoo
    "train_freq": _RATIO,
    "gradient_steps": _RATIO,
    "policy_kwargs": "networks.actor_hidden=[400,300] networks.critic_hidden=[400,300] are SB3's net_arch",
    "policy": "networks.name=vector is SB3's MlpPolicy",
    "action_noise": "exploration noise is normal: learner.expl_noise=0.1 is its standard deviation",
    "noise_type": "exploration noise is normal: learner.expl_noise=0.1 is its standard deviation",
    "tensorboard_log": "TensorBoard's files are in RUN/tensorboard (trainer.tensorboard=false: none)",
    "verbose": "the log is the same in a terminal and in a file; leave it out",
    "progress_bar": "a terminal shows a bar by itself; leave it out",
    "optimize_memory_usage": "there is no such switch: lower replay.buffer_size where memory is short",
    "normalize": "observations are not normalised here; scale them in the environment",
    "env_wrapper": "wrap the environment in a file of yours, register it, and name the file with --import",
    "vec_env": "trainer.rows=8 trainer.workers=4 are 8 environments in 4 processes",
    "optimize": _SEARCH,
    "n_trials": _SEARCH,
    "algo": "the algorithm is named by --config=td3 (twofold list shows all)",
    "hyperparams": "settings are written key=value; twofold train --help shows those that matter",
    "trained_agent": "twofold resume RUN continues a run; --from=RUN repeats its settings",
    # CleanRL
    "cuda": _DEVICE,
    "use_cuda": _DEVICE,
    "track": _TRACK,
    "wandb_project_name": _TRACK,
    "wandb_entity": _TRACK,
    "capture_video": "twofold play RUN writes a video of a finished run",
    "save_model": "the best policy and checkpoints are always kept; leave it out",
    "upload_model": "nothing is uploaded; the policy is the file RUN/best.safetensors",
    "torch_deterministic": "runs are deterministic on the CPU as they are; leave it out",
    "exp_name": "name the run's folder: --run=runs/NAME",
    # EPyMARL
    "use_wandb": _TRACK,
}
