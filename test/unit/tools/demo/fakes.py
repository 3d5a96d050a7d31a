"""Stand-ins for a running scene and for a display."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from test.unit.tools.demo.objects import IMAGE, NAME
from tools.demo.check import Check
from tools.demo.facts import Moment, Record, View
from tools.demo.mirror import NotInTime
from tools.demo.picture import Picture
from tools.demo.play import Manifest
from tools.localcluster import Progress
from tools.localcluster.access import Access, kubeconfig_text


def a_manifest() -> Manifest:
    """Return the manifest of the objects in these tests."""
    return Manifest(NAME, 4, 4, "worker", IMAGE)


class SilentShow:
    """A `Show` that records its calls."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.messages: list[str] = []
        self.waits: list[str] = []
        self.checks: list[Check] = []
        self.failures: list[str] = []
        self.summary: list[str] = []
        self.source: Callable[[], Picture] | None = None
        self.closed = 0

    def build(self, progress: Progress) -> None:
        self.messages.append(progress.step)

    def begin(self, title: str) -> None:
        self.steps.append(title)

    def say(self, text: str) -> None:
        self.messages.append(text)

    def wait_for(self, text: str) -> None:
        self.waits.append(text)

    def verified(self, checks: Sequence[Check]) -> None:
        self.checks += checks

    def watch(self, source: Callable[[], Picture]) -> None:
        self.source = source

    def changed(self) -> None:
        self.messages.append("changed")

    def tell(self, lines: Sequence[str]) -> None:
        self.summary += lines

    def fail(self, text: str) -> None:
        self.failures.append(text)

    def close(self) -> None:
        self.closed += 1


class FakeMirror:
    """A mirror that shows `views` one after the other while it waits, and returns `fresh` ones on request."""

    def __init__(self, views: Sequence[View], fresh: Sequence[View]) -> None:
        self._views = list(views)
        self._fresh = list(fresh)
        self.moments: tuple[Moment, ...] = ((),)
        self.marks = 0

    def view(self) -> View:
        return self._views[0] if self._views else Record().view()

    def fresh(self) -> View:
        return self._fresh.pop(0) if len(self._fresh) > 1 else self._fresh[0]

    def mark(self) -> int:
        self.marks += 1
        return 0

    def since(self, mark: int) -> tuple[Moment, ...]:
        return self.moments[mark:]

    def until(self, is_true: Callable[[View], bool], seconds: float, wanted: str) -> View:
        while not is_true(self.view()):
            if len(self._views) < 2:
                raise NotInTime(wanted, seconds, self.view())
            self._views.pop(0)
        return self.view()


class FakePods:
    """A recorder of restarted containers."""

    def __init__(self) -> None:
        self.restarted: list[tuple[Any, ...]] = []

    def restart_container(self, *arguments: Any) -> None:
        self.restarted.append(arguments)


class FakeApi:
    """An API server with collections by path; all others are empty."""

    def __init__(self) -> None:
        self.items: dict[str, list[dict[str, Any]]] = {}

    def get(self, path: str) -> dict[str, Any]:
        return {"items": self.items.get(path, [])}


class FakeCluster:
    """A cluster that records commands, and has a kubeconfig if it has a workspace."""

    def __init__(self, workspace: Path | None) -> None:
        self.commands: list[tuple[str, ...]] = []
        self.inputs: list[str] = []
        self.pods = FakePods()
        self.api = FakeApi()
        if workspace is not None:
            self.kubeconfig = workspace / "admin.yaml"
            self.kubeconfig.write_text(kubeconfig_text(Access("https://a", b"ca", "the-admins-token")))

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        self.commands.append(arguments)
        self.inputs.append(input or "")
        return ""

    def binary(self, name: str) -> Path:
        return Path("/programs") / name


class FakeManager:
    """A manager with a new process id after every start."""

    def __init__(self) -> None:
        self.pid = 100
        self.webhook_port, self.metrics_port = 9443, 8443
        self.deeds: list[str] = []

    def kill(self) -> int:
        self.deeds.append("kill")
        return -9

    def start(self) -> FakeManager:
        self.deeds.append("start")
        self.pid += 1
        return self

    def wait_ready(self) -> FakeManager:
        self.deeds.append("wait_ready")
        return self

    def last_words(self, lines: int) -> str:
        return f"the last {lines} lines"


class FakeScene:
    """A scene whose mirror shows the given views. fresh: the views on request, by default the same."""

    def __init__(
        self, views: Sequence[View], fresh: Sequence[View] | None = None, workspace: Path | None = None
    ) -> None:
        self.mirror = FakeMirror(views, fresh if fresh is not None else views)
        self.cluster = FakeCluster(workspace)
        self.manager = FakeManager()
