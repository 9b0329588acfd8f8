# SPDX-License-Identifier: Apache-2.0
"""The chart and examples of deploy/kubernetes: Helm renders them, Kubernetes' schemas take them,
and what they say of the daemon is so."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chart
import pytest
import redis_server
import yaml
from certificates import make_certificates
from fleet_hosts import Host, make_key
from own_server import OwnServer, free_port
from real_daemon import ROOT, RealDaemon, binary

EXAMPLES = chart.KUBERNETES / "examples"
SCHEMA = json.loads((chart.KUBERNETES / "chart" / "values.schema.json").read_text())
GIB = 1 << 30
# Keys that the chart sets itself, and those that have no sense in a pod: its log is what it prints,
# and a daemon that ends by itself would be started again.
OWN = {"address", "store", "fleet", "fleet_trust", "fleet_sign_key", "fleet_password_file",
       "fleet_ca", "metrics_address"}  # fmt: skip
NONE = {"worker", "idle_exit", "log_file", "listen_tls", "listen_cert", "listen_key", "listen_ca",
        "listen_token_file"}  # fmt: skip
EVERYTHING = {
    "user": 2000,
    "image": {"repository": "registry.example/tensord", "tag": "x"},
    "pullSecrets": [{"name": "pull"}],
    "config": {"store_limit": 50 * GIB, "nvrtc": "/usr/local/cuda", "log_level": "debug"},
    "fleet": {"url": "grpcs://w@cache.example:9092/a?b&c", "trust": "a 00\nb 11\n", "secret": "s",
              "signKey": "fleet.key", "password": "pass word", "ca": "ca.crt"},
    "metrics": {"enabled": True, "podMonitor": True, "alerts": True, "labels": {"release": "p"},
                "from": {"kubernetes.io/metadata.name": "monitoring"}},
    "nodeSelector": {"nvidia.com/gpu.present": "true"},
    "priorityClassName": "system-node-critical",
    "seLinuxOptions": {"type": "spc_t"},
}  # fmt: skip

pytestmark = pytest.mark.long  # installs 100 MB
Documents = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    if problem := chart.install():
        pytest.skip(problem)


@pytest.fixture(scope="module")
def plain() -> Documents:
    return chart.documents(chart.render())


@pytest.fixture(scope="module")
def full() -> Documents:
    return chart.documents(chart.render(**EVERYTHING))


def pod(documents: Documents) -> dict[str, Any]:
    found: dict[str, Any] = documents["DaemonSet/tensord"]["spec"]["template"]["spec"]
    return found


def daemon_container(documents: Documents) -> dict[str, Any]:
    (container,) = pod(documents)["containers"]
    assert container["name"] == "tensord"
    return dict(container)


def settings(documents: Documents, folder: Path) -> dict[str, tuple[str, str]]:
    """Every key as the daemon understands the file of the release: value and source."""
    file = folder / "tensord.toml"
    file.write_text(documents["ConfigMap/tensord"]["data"]["tensord.toml"])
    done = subprocess.run(
        [binary(), "--print-config", f"--config={file}"],
        capture_output=True, text=True, timeout=60, check=False, env={},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^(\w+) += (.*?) +# (.*)$", done.stdout, re.M)
    return {
        key: (value.strip('"'), "file" if "/" in source else source) for key, value, source in lines
    }


def test_the_plain_manifest_is_the_charts() -> None:
    written = (chart.KUBERNETES / "tensord.yaml").read_text()
    assert chart.render() == written, "deploy/kubernetes/render.py writes it"


def test_kubernetes_takes_it(plain: Documents, full: Documents) -> None:
    assert chart.invalid(plain) == chart.invalid(full) == ""


def test_what_is_wrong_would_be_seen(plain: Documents) -> None:
    wrong = json.loads(json.dumps(plain))
    pod(wrong)["enableServiceLink"] = False
    assert "enableServiceLink" in chart.invalid(wrong)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_kubernetes_takes_the_examples(file: Path) -> None:
    if file.stem.endswith("-values"):
        made = chart.documents(chart.render(file, fleet={"trust": "builders 00"}))
        server = chart.documents((EXAMPLES / file.name.replace("-values", "")).read_text())
        port = server["Service/compile-cache"]["spec"]["ports"][0]["port"]
        url = yaml.safe_load(file.read_text())["fleet"]["url"]
        assert re.fullmatch(rf"\w+://writer@compile-cache:{port}", url)
    else:
        made = chart.documents(file.read_text())
    assert chart.invalid(made) == ""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"config": {"worker_count": 3}}, "worker_count"),
        ({"config": {"idle_exit": 60}}, "idle_exit"),
        ({"config": {"job_memory": "much"}}, "job_memory"),
        ({"usr": 3}, "usr"),
        ({"fleet": {"secret": "s"}}, "names an entry"),
        ({"fleet": {"signKey": "fleet.key"}}, "fleet.secret must name it"),
    ],
)
def test_what_makes_no_sense_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(chart.RenderError, match=words):
        chart.render(**values)


def test_the_daemon_takes_its_settings(plain: Documents, full: Documents, tmp_path: Path) -> None:
    found = settings(plain, tmp_path)
    given = {key: value for key, (value, source) in found.items() if source == "file"}
    assert given == {
        "address": "unix:/run/tensord/1000/tensord.sock",
        "store": "/var/lib/tensord/1000/store",
        "workers": "4",
        "job_memory": str(4 * GIB),
        "store_limit": str(20 * GIB),
    }
    found = settings(full, tmp_path)
    given = {key: value for key, (value, source) in found.items() if source == "file"}
    assert given["address"] == "unix:/run/tensord/2000/tensord.sock"
    assert given["store_limit"] == str(50 * GIB)
    assert given["fleet"] == EVERYTHING["fleet"]["url"]  # type: ignore[index]
    assert given["fleet_trust"] == "/etc/tensord/fleet.trust"
    assert given["fleet_password_file"] == "/run/secrets/tensord/pass word"
    assert given["metrics_address"] == "0.0.0.0:9464"
    assert set(given) >= OWN


def test_the_schema_knows_every_key(plain: Documents, tmp_path: Path) -> None:
    known = set(settings(plain, tmp_path))
    assert set(SCHEMA["properties"]["config"]["properties"]) == known - OWN - NONE


def test_memory_is_enough_for_all_workers(plain: Documents, tmp_path: Path) -> None:
    found = settings(plain, tmp_path)
    workers, each = int(found["workers"][0]), int(found["job_memory"][0])
    limit = daemon_container(plain)["resources"]["limits"]["memory"]
    assert limit == f"{(workers * each + 2 * GIB) // GIB}Gi"


@pytest.mark.parametrize("which", ["plain", "full"])
def test_the_pod_is_confined(which: str, request: pytest.FixtureRequest) -> None:
    documents: Documents = request.getfixturevalue(which)
    spec = pod(documents)
    assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*spec["initContainers"], *spec["containers"]]:
        # No variable of tensord's, which would beat the file.
        assert not {"env", "envFrom"} & set(container)
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"]["drop"] == ["ALL"]
    (folders,) = spec["initContainers"]
    assert folders["securityContext"]["capabilities"]["add"] == ["CHOWN"]
    assert "add" not in daemon_container(documents)["securityContext"]["capabilities"]


def test_root_can_be_the_user() -> None:
    spec = pod(chart.documents(chart.render(user=0, group=0)))
    assert spec["securityContext"]["runAsNonRoot"] is False


def test_keys_lie_where_workers_cannot_read(full: Documents) -> None:
    source = (ROOT / "server" / "worker" / "confine.cc").read_text()
    found = re.search(r"walls\.readable = \{(.*?)\};", source, re.S)
    assert found
    readable = re.findall(r'"(/[\w/]+)"', found[1])
    mounts = {mount["name"]: mount["mountPath"] for mount in daemon_container(full)["volumeMounts"]}
    assert "/etc" in readable
    assert not [place for place in readable if f"{mounts['secret']}/".startswith(f"{place}/")]
    assert mounts["config"] == "/etc/tensord"
    (secret,) = [v["secret"] for v in pod(full)["volumes"] if v["name"] == "secret"]
    # A group may read, others not (server/fleet/keys.cc).
    assert secret["defaultMode"] == 0o440
    assert pod(full)["securityContext"]["fsGroup"] == pod(full)["securityContext"]["runAsGroup"]


def test_a_job_finds_its_nodes_daemon(plain: Documents) -> None:
    job = chart.documents((EXAMPLES / "job.yaml").read_text())["Job/train"]
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    ours = {mount["mountPath"] for mount in daemon_container(plain)["volumeMounts"]}
    for mount in container["volumeMounts"]:
        assert mount["readOnly"] and mount["mountPath"] in ours
    places = {volume["hostPath"]["path"] for volume in spec["volumes"]}
    assert places == {mount["mountPath"] for mount in container["volumeMounts"]}
    assert places == {v["hostPath"]["path"] for v in pod(plain)["volumes"] if "hostPath" in v}
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    text = plain["ConfigMap/tensord"]["data"]["tensord.toml"]
    assert f'address = "{environment["TENSORD_ADDRESS"]}"' in text
    assert spec["securityContext"]["runAsUser"] == pod(plain)["securityContext"]["runAsUser"]
    assert spec["enableServiceLinks"] is False


def test_probes_say_whether_the_daemon_answers(plain: Documents) -> None:
    container = daemon_container(plain)
    probes = [container[f"{name}Probe"] for name in ("startup", "readiness", "liveness")]
    commands = {tuple(probe["exec"]["command"]) for probe in probes}
    assert len(commands) == 1
    program, *arguments = commands.pop()
    assert program == "/opt/tensord/bin/tensorctl"

    def ask(address: str) -> int:
        given = [f"--address={address}" if a.startswith("--address=") else a for a in arguments]
        return subprocess.run(
            [binary("tensorctl"), *given], capture_output=True, timeout=60, check=False
        ).returncode

    daemon = RealDaemon()
    try:
        assert ask(daemon.address) == 0
    finally:
        daemon.stop()
    assert ask(daemon.address) == 3


def test_metrics_are_scraped_by_what_the_alerts_know(full: Documents, plain: Documents) -> None:
    alerts = yaml.safe_load((ROOT / "deploy" / "monitoring" / "alerts.yml").read_text())
    assert full["PrometheusRule/tensord"]["spec"] == alerts
    (port,) = daemon_container(full)["ports"]
    monitor = full["PodMonitor/tensord"]["spec"]
    assert monitor["podMetricsEndpoints"][0]["port"] == port["name"] == "metrics"
    template = full["DaemonSet/tensord"]["spec"]["template"]["metadata"]
    assert template["annotations"]["prometheus.io/port"] == str(port["containerPort"])
    # The job's name, by which alerts find daemons.
    assert template["labels"][monitor["jobLabel"]] == "tensord"
    assert monitor["selector"]["matchLabels"].items() <= template["labels"].items()
    (rule,) = full["NetworkPolicy/tensord"]["spec"]["ingress"]
    assert rule["ports"] == [{"port": "metrics", "protocol": "TCP"}]
    assert plain["NetworkPolicy/tensord"]["spec"]["ingress"] == []
    assert "ports" not in daemon_container(plain)


class ExampleRedis(OwnServer):
    """The server of redis.yaml, with its own command line, on the loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        make_certificates(folder)
        text = (EXAMPLES / "redis.yaml").read_text()
        (container,) = chart.documents(text)["Deployment/compile-cache"]["spec"]["template"][
            "spec"
        ]["containers"]
        (folder / "tls.crt").write_bytes((folder / "server.crt").read_bytes())
        (folder / "tls.key").write_bytes((folder / "server.key").read_bytes())
        users = re.findall(r"^#   (user .*)$", text, re.M)
        (folder / "users.acl").write_text("\n".join(users).replace("PASSWORD", "secret") + "\n")
        here = {"/tmp": str(folder), "6380": str(self.port)}
        arguments = [
            here.get(argument, argument.replace("/run/secrets/cache", str(folder)))
            for argument in container["args"]
        ]
        path = redis_server.program()
        assert path is not None
        self._start(
            ["redis-server", *arguments, "--bind", "127.0.0.1", "--logfile", "log"],
            ("127.0.0.1", self.port), executable=path,
        )  # fmt: skip


@pytest.fixture
def example_redis(tmp_path: Path) -> Iterator[ExampleRedis]:
    if redis_server.program() is None:
        pytest.skip("there is no redis-server")
    server = ExampleRedis(tmp_path)
    yield server
    server.stop()


def test_the_example_of_redis_serves_the_daemon(example_redis: ExampleRedis) -> None:
    folder = example_redis.folder
    key = make_key(folder)
    password = folder / "password"
    password.write_text("secret\n")
    host = Host(
        f"rediss://writer@localhost:{example_redis.port}", folder / "trust", key,
        f"--fleet-password-file={password}", f"--fleet-ca={folder / 'ca.crt'}",
    )  # fmt: skip
    try:
        assert host.ask(1)[0] == "COMPILED"
        host.wait_for("fleet_put", 1)
        assert host.stats()["fleet_errors"] == 0
    finally:
        host.stop()
