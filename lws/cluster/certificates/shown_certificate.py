"""Would somebody who trusts these CAs accept this certificate, which only its owner has the key of?

In: what is shown, PEM: a certificate, and after it those that lead to a CA. Out: what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from lws.cluster.certificates.serving_certificate import UNREADABLE, names_in, read, split, time_flaw


def shown_flaw(certificate: bytes, bundles: Iterable[bytes], names: tuple[str, ...], when: datetime) -> str:
    """To be read after “it is”; empty for nothing. bundles: of CAs; none: any CA will do."""
    try:
        chain = [read(each) for each in split(certificate)] or [read(certificate)]
        authorities = [read(each) for bundle in bundles for each in split(bundle) or (bundle,)]
    except UNREADABLE as error:
        return f"unreadable ({error})"
    if authorities and not _is_trusted(chain, authorities):
        return "of another CA"
    uncovered = set(names) - names_in(chain[0])
    if uncovered:
        return f"not for {', '.join(sorted(uncovered))}"
    return time_flaw(chain[0], when)


def _is_trusted(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    return any(_is_issued(each, by) for each in _leading(chain) for by in authorities)


def _leading(chain: Sequence[x509.Certificate]) -> Iterator[x509.Certificate]:
    """As far as each is issued by the next."""
    yield chain[0]
    for one, issuer in pairwise(chain):
        if not _is_issued(one, issuer):
            return
        yield issuer


def _is_issued(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (InvalidSignature, *UNREADABLE):
        return False
    return True
