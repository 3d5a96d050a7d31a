"""Generate valid pod templates and PVC templates with all commonly used fields."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Object = dict[str, Any]

IMAGES = ("app", "app:1", "app:latest", "registry.example.com:5000/team/app:v2", "app@sha256:" + "0" * 64)
QUANTITIES = {
    "cpu": ("1", 1, "1.5", "1500m", "100m", "0.1", "0.0005"),
    "memory": ("1Gi", "1024Mi", "1073741824", "0.5Gi", "512Mi", "1e9", 1000, "1000k"),
    "nvidia.com/gpu": (8, "8", "0"),
}


def _some(**fields: SearchStrategy[Any]) -> SearchStrategy[Object]:
    """Return a strategy for any subset of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


def _one_of(*values: Any) -> SearchStrategy[Any]:
    return st.sampled_from(values)


def _optional(strategy: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.none() | strategy


LABELS = st.dictionaries(_one_of("app", "example.com/tier"), _one_of("", "a", "b"), max_size=2)
RESOURCES = _some(
    limits=st.fixed_dictionaries(
        {}, optional={name: _one_of(*spelled) for name, spelled in QUANTITIES.items()}
    )
)
ENV = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": _one_of("A", "B", "C")}, optional={"value": _one_of("", "x", "$(A)")}),
        st.fixed_dictionaries(
            {
                "name": _one_of("D", "E"),
                "valueFrom": st.one_of(
                    st.just({"fieldRef": {"fieldPath": "metadata.name"}}),
                    st.just({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}),
                    st.fixed_dictionaries(
                        {"resource": st.just("limits.cpu")}, optional={"divisor": _one_of("0", "1", 1)}
                    ).map(lambda ref: {"resourceFieldRef": ref}),
                    _some(optional=st.booleans()).map(
                        lambda ref: {"configMapKeyRef": {"name": "c", "key": "k", **ref}}
                    ),
                    st.just({"secretKeyRef": {"name": "s", "key": "k"}}),
                ),
            }
        ),
    ),
    max_size=3,
    unique_by=lambda variable: variable["name"],
)
ACTION = st.one_of(
    st.fixed_dictionaries(
        {"port": _one_of(80, "http")},
        optional={"path": _one_of("", "/", "/health"), "scheme": _one_of("HTTP", "HTTPS")},
    ).map(lambda get: {"httpGet": get}),
    st.just({"tcpSocket": {"port": 80}}),
    st.just({"exec": {"command": ["true"]}}),
    st.fixed_dictionaries({"port": st.just(9)}, optional={"service": _one_of("", "s")}).map(
        lambda grpc: {"grpc": grpc}
    ),
)
PROBE = st.tuples(
    ACTION,
    _some(
        initialDelaySeconds=_one_of(0, 5),
        timeoutSeconds=_one_of(0, 1, 2),
        periodSeconds=_one_of(0, 10),
        failureThreshold=_one_of(0, 3),
    ),
).map(lambda pair: {**pair[0], **pair[1]})
SECURITY = _some(
    runAsUser=_one_of(0, 1000),
    runAsNonRoot=st.just(False),
    readOnlyRootFilesystem=st.booleans(),
    allowPrivilegeEscalation=st.booleans(),
    capabilities=_some(drop=st.lists(st.just("ALL"), max_size=1)),
    seccompProfile=st.just({"type": "RuntimeDefault"}),
)
PORTS = st.lists(
    st.fixed_dictionaries(
        {"containerPort": _one_of(80, 81)},
        optional={"protocol": _one_of("TCP", "UDP"), "hostPort": st.just(0)},
    ),
    max_size=2,
    unique_by=lambda port: port["containerPort"],
)
SOURCES: dict[str, SearchStrategy[Any]] = {
    "emptyDir": _some(medium=_one_of("", "Memory"), sizeLimit=_one_of("1Gi", "1024Mi", "0.5Gi")),
    "configMap": st.fixed_dictionaries(
        {"name": st.just("c")},
        optional={
            "defaultMode": _one_of(0, 420),
            "optional": st.booleans(),
            "items": st.lists(st.just({"key": "a", "path": "b", "mode": 0}), max_size=1),
        },
    ),
    "secret": st.fixed_dictionaries(
        {"secretName": st.just("s")}, optional={"defaultMode": _one_of(256, 420)}
    ),
    "hostPath": st.fixed_dictionaries({"path": st.just("/x")}, optional={"type": _one_of("", "Directory")}),
    "persistentVolumeClaim": st.fixed_dictionaries(
        {"claimName": st.just("p")}, optional={"readOnly": st.booleans()}
    ),
    "downwardAPI": st.just({"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}),
    "projected": _some(
        sources=st.lists(
            st.one_of(
                st.just({"serviceAccountToken": {"path": "t"}}),
                st.just({"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}),
                st.just({"configMap": {"name": "c"}}),
            ),
            max_size=1,
        ),
        defaultMode=_one_of(420, 0),
    ),
    "nfs": st.fixed_dictionaries(
        {"server": st.just("n"), "path": st.just("/")}, optional={"readOnly": st.booleans()}
    ),
    "csi": st.fixed_dictionaries(
        {"driver": st.just("d.example.com")},
        optional={"readOnly": st.booleans(), "fsType": _one_of("", "ext4")},
    ),
    "ephemeral": st.fixed_dictionaries(
        {"accessModes": st.just(["ReadWriteOnce"]), "resources": st.just({"requests": {"storage": "1Gi"}})},
        optional={"volumeMode": st.just("Filesystem"), "storageClassName": _one_of("", "fast")},
    ).map(lambda spec: {"volumeClaimTemplate": {"spec": spec}}),
    "rbd": st.just({"monitors": ["m"], "image": "i"}),
    "iscsi": st.just({"targetPortal": "p", "iqn": "iqn.2024-01.com.example:x", "lun": 0}),
    "azureDisk": st.just({"diskName": "d", "diskURI": "https://blob/d.vhd"}),
    "image": st.fixed_dictionaries(
        {"reference": _one_of("data:1", "data")}, optional={"pullPolicy": st.just("Always")}
    ),
}
AFFINITY = st.one_of(
    st.just({}),
    st.just({"podAffinity": {}}),
    st.just(
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
                    ]
                }
            }
        }
    ),
    st.just(
        {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {"topologyKey": "z", "labelSelector": {"matchLabels": {"a": "b"}}},
                    }
                ]
            }
        }
    ),
)
POD = _some(
    automountServiceAccountToken=st.booleans(),
    dnsPolicy=_one_of("ClusterFirst", "Default"),
    enableServiceLinks=st.booleans(),
    hostNetwork=st.just(False),
    imagePullSecrets=st.lists(st.just({"name": "s"}), max_size=1),
    nodeSelector=LABELS,
    restartPolicy=st.just("Always"),
    schedulerName=_one_of("default-scheduler", "other"),
    securityContext=_some(fsGroup=_one_of(0, 5), runAsNonRoot=st.just(False)),
    serviceAccountName=_one_of("", "a"),
    shareProcessNamespace=st.booleans(),
    terminationGracePeriodSeconds=_one_of(0, 30, 60),
    tolerations=st.lists(
        _some(key=st.just("k"), effect=_one_of("", "NoSchedule")).map(
            lambda fields: {"operator": "Exists", **fields}
        ),
        max_size=1,
    ),
    topologySpreadConstraints=st.lists(
        st.just(
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ),
        max_size=1,
    ),
    affinity=AFFINITY,
)


@st.composite
def containers(draw: DrawFn, name: str, volumes: list[str]) -> Object:
    """One container that mounts any of the volumes."""
    optional = {
        "args": st.lists(_one_of("", "a<b>&c", "é"), max_size=2),
        "command": st.lists(st.just("run"), max_size=1),
        "env": ENV,
        "envFrom": st.lists(st.just({"prefix": "", "configMapRef": {"name": "c"}}), max_size=1),
        "imagePullPolicy": _one_of("Always", "IfNotPresent"),
        "ports": PORTS,
        "resources": RESOURCES,
        "securityContext": SECURITY,
        "terminationMessagePolicy": _one_of("File", "FallbackToLogsOnError"),
        "tty": st.booleans(),
    }
    if name != "before":
        optional |= {"livenessProbe": PROBE, "readinessProbe": PROBE}
        optional["lifecycle"] = st.just({"preStop": {"exec": {"command": ["a"]}}})
    if volumes:
        mount = st.fixed_dictionaries(
            {"name": _one_of(*volumes), "mountPath": st.just("/m")},
            optional={"readOnly": st.booleans(), "subPath": st.just("")},
        )
        optional["volumeMounts"] = st.lists(mount, max_size=1)
    return {
        "name": name,
        "image": draw(_one_of(*IMAGES)),
        **draw(st.fixed_dictionaries({}, optional=optional)),
    }


@st.composite
def pod_templates(draw: DrawFn) -> Object:
    """A template that the API server accepts."""
    kinds = draw(st.lists(_one_of(*SOURCES), max_size=3, unique=True))
    volumes = [{"name": f"v{number}", kind: draw(SOURCES[kind])} for number, kind in enumerate(kinds)]
    names = [volume["name"] for volume in volumes]
    spec: Object = {"containers": [draw(containers("main", names))], **draw(POD)}
    if draw(st.booleans()):
        spec["initContainers"] = [draw(containers("before", names))]
    if volumes:
        spec["volumes"] = volumes
    metadata = draw(_some(labels=LABELS, annotations=LABELS))
    return {"metadata": metadata, "spec": spec}


CLAIM = _some(
    storageClassName=_one_of("", "fast"),
    volumeMode=_one_of("Filesystem", "Block"),
    volumeName=_one_of("", "disk"),
    selector=st.just({}) | st.just({"matchLabels": {"disk": "fast"}}),
    dataSource=st.just({"kind": "PersistentVolumeClaim", "name": "model"}),
)


@st.composite
def claim_templates(draw: DrawFn) -> Object:
    """A PVC template that the API server accepts in a StatefulSet."""
    storage = draw(_one_of("1Gi", "1024Mi", "0.5Gi", "1e9", "1G", 1073741824))
    modes = draw(_one_of(["ReadWriteOnce"], ["ReadWriteMany"], ["ReadWriteOnce", "ReadOnlyMany"]))
    spec = {"accessModes": modes, "resources": {"requests": {"storage": storage}}, **draw(CLAIM)}
    metadata = {"name": "data", **draw(_some(labels=LABELS, annotations=LABELS))}
    return {"metadata": metadata, "spec": spec}
