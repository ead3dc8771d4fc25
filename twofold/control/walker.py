"""BipedalWalker and BipedalWalkerHardcore, equal to Gymnasium's to the last bit and about twice as fast.

What makes it faster: action repeat inside the environment with the lidar cast only on the frame that is
observed, rays that meet only the terrain in their way, and a short contact listener. Terrain, bodies and
pictures are Gymnasium's.
"""

import operator
from collections import deque

import Box2D
import numpy as np
from gymnasium import spaces
from gymnasium.envs.box2d import bipedal_walker as original
from gymnasium.envs.box2d.bipedal_walker import FPS, SCALE
from gymnasium.utils import EzPickle

from twofold.base.foreign import AnySpace, Info
from twofold.control.lidar import RAY_REACH, RAYS, Lidar, Physical

FRAME_LIMITS = {False: 1600, True: 2000}  # as Gymnasium registers the flat and the hardcore walker
GOAL = (original.TERRAIN_LENGTH - original.TERRAIN_GRASS) * original.TERRAIN_STEP
FALL = -100.0
TORQUE_PRICE = 0.00035 * original.MOTORS_TORQUE
JOINT_SPEEDS = (original.SPEED_HIP, original.SPEED_KNEE) * 2
PROGRESS = 0.3  # what counts as not being stuck, in units of the Box2D world
CLOUD_DRAWS = original.TERRAIN_LENGTH // 20 * 11  # random numbers that Gymnasium spends on clouds

AT_ORIGIN = Box2D.b2BodyDef()

Obs = np.ndarray
Drive = tuple[Physical, float, float]  # joint, speed, largest torque


class World(Box2D.b2World):
    """A Box2D world that makes pieces of terrain quickly and keeps their fixtures."""

    def __init__(self) -> None:
        super().__init__()
        self.terrain: list[Physical] = []

    def CreateStaticBody(self, fixtures: Physical) -> Physical:
        """Like Box2D's, of one fixture at the origin, without building a definition for each body."""
        body = self.CreateBody(AT_ORIGIN)
        self.terrain.append(body.CreateFixture(fixtures))
        return body


class Contacts(Box2D.b2ContactListener):
    """Notes a hull that touches the ground, and which feet do."""

    # Box2D calls these for every contact in every frame: a C function costs less than those inherited.
    PreSolve = PostSolve = staticmethod(operator.is_)

    def __init__(self, walker: "FastWalker") -> None:
        super().__init__()
        self._walker = walker
        self._feet = {1: walker.legs[1], 2: walker.legs[3]}
        # Numbers on fixtures, because comparing bodies costs a Python call for each pair.
        for number, body in enumerate((walker.hull, walker.legs[1], walker.legs[3])):
            body.fixtures[0].userData = number

    def BeginContact(self, contact: Physical) -> None:
        part = _part(contact)
        if part == 0:
            self._walker.game_over = True
        elif part is not None:
            self._feet[part].ground_contact = True

    def EndContact(self, contact: Physical) -> None:
        part = _part(contact)
        if part:
            self._feet[part].ground_contact = False


def _part(contact: Physical) -> int | None:
    part: int | None = contact.fixtureB.userData
    if part is None:
        part = contact.fixtureA.userData
    return part


class FastWalker(original.BipedalWalker):
    """BipedalWalker with action repeat, a fresh Box2D world for each episode, and shaping for training.

    An episode is a function of the seed and the actions alone. Observations, raw rewards and ends equal those
    of a new Gymnasium environment stepped `repeat` times with the same action. The frame limit truncates; it
    never terminates. With the defaults of everything from `reward_scale` on, the reward is Gymnasium's:
    evaluate with those.
    """

    hull: Physical

    def __init__(
        self,
        hardcore: bool,
        repeat: int = 1,  # frames that an action is held
        lidar_history: tuple[
            int, ...
        ] = (),  # also observe the lidar of so many decisions ago; at first the first
        render_mode: str | None = None,
        *,
        reward_scale: float = 1.0,  # multiplies the reward
        stuck_after: int = 0,  # truncate after so many decisions without 0.3 units of progress; 0 is never
    ) -> None:
        _check_arguments(repeat, lidar_history, stuck_after)
        super().__init__(render_mode, hardcore)
        EzPickle.__init__(
            self, hardcore, repeat, lidar_history, render_mode,
            reward_scale=reward_scale, stuck_after=stuck_after,
        )  # fmt: skip
        self.metadata = {**original.BipedalWalker.metadata, "render_fps": FPS / repeat}
        self.repeat = repeat
        self.lidar_history = tuple(lidar_history)
        self.reward_scale = reward_scale
        self.stuck_after = stuck_after
        self.frame_limit = FRAME_LIMITS[hardcore]
        self.frames = 0
        self._lidar: Lidar | None = None
        self._scans: deque[list[float]] = deque(maxlen=max(lidar_history, default=0) + 1)
        self.observation_space = _with_lidar_history(self.observation_space, len(lidar_history))

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Obs, Info]:
        """Start an episode in a new Box2D world, because a used one remembers the episodes before."""
        self._lidar = None
        self._scans.clear()
        self._destroy()  # type: ignore[no-untyped-call]
        self.world = World()
        obs, info = super().reset(seed=seed, options=options)
        self.frames = 0
        self._idle_decisions = 0
        self._milestone = self.hull.position.x
        return obs, info

    def step(self, action: np.ndarray) -> tuple[Obs, float, bool, bool, Info]:
        """Hold `action` for `repeat` frames or to the episode's end; info["raw_reward"] is unshaped."""
        drives, costs = self._drives(action)
        if self._lidar is None:
            return self._first_step(drives, costs)
        raw = 0.0
        for _ in range(self.repeat):
            reward, fell, arrived = self._advance(drives, costs)
            raw += reward
            self.frames += 1
            terminated, truncated = fell or arrived, self.frames >= self.frame_limit
            if terminated or truncated:
                break
        truncated = truncated or (not terminated and self._is_stuck())
        return self._observe(), self.reward_scale * raw, terminated, truncated, {"raw_reward": raw}

    def _first_step(self, drives: list[Drive], costs: list[float]) -> tuple[Obs, float, bool, bool, Info]:
        """The one frame at rest, whatever `repeat` is, by which Gymnasium's reset makes its observation."""
        self.world.contactListener = self.world.contactListener_bug_workaround = Contacts(self)
        self._lidar = Lidar(self.world.terrain, self.terrain_y)
        self._advance(drives, costs)
        return self._observe(), 0.0, False, False, {}

    def _drives(self, action: np.ndarray) -> tuple[list[Drive], list[float]]:
        """What each motor is set to, and what it costs per frame."""
        effort = np.minimum(np.abs(action), 1)
        signs, torques = np.sign(action).tolist(), (original.MOTORS_TORQUE * effort).tolist()
        drives = [
            (joint, speed * sign, torque)
            for joint, speed, sign, torque in zip(self.joints, JOINT_SPEEDS, signs, torques, strict=True)
        ]
        # Numpy scalars of the action's type: Gymnasium's reward is rounded to that type at every subtraction.
        return drives, list(TORQUE_PRICE * effort)

    def _advance(self, drives: list[Drive], costs: list[float]) -> tuple[float, bool, bool]:
        """One frame: raw reward, whether it fell, whether it arrived."""
        for joint, speed, torque in drives:  # every frame anew, because setting a motor also keeps it awake
            joint.motorSpeed = speed
            joint.maxMotorTorque = torque
        self.world.Step(1.0 / FPS, 6 * 30, 2 * 30)
        x = self.hull.position.x
        shaping = 130 * x / SCALE - 5.0 * abs(self.hull.angle)
        reward = 0.0 if self.prev_shaping is None else shaping - self.prev_shaping
        self.prev_shaping = shaping
        for cost in costs:
            reward -= cost
        if self.render_mode == "human":
            self.render()
        fell = self.game_over or x < 0
        return FALL if fell else float(reward), fell, x > GOAL

    def _is_stuck(self) -> bool:
        self._idle_decisions += 1
        x = self.hull.position.x
        if x >= self._milestone + PROGRESS:
            self._milestone = x
            self._idle_decisions = 0
        return 0 < self.stuck_after <= self._idle_decisions

    def _observe(self) -> Obs:
        assert self._lidar is not None, "call reset before step"
        hull, (left_hip, left_knee, right_hip, right_knee) = self.hull, self.joints
        x, y = hull.position
        velocity = hull.linearVelocity
        scan = self._lidar.scan(x, y)
        self._scans.append(scan)
        state = [
            hull.angle,
            2.0 * hull.angularVelocity / FPS,
            0.3 * velocity.x * (original.VIEWPORT_W / SCALE) / FPS,
            0.3 * velocity.y * (original.VIEWPORT_H / SCALE) / FPS,
            left_hip.angle,
            left_hip.speed / original.SPEED_HIP,
            left_knee.angle + 1.0,
            left_knee.speed / original.SPEED_KNEE,
            1.0 if self.legs[1].ground_contact else 0.0,
            right_hip.angle,
            right_hip.speed / original.SPEED_HIP,
            right_knee.angle + 1.0,
            right_knee.speed / original.SPEED_KNEE,
            1.0 if self.legs[3].ground_contact else 0.0,
            *scan,
        ]
        for decisions_ago in self.lidar_history:
            state += self._scans[-1 - min(decisions_ago, len(self._scans) - 1)]
        return np.array(state, dtype=np.float32)

    def render(self) -> np.ndarray | None:
        """Gymnasium's picture of the last frame."""
        x, y = hull = self.hull.position
        self.scroll = x - original.VIEWPORT_W / SCALE / 5
        if self._scans:
            for ray, fraction, (across, down, _) in zip(self.lidar, self._scans[-1], RAY_REACH, strict=True):
                ray.p1, ray.p2 = hull, (1 - fraction) * hull + fraction * Box2D.b2Vec2(x + across, y - down)
        picture: np.ndarray | None = super().render()  # type: ignore[no-untyped-call]
        return picture

    def _generate_clouds(self) -> None:
        if self.render_mode is None:
            self.np_random.random(CLOUD_DRAWS)  # the hull's first push comes after these in the stream
        else:
            super()._generate_clouds()  # type: ignore[no-untyped-call]


def _check_arguments(repeat: int, lidar_history: tuple[int, ...], stuck_after: int) -> None:
    if repeat < 1:
        raise ValueError(f"repeat must be at least 1, got {repeat}")
    if any(decisions < 1 for decisions in lidar_history):
        raise ValueError(f"lidar_history must be of decisions at least 1 ago, got {lidar_history}")
    if stuck_after < 0:
        raise ValueError(f"stuck_after must be at least 0, got {stuck_after}")


def _with_lidar_history(space: AnySpace, scans: int) -> spaces.Box:
    assert isinstance(space, spaces.Box)
    low = np.concatenate([space.low, np.tile(space.low[-RAYS:], scans)])
    high = np.concatenate([space.high, np.tile(space.high[-RAYS:], scans)])
    return spaces.Box(low, high)
