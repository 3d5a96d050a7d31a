"""A clock that is changed while a node runs is reported as the cause of the failure."""

from __future__ import annotations

import pytest

from tools.localcluster import ComponentError
from tools.realnode.cluster import Clock, RealCluster
from tools.realnode.kit import Kit, NodeError


class Hands:
    """Two clocks, the first of which can be set."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000.0, 50.0

    def pass_by(self, seconds: float, jump: float = 0.0) -> None:
        self.wall += seconds + jump
        self.steady += seconds


@pytest.mark.parametrize(
    ("jump", "message"),
    [
        pytest.param(3600.0, "the clock jumped by 3600 s: start again", id="forwards"),
        pytest.param(-90.0, "the clock jumped by -90 s: start again", id="back"),
        pytest.param(4.0, "the kubelet is not ready", id="kept-by-a-daemon"),
    ],
)
def test_a_failure_after_a_clock_jump_is_attributed_to_it(jump: float, message: str) -> None:
    hands = Hands()
    clock = Clock(lambda: hands.wall, lambda: hands.steady)
    hands.pass_by(240.0, jump)
    with pytest.raises((ComponentError, NodeError)) as error, clock.watched():
        raise ComponentError("the kubelet is not ready")
    assert str(error.value) == message


def test_a_harmless_clock_jump_is_not_reported() -> None:
    hands = Hands()
    with Clock(lambda: hands.wall, lambda: hands.steady).watched():
        hands.pass_by(1.0, 100.0)


def test_a_node_that_does_not_start_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: RealCluster) -> None:
        hands.pass_by(1.0, 100.0)
        raise ComponentError("etcd is not ready")

    hands = Hands()
    node = RealCluster(Kit("lws-node-7-8", "/state", True, {}, (), ()))
    node.clock = Clock(lambda: hands.wall, lambda: hands.steady)
    monkeypatch.setattr(RealCluster.__bases__[0], "_bring_up", fail)
    with pytest.raises(NodeError, match="the clock jumped by 100 s"):
        node._bring_up()
