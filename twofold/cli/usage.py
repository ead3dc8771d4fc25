"""What `twofold --help` says, and which command of a domain is where."""

from __future__ import annotations

USAGE = """twofold: reinforcement learning that people can really use

usage: twofold COMMAND [options] [key=value ...]

  train            train a policy             twofold train --config=td3 --env-config=pendulum --seed=3
  resume RUN       go on with a stopped run   twofold resume runs/pendulum/td3_seed0
  eval POLICY      score on fresh seeds       twofold eval runs/pendulum/td3_seed0 --episodes=100
  play POLICY      video or window            twofold play runs/pendulum/td3_seed0 --human
  show [RUN]       settings, and who set them twofold show runs/pendulum/td3_seed0
  list             worlds, algorithms, presets
  export RUN       ONNX with scaling inside   twofold export runs/pendulum/td3_seed0 --out=policy.onnx
  demo             train Pendulum and show it before and after
  check            test an environment        twofold check --env-config=gym env_args.id=Hopper-v5
{domains}
Settings, lowest first: conf/default.yaml < --env-config < --config < command line. Any setting can be given as
--key=value, --flag, or key.sub=value (the word `with` before them is accepted):

  twofold train --config=td3 --env-config=gym env_args.id=Ant-v5 learner.gamma=0.98 --batch_size=128
  twofold train --config=my_td3.yaml --env-config=my_env.yaml --import=my_env.py --run=runs/first

`twofold COMMAND --help` tells more.
"""
HELP = {
    "train": """usage: twofold train [--config=NAME] [--env-config=NAME] [--run=DIR] [settings]

Train a policy; stop it with Ctrl-C and give the same command with --run (or `twofold resume RUN`) to go on exactly.
  --config=NAME      a preset of the algorithm (twofold list) or a path to a .yaml file       default td3
  --env-config=NAME  a world (twofold list) or a path to a .yaml file                         default pendulum
  --run=DIR          the run directory; an existing run of the same settings is gone on with
  --runs=DIR         where new run directories are made                                       default runs
  --from=RUN         the settings of another run (a seed or other settings may be added)
  --import=FILE.py   your own worlds, networks or learners
  --observer=sacred:DIR | sacred:mongodb://...   record the run with Sacred, too
  --multi_algs --config=4iql3qmix1iql_omg --train_alg=iql_omg --partners=SET   a mixed team, one member learns

examples:
  twofold train --config=td3 --env-config=halfcheetah --seed=1
  twofold train --config=qmix --env-config=skirmish with env_args.map_name=8m t_max=500000
  twofold train --config=td3 --env-config=hopper trainer.steps=300_000 trainer.rows=4 trainer.workers=2
  twofold train --config=ddpg --env-config=pendulum with learner.gamma=0.98
  twofold train --from=runs/pendulum/td3_seed0_20260101-120000 --seed=4""",
    "resume": """usage: twofold resume RUN [--import=FILE.py]

Go on with a stopped run to its end, bit for bit as if it had not been stopped.""",
    "eval": """usage: twofold eval RUN_OR_POLICY | --zoo=NAME [--episodes=N] [--seed=N] [--import=FILE.py]

Score a policy on fresh seeds: mean, standard deviation and 95 % interval.
With --partners=SET a team policy plays with every partner of the set: table, heat map, adaptation curves.
examples: twofold eval runs/pendulum/td3_seed0 --episodes=100
          twofold eval runs/partnered/iql_omg_seed0 --partners=sets/lbf --out=cross_play""",
    "play": """usage: twofold play RUN_OR_POLICY | --zoo=NAME [--out=FILE.mp4] [--human] [--seed=N] [--import=FILE.py]

Write a video of one episode (an mp4, or a small GIF if FILE ends so), or open a window with --human.
example: twofold play runs/hopper/td3_seed0 --out=hopper.mp4""",
    "show": """usage: twofold show [RUN] [--config=NAME] [--env-config=NAME] [--explain[=SECTION]] [--schema] [settings]

Every setting with its value and the layer that set it; for a run also where it stands.
--explain tells what each setting means, its type, bounds and other names; --schema prints a JSON schema with which
editors complete and check YAML files.
examples: twofold show runs/pendulum/td3_seed0
          twofold show --explain=learner
          twofold show --config=td3_paper --env-config=hopper""",
    "list": "usage: twofold list\n\nWorlds, learners, networks, and the presets for --env-config and --config.",
    "export": """usage: twofold export RUN_OR_POLICY | --zoo=NAME [--out=FILE.onnx]

Write ONNX that takes raw observations and returns real actions, and check it against the policy.""",
    "demo": "usage: twofold demo\n\nTrain TD3 on Pendulum and show it against the untrained policy.",
    "check": """usage: twofold check [--env-config=NAME | --env=WORLD] [--config=NAME] [--import=FILE.py] [settings]

Say what is wrong with a world: shapes, finite values, episodes that are a function of (seed, actions), resuming.
With --config also with its learner and networks: actions, determinism, states and policies that come back whole.
examples: twofold check --env-config=gym env_args.id=Hopper-v5
          twofold check --import=my_net.py --config=td3 --env-config=pendulum networks.name=mine/gated""",
}
