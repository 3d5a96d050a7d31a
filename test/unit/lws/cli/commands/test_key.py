"""`lws key`: the exact revision keys of hand-written manifests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from lws.cli.commands.key import key
from lws.leaderworkerset.revisions.encoding import key_of

KINDS = ("LeaderWorkerSet", "DisaggregatedSet")
ROOT = Path(__file__).parents[5]
EVERY_RULE = Path(__file__).parents[2] / "leaderworkerset" / "revisions" / "every_rule.yaml"
HEADER = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: %s}\n"

TINY = (
    HEADER % "tiny"
    + """
spec:
  replicas: 7
  startupPolicy: LeaderReady
  leaderWorkerTemplate:
    restartPolicy: None
    workerTemplate: {spec: {containers: [{image: "a:1", name: c}]}}
"""
)
TINY_DATA = (
    '{"spec":{"leaderWorkerTemplate":{"$patch":"replace","restartPolicy":"None","size":1,"workerTemplate":'
    '{"metadata":{},"spec":{"containers":[{"image":"a:1","name":"c","resources":{}}]}}},'
    '"networkConfig":{"$patch":"replace","subdomainPolicy":"Shared"}}}'
)
SMALL = (
    HEADER % "small"
    + """
spec:
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      metadata: {labels: {app: w}}
      spec:
        nodeName: n1
        containers:
        - name: main
          image: img:1
          args: ["--a=<b>&c"]
          env: [{name: LWS_GROUP_SIZE, value: user}, {name: X, value: "1"}]
          resources: {limits: {cpu: 1.5, memory: 1024Mi}}
"""
)


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(key, list(arguments), input=stdin, catch_exceptions=False)


def every_rule() -> str:
    spec = yaml.safe_load(EVERY_RULE.read_text(encoding="utf-8"))
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    return json.dumps({**kind, "metadata": {"name": "rules"}, "spec": spec})


@pytest.mark.parametrize(
    ("manifest", "printed"),
    [
        pytest.param(TINY, "tiny\t58b6956df9\n", id="as small as can be, defaults filled in"),
        pytest.param(SMALL, "small\t6b44f4458c\n", id="quantities, characters of HTML, defaults"),
        pytest.param(every_rule(), "rules\t8bc7b8c4d\n", id="every rule, as JSON"),
    ],
)
def test_keys_match_upstream(manifest: str, printed: str) -> None:
    result = run("-f", "-", stdin=manifest)
    assert (result.output, result.exit_code) == (printed, 0)


def test_data_are_the_hashed_bytes_of_the_key() -> None:
    result = run("-f", "-", "--data", stdin=TINY)
    assert result.stdout_bytes == f"tiny\t58b6956df9\n{TINY_DATA}\n".encode()


def test_data_are_utf_8_regardless_of_the_locale() -> None:
    manifest = TINY.replace("a:1", "é:1")
    result = CliRunner(charset="latin-1").invoke(key, ["-f", "-", "--data"], input=manifest.encode())
    printed, data = result.stdout_bytes.rstrip(b"\n").split(b"\n")
    assert "é:1".encode() in data
    assert printed.decode() == f"tiny\t{key_of(data.decode())}"


def test_every_set_of_a_file_is_listed_in_order(tmp_path: Path) -> None:
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: tiny}\n"
    file = tmp_path / "sets.yaml"
    file.write_text("\n---\n".join([service, SMALL, "", TINY, SMALL]), encoding="utf-8")
    result = run("--filename", str(file))
    assert result.output == "small\t6b44f4458c\ntiny\t58b6956df9\nsmall\t6b44f4458c\n"


@pytest.mark.parametrize(
    ("original", "changed"),
    [
        pytest.param("replicas: 7", "replicas: 9", id="replicas"),
        pytest.param("LeaderReady", "LeaderCreated", id="startup policy"),
        pytest.param("name: c}", "name: c, resources: {}}", id="an empty field"),
        pytest.param("{name: tiny}", "{name: tiny, labels: {a: b}}", id="labels of the set"),
    ],
)
def test_fields_that_do_not_affect_the_key(original: str, changed: str) -> None:
    assert original in TINY
    assert run("-f", "-", stdin=TINY.replace(original, changed)).output == "tiny\t58b6956df9\n"


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda path: path.stem)
def test_examples_have_keys(path: Path) -> None:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents = [
        document for document in yaml.load_all(path.read_text(encoding="utf-8"), Loader=loader) if document
    ]
    names = [document["metadata"]["name"] for document in documents if document["kind"] in KINDS]
    result = run("-f", str(path))
    if not names:
        assert result.exit_code == 1
        return
    printed = [line.split("\t") for line in result.output.splitlines()]
    assert [name for name, _ in printed] == names
    assert all(len(key) >= 8 for _, key in printed)


SPEC = "spec: {leaderWorkerTemplate: {workerTemplate: {spec: {containers: [{name: c, image: a, %s}]}}}}\n"


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        pytest.param(
            "",
            "<stdin> holds no LeaderWorkerSet of leaderworkerset.x-k8s.io/v1 and no D",
            id="empty",
        ),
        pytest.param("kind: Service", "<stdin> holds no LeaderWorkerSet", id="another kind"),
        pytest.param("{ a: [", "<stdin> is not YAML: ", id="not YAML"),
        pytest.param(
            "apiVersion: leaderworkerset.x-k8s.io/v2\nkind: LeaderWorkerSet",
            "apiVersion is 'leaderworkerset.x-k8s.io/v2', only leaderworkerset.x-k8s.io/v1 is known",
            id="another version",
        ),
        pytest.param(
            HEADER % "x" + "spec: hello",
            'spec: Invalid value: "hello": must be an object',
            id="not an object",
        ),
        pytest.param(HEADER % "x", "spec.leaderWorkerTemplate.workerTemplate: Field required", id="no spec"),
        pytest.param(
            HEADER % "x" + "spec: {leaderWorkerTemplate: {size: two, workerTemplate: {}}}",
            'spec.leaderWorkerTemplate.size: Invalid value: "two": must be an integer',
            id="a word for a number",
        ),
        pytest.param(TINY.replace("{name: tiny}", ""), "name or generateName is required", id="no name"),
        pytest.param(
            HEADER % "x" + SPEC % "args: [!!binary aGVsbG8=]",
            "cannot be written as JSON",
            id="a value that JSON cannot represent",
        ),
    ],
)
def test_invalid_manifests_are_reported_in_words(manifest: str, message: str) -> None:
    result = run("-f", "-", stdin=manifest)
    assert result.exit_code == 1
    assert message in result.stderr and not result.stdout
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "either NAME or '-f' / '--filename' is required", id="no file"),
        pytest.param(["demo", "-f", "-"], "either NAME or '-f' / '--filename'", id="both"),
        pytest.param(["-f", "there-is-none.yaml"], "No such file or directory", id="a missing file"),
        pytest.param(["-f", "."], "Is a directory", id="a directory"),
        pytest.param(["-f", "-", "--date"], "--date", id="an unknown option"),
    ],
)
def test_usage_errors(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_binary_file_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "binary.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    result = run("-f", str(file))
    assert result.exit_code == 1 and "is not YAML" in result.stderr


# Test vectors of upstream's hash.
TWO_ROLES = """
apiVersion: disaggregatedset.x-k8s.io/v1
kind: DisaggregatedSet
metadata: {name: llm}
spec:
  roles:
  - &role
    name: prefill
    spec:
      replicas: 2
      leaderWorkerTemplate:
        size: 1
        restartPolicy: RecreateGroupOnPodRestart
        workerTemplate: {spec: {containers: [{name: worker, image: "nginx:1.29.3"}]}}
  - {<<: *role, name: decode}
"""


def test_keys_of_disaggregated_sets() -> None:
    result = run("-f", "-", stdin=f"{TWO_ROLES}\n---\n{TINY}")
    assert result.output == "llm\t980bcb92\ntiny\t58b6956df9\n"
    turned = (
        TWO_ROLES.replace("name: decode", "name: zz").replace("prefill", "decode").replace("zz", "prefill")
    )
    turned = turned.replace("worker, ", "main, ").replace("nginx:1.29.3", "registry.k8s.io/pause:3.9")
    assert run("-f", "-", stdin=turned).output == "llm\tf8b99c79\n", "the order of roles counts for the hash"


def test_data_of_a_disaggregated_set_are_the_hashed_bytes_of_its_key() -> None:
    _, data, _ = run("-f", "-", "--data", stdin=TWO_ROLES).stdout_bytes.split(b"\n")
    assert data.startswith(b'[{"name":"prefill","template":{"workerTemplate":{"metadata":{},"spec":')
    assert hashlib.sha256(data).hexdigest()[:8] == "980bcb92"


def test_an_invalid_disaggregated_set_is_rejected() -> None:
    strategy = "rolloutStrategy: {rollingUpdateConfiguration: {partition: 2}}"
    manifest = TWO_ROLES.replace("replicas: 2", f"replicas: 2\n      {strategy}")
    assert "partition is not supported by DisaggregatedSet" in run("-f", "-", stdin=manifest).output
