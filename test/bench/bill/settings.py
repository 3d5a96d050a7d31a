"""Settings of the control plane to compare: for each name on the page, the flags of each program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

USUAL = "usual"
_MANAGER = "kube-controller-manager"

SETTINGS: Mapping[str, Mapping[str, Sequence[str]]] = {
    USUAL: {},
    "batch-1s": {
        _MANAGER: ("--endpointslice-updates-batch-period=1s", "--endpoint-updates-batch-period=1s"),
    },
    "without-endpoints": {_MANAGER: ("--controllers=-endpoints-controller",)},
    "both": {
        _MANAGER: ("--endpointslice-updates-batch-period=1s", "--controllers=-endpoints-controller"),
    },
}

DESCRIPTIONS: Mapping[str, str] = {
    USUAL: "the usual ones: no batches",
    "batch-1s": "`--endpointslice-updates-batch-period=1s`, `--endpoint-updates-batch-period=1s`",
    "without-endpoints": "`--controllers=*,-endpoints-controller`",
    "both": "`--endpointslice-updates-batch-period=1s`, `--controllers=*,-endpoints-controller`",
}
"""Their names on the page."""
