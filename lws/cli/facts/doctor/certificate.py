"""Would the API server accept the certificate that the webhooks are served with?

In: an installation. Out: findings.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from lws import timing
from lws.cli.facts.doctor.finding import Finding, Result, Unchecked
from lws.cli.facts.doctor.installation import Installation, hooks
from lws.cli.facts.doctor.reading import Denied
from lws.cluster.certificates.serving_certificate import expiry
from lws.cluster.certificates.shown_certificate import shown_flaw

CHECK = "certificate"


def check(facts: Installation) -> Iterator[Result]:
    """The Secret against the Service's name, the clock, and the CA bundle of each webhook."""
    settings = facts.configuration.internal_cert_management
    where = f"Secret {facts.namespace}/{settings.webhook_secret_name}"
    if isinstance(facts.secret, Denied):
        yield Unchecked(CHECK, where, facts.secret.permission)
        return
    certificate = _decoded((facts.secret or {}).get("data") or {}, "tls.crt")
    if not certificate:
        what = "is missing" if facts.secret is None else "holds no certificate (tls.crt)"
        yield Finding(CHECK, where, f"{what}: the webhooks cannot be served", _who(settings.enable))
        return
    name = f"{settings.webhook_service_name}.{facts.namespace}.svc"
    if flaw := shown_flaw(certificate, (), (name,), facts.now):
        yield Finding(CHECK, where, f"its certificate is {flaw}", _who(settings.enable))
    elif (left := expiry(certificate) - facts.now) < timing.NEARLY_OVER:
        what = f"its certificate ends in {left.days} days, and nobody has renewed it"
        yield Finding(CHECK, where, what, _who(settings.enable))
    yield from _bundles(facts, certificate, where)


def _bundles(facts: Installation, certificate: bytes, secret: str) -> Iterator[Finding]:
    for configurations in (facts.mutating, facts.validating):
        for configuration, hook in hooks(configurations):
            where = f"{configuration['kind']} {configuration['metadata']['name']}, webhook {hook['name']}"
            bundle = _decoded(hook["clientConfig"], "caBundle")
            do = _who(facts.configuration.internal_cert_management.enable)
            if not bundle:
                yield Finding(CHECK, where, "has no CA bundle: the API server trusts nobody", do)
            elif flaw := shown_flaw(certificate, (bundle,), (), facts.now):
                yield Finding(CHECK, where, f"does not trust the certificate of {secret}: it is {flaw}", do)


def _who(internal: bool) -> str:
    if internal:
        return "the manager puts this right within minutes: see that it runs, and what its log says of it"
    return "see what cert-manager says of Certificate lws-serving-cert, and that its CA injector runs"


def _decoded(data: Mapping[str, Any], key: str) -> bytes:
    try:
        return base64.b64decode(data.get(key) or "", validate=True)
    except (binascii.Error, ValueError):
        return b"?"
