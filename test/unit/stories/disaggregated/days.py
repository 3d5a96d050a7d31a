"""Play one slice through some random days, fast enough for tests of many of them."""

from __future__ import annotations

import random
from collections.abc import Callable

from lws.disaggregatedset.rollout.state import RoleTarget
from test.unit.stories.disaggregated.world import NAMES, World

BUDGETS = ((1, 0), (0, 1), (2, 0), (0, 2), (1, 1), (2, 2), (3, 1))
TARGETS = (0, 1, 1, 2, 2, 3, 4, 5)


def play(seed: int) -> None:
    """Play a slice: some events with passes in between, then until it settles."""
    dice = random.Random(seed)
    names = NAMES[: dice.choice((2, 2, 3, 4))]
    world = World({name: _role(dice, name) for name in names}, knows_broken=dice.random() < 0.5)
    if dice.random() < 0.8:
        world.begin_settled()
    for _ in range(dice.choice((1, 2, 3, 5, 8))):
        dice.choice(EVENTS)(world, dice)
        trouble, speed = dice.choice((0, 0, 0.3)), dice.choice((0.2, 0.6, 1))
        world.go_on(dice, dice.choice((0, 1, 2, 3, 6, 12)), trouble, speed)
    world.settle()


def _role(dice: random.Random, name: str) -> RoleTarget:
    return RoleTarget(name, dice.choice(TARGETS), *dice.choice(BUDGETS))


def _any_role(world: World, dice: random.Random) -> str:
    return dice.choice(list(world.roles))


def _break(world: World, dice: random.Random) -> None:
    for _ in range(dice.choice((1, 3, 6))):
        world.break_group(dice)


EVENTS: tuple[Callable[[World, random.Random], None], ...] = (
    lambda world, dice: world.change(dice.choice("abc")),
    lambda world, dice: world.change(dice.choice("abc")),
    lambda world, dice: world.scale(_any_role(world, dice), dice.choice((0, 1, 2, 3, 5, 8))),
    lambda world, dice: world.scale(_any_role(world, dice), dice.choice((0, 1, 2, 3, 5, 8))),
    lambda world, dice: world.spend(_any_role(world, dice), *dice.choice(BUDGETS)),
    lambda world, dice: world.add_role(_role(dice, dice.choice(NAMES))),
    lambda world, dice: world.remove_role(_any_role(world, dice)),
    lambda world, dice: world.rename_all(),
    _break,
    _break,
    lambda world, dice: world.heal_group(dice),
    lambda world, dice: world.lose_child(dice),
    lambda world, dice: world.lose_memory(),
    lambda world, dice: world.pause(),
    lambda world, dice: world.give_up_on_target(),
    lambda world, dice: None,
)
