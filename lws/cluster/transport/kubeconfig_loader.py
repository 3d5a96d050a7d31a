"""What do files of kubectl say about one context: where the API server is, who we are, for how long?

In: paths, a context. Out: a configuration of the kubernetes client, which is kept current by what loads it.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.dateutil import parse_rfc3339
from kubernetes.aio.config.exec_provider import ExecProvider
from kubernetes.aio.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger

from lws import timing
from lws.cluster.transport.credentials import Lifetime, Renewal

log = logging.getLogger(__name__)


class KubeconfigLoader(KubeConfigLoader):
    """The loader of the kubernetes client, which also says how long credentials are good.

    The client's own methods carry no types, so calls of them are not checked.
    """

    def __init__(self, files: str, context: str | None) -> None:
        merger = KubeConfigMerger(files)
        super().__init__(  # type: ignore[no-untyped-call]
            config_dict=merger.config,
            active_context=context,
            config_base_path=None,
            config_persister=lambda _content: _persist(merger),
        )
        self._left = math.inf

    @property
    def settings(self) -> Mapping[str, Any]:
        """The context: its cluster, user and namespace."""
        settings: Mapping[str, Any] = self.current_context["context"]
        return settings

    async def load_into(self, configuration: Configuration) -> None:
        """Fill a configuration, and keep its credentials current."""
        user = self._user or ()
        if any(each in user for each in ("exec", "tokenFile", "auth-provider")):
            await Renewal(self._load).begin(configuration)
        else:
            await self._load(configuration)

    async def load_from_exec_plugin(self) -> bool:
        """Run the plugin. Raises ConfigException in words of the plugin.

        The client's own method hides what went wrong, and forgets when certificates end.
        """
        settings: Any = (self._user or {})["exec"]
        try:
            status = await ExecProvider(settings).run()
        except OSError as error:
            hint = settings.safe_get("installHint") or "install it, or name it by its path"
            reason = error.strerror or error
            raise ConfigException(f"exec: {settings['command']} cannot be run: {reason}: {hint}") from error
        if status.get("token"):
            self.token = f"Bearer {status['token']}"
        elif "clientCertificateData" not in status or "clientKeyData" not in status:
            raise ConfigException(f"exec: {settings['command']} gave neither a token nor a certificate")
        if "clientCertificateData" in status:
            self.cert_file, self.key_file = (
                FileOrData(status, None, data_key_name=key, base64_file_content=False).as_file()
                for key in ("clientCertificateData", "clientKeyData")
            )
        end = status.get("expirationTimestamp")
        self._left = math.inf if not end else _seconds_until(end)
        return True

    async def _load(self, configuration: Configuration) -> Lifetime:
        self._left = math.inf
        await self.load_and_set(configuration)  # type: ignore[no-untyped-call]
        if math.isfinite(self._left):
            return Lifetime.ending_in(self._left)
        # Without an end a plugin is asked again after a refusal only, as kubectl does.
        is_read_again = "exec" not in (self._user or ())
        return Lifetime(look=timing.TOKEN_FILE_SECONDS) if is_read_again else Lifetime()


def _seconds_until(end: str) -> float:
    left: float = (parse_rfc3339(end) - datetime.now(UTC)).total_seconds()
    return left


def _persist(merger: KubeConfigMerger) -> None:
    """Providers may take a refresh token back once it was used: the next command needs the new one."""
    try:
        merger.save_changes()
    except OSError as error:
        log.warning("new tokens cannot be written to %s: %s", os.pathsep.join(merger.paths), error)
