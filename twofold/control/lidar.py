"""The walker's lidar, equal to Box2D's ray casts without their Python callbacks."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import Box2D
from gymnasium.envs.box2d.bipedal_walker import LIDAR_RANGE, TERRAIN_LENGTH, TERRAIN_STEP

RAYS = 10
RAY_ANGLES = [1.5 * i / 10.0 for i in range(RAYS)]
RAY_REACH = [  # to the right, down, and down per unit to the right
    (math.sin(angle) * LIDAR_RANGE, math.cos(angle) * LIDAR_RANGE, 1 / math.tan(angle) if angle else math.inf)
    for angle in RAY_ANGLES
]
CELLS = TERRAIN_LENGTH + 40  # obstacles begun at the end of the terrain reach beyond it
SLACK = 1e-3  # far more than the float32 rounding of a position, far less than a cell

Physical: TypeAlias = Any  # Any: an object of Box2D, which has no types
RayCast = Callable[[Physical, Physical, int], bool]


class Lidar:
    """Distances to the terrain along ten rays, as fractions of their range.

    Every piece of terrain lies on a grid of cells, one terrain step wide, each with a highest point. Rays
    fall to the right, so a ray skips the cells over which it passes, asks the fixtures of the next, and
    stops at the first cell that begins beyond its nearest hit. The minimum is that of a search of the whole
    world, with few questions and no Python callback.
    """

    def __init__(self, terrain: Sequence[Physical], heights: Sequence[float]) -> None:
        """`terrain`: fixtures in Gymnasium's order, obstacles before the edges that join `heights`."""
        edges = len(heights) - 1
        beyond = CELLS - edges
        self._cells: list[list[RayCast]] = [[edge.RayCast] for edge in terrain[-edges:]] + [
            [] for _ in range(beyond)
        ]
        self._tops = [max(pair) for pair in pairwise(heights)] + [-math.inf] * beyond
        for obstacle in terrain[:-edges]:
            self._add_obstacle(obstacle)
        self._ray = Box2D.b2RayCastInput(maxFraction=1.0)
        self._hit = Box2D.b2RayCastOutput()

    def _add_obstacle(self, fixture: Physical) -> None:
        across, heights = zip(*fixture.shape.vertices, strict=True)
        first, end = (round(x / TERRAIN_STEP) for x in (min(across), max(across)))
        for cell in range(first, end):
            self._cells[cell].append(fixture.RayCast)
            self._tops[cell] = max(self._tops[cell], *heights)

    def scan(self, x: float, y: float) -> list[float]:
        """Ten fractions in [0, 1] seen from (x, y), from straight down to nearly straight ahead."""
        tops, ray, fractions = self._tops, self._ray, []
        ray.p1 = (x, y)
        cell = max(0, int((x - SLACK) / TERRAIN_STEP))
        for across, down, slope in RAY_REACH:
            # What a ray passes over, the flatter rays after it pass over too.
            while cell < CELLS and y - slope * ((cell + 1) * TERRAIN_STEP + SLACK - x) > tops[cell] + SLACK:
                cell += 1
            ray.p2 = (x + across, y - down)
            fractions.append(self._nearest(x, across, cell))
        return fractions

    def _nearest(self, x: float, across: float, start: int) -> float:
        ray, hit = self._ray, self._hit
        nearest = 1.0
        for cell in range(start, CELLS):
            if cell * TERRAIN_STEP > x + nearest * across + SLACK:
                break
            for meets in self._cells[cell]:
                if meets(hit, ray, 0) and hit.fraction < nearest:
                    nearest = hit.fraction
        return nearest
