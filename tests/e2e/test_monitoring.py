# SPDX-License-Identifier: Apache-2.0
"""What Prometheus finds of a daemon; dashboard, alerts and document speak of nothing else."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tensord
import yaml
from fleet_hosts import Host
from prometheus_client.parser import text_string_to_metric_families
from real_daemon import ROOT, RealDaemon

MONITORING = ROOT / "deploy" / "monitoring"
ALERTS = MONITORING / "alerts.yml"
DASHBOARD = MONITORING / "grafana-dashboard.json"
DOCUMENT = ROOT / "docs" / "monitoring.md"
TIMEOUT_S = 60
# Of Prometheus itself, for every target.
OF_ALL_TARGETS = {"up"}
# The parts of a histogram.
PARTS = re.compile(r"_(bucket|sum|count)$")


def port_of(daemon: RealDaemon) -> int:
    found = re.search(r"event=metrics address=\S+ port=(\d+)", daemon.log_text())
    assert found, daemon.log_text()
    return int(found[1])


def get(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return str(answer.read().decode())


@dataclass
class Scrape:
    """text: without what the HTTP library says of itself. types and labels: by a family's name."""

    text: str
    types: dict[str, str]
    labels: dict[str, set[str]]
    values: dict[tuple[str, tuple[tuple[str, str], ...]], float]
    stats: dict[str, Any]

    def value(self, name: str, **labels: str) -> float:
        return self.values[name, tuple(sorted(labels.items()))]


def parse(text: str, stats: dict[str, Any]) -> Scrape:
    text = "".join(line for line in text.splitlines(keepends=True) if "exposer_" not in line)
    scrape = Scrape(text, {}, {}, {}, stats)
    for family in text_string_to_metric_families(text):
        # The parser names counters without their suffix.
        name = family.name + ("_total" if family.type == "counter" else "")
        scrape.types[name] = family.type
        scrape.labels[name] = {label for sample in family.samples for label in sample.labels}
        for sample in family.samples:
            scrape.values[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return scrape


@pytest.fixture(scope="module")
def scraped() -> Iterator[Scrape]:
    """A daemon that has compiled two graphs and found one of them twice."""
    address = os.environ.get("TENSORD_ADDRESS")
    host = Host("", Path("/nowhere"), None, "--metrics-address=127.0.0.1:0")
    try:
        assert [host.ask(number)[0] for number in (1, 2, 1, 1)] == [
            "COMPILED",
            "COMPILED",
            "HIT",
            "HIT",
        ]
        stats = tensord.daemon_stats()
        yield parse(get(port_of(host)), stats)
    finally:
        host.close()
        if address is None:
            del os.environ["TENSORD_ADDRESS"]
        else:
            os.environ["TENSORD_ADDRESS"] = address


def test_metrics_say_what_the_statistics_say(scraped: Scrape) -> None:
    stats = scraped.stats
    assert scraped.value("tensord_requests_total", outcome="compiled") == stats["compiled"] == 2
    assert scraped.value("tensord_requests_total", outcome="hit") == stats["hits"] == 2
    assert scraped.value("tensord_requests_received_total") == stats["requests"] == 4
    assert scraped.value("tensord_store_programs") == stats["programs_stored"] == 2
    assert scraped.value("tensord_build_info", version=tensord.__version__) == 1
    for metric, field in {
        "tensord_lookup_seconds_total": "lookup_nanoseconds",
        "tensord_compile_saved_seconds_total": "saved_nanoseconds",
        "tensord_worker_cpu_seconds_total": "worker_cpu_nanoseconds",
    }.items():
        assert stats[field] > 0
        assert scraped.value(metric) == pytest.approx(stats[field] / 1e9)
    for stage, nanoseconds in stats["stages"].items():
        where, _, what = stage.partition("/")
        if what:
            value = scraped.value(
                "tensord_compile_pass_seconds_total", stage=where, **{"pass": what}
            )
        else:
            value = scraped.value("tensord_compile_stage_seconds_total", stage=where)
        assert value == pytest.approx(nanoseconds / 1e9)


def test_latencies_are_of_the_requests(scraped: Scrape) -> None:
    name = "tensord_request_duration_seconds"
    for outcome in ("hit", "compiled", "joined", "failed"):
        count = scraped.value(f"{name}_count", outcome=outcome)
        assert count == scraped.value("tensord_requests_total", outcome=outcome)
        assert count == scraped.value(f"{name}_bucket", outcome=outcome, le="+Inf")
        assert count == sum(scraped.stats["latencies"][outcome].values())
    assert scraped.value(f"{name}_sum", outcome="compiled") > scraped.value(
        f"{name}_sum", outcome="hit"
    )
    assert math.inf in scraped.stats["latencies"]["hit"]


def test_no_stage_has_the_time_of_another(scraped: Scrape) -> None:
    """Else the dashboard's stages, one over the other, would be higher than what compiling took."""
    stages = {
        dict(labels)["stage"]: value
        for (name, labels), value in scraped.values.items()
        if name == "tensord_compile_stage_seconds_total"
    }
    compiling = scraped.value("tensord_request_duration_seconds_sum", outcome="compiled")
    assert compiling / 2 < sum(stages.values()) < compiling, stages
    of_passes = {
        dict(labels)["stage"]
        for name, labels in scraped.values
        if name == "tensord_compile_pass_seconds_total"
    }
    assert "jit" in of_passes
    assert of_passes <= set(stages)


def test_nothing_else_is_served(scraped: Scrape) -> None:
    daemon = RealDaemon(flags=("--metrics-address=127.0.0.1:0",))
    try:
        port = port_of(daemon)
        for path in ("/", "/metrics/..", "/..%2f..%2fetc/passwd"):
            with pytest.raises(urllib.error.HTTPError, match="40"):
                get(port, path)
        listening = {
            line.split()[1]
            for line in Path(f"/proc/{daemon.process.pid}/net/tcp").read_text().splitlines()[1:]
            if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
        }
        assert listening == {f"0100007F:{port:04X}"}
    finally:
        daemon.close()


# -- what is deployed ------------------------------------------------------------------------------


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded


def expressions() -> dict[str, str]:
    """Of dashboard and alerts, by where each stands; Grafana's variables are values."""
    found = {rule["alert"]: str(rule["expr"]) for rule in alerts()}
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$instance", ".*")
            for variable, value in {"$__rate_interval": "1m", "$__range": "1h"}.items():
                expression = expression.replace(variable, value)
            found[f"{panel['title']} {target['refId']}"] = expression
    return found


def family_of(scrape: Scrape, metric: str) -> str:
    base = PARTS.sub("", metric)
    return base if scrape.types.get(base) == "histogram" else metric


def metrics_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:tensord_\w+|up)\b", re.sub(r'"[^"]*"', '""', expression)))


@pytest.mark.parametrize("where", list(expressions()))
def test_an_expression_asks_for_what_is_there(scraped: Scrape, where: str) -> None:
    expression = expressions()[where]
    metrics = metrics_in(expression)
    assert metrics, expression
    of_ours = {family_of(scraped, metric) for metric in metrics - OF_ALL_TARGETS}
    assert of_ours <= set(scraped.types), expression
    # Labels that are chosen by, and grouped by, in the braces and parentheses.
    known = {"instance", "job", "le"}.union(*(scraped.labels[name] for name in of_ours))
    chosen = re.findall(r'[{,]\s*(\w+)=~?"', expression)
    grouped = [
        label.strip()
        for group in re.findall(r"\bby \(([^)]*)\)", expression)
        for label in group.split(",")
    ]
    assert set(chosen) | set(grouped) <= known, expression
    # The values that are chosen are there too.
    for label, value in re.findall(r'[{,]\s*(\w+)="([^"]*)"', expression):
        if label != "job":
            values = {
                dict(labels).get(label)
                for name, labels in scraped.values
                if family_of(scraped, name) in of_ours
            }
            assert value in values, expression


def test_rates_are_of_counters_only(scraped: Scrape) -> None:
    for where, expression in expressions().items():
        for function, metric in re.findall(r"\b(rate|increase)\((\w+)", expression):
            kind = scraped.types[family_of(scraped, metric)]
            assert kind in ("counter", "histogram"), f"{where}: {function} of the {kind} {metric}"
        inner = set(re.findall(r"\b(?:rate|increase)\((\w+)", expression))
        for metric in metrics_in(expression) - inner - OF_ALL_TARGETS:
            assert scraped.types[metric] == "gauge", f"{where}: {metric} grows without a rate"


def test_the_dashboard_shows_every_metric(scraped: Scrape) -> None:
    shown = {
        family_of(scraped, metric)
        for where, expression in expressions().items()
        if " " in where
        for metric in metrics_in(expression)
    }
    # Part of the requests' durations, and of their outcomes.
    beside = {"tensord_lookup_seconds_total", "tensord_requests_received_total"}
    assert set(scraped.types) - shown == beside


def test_the_dashboard_is_what_its_table_says() -> None:
    command = [sys.executable, str(MONITORING / "dashboard.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, "run deploy/monitoring/dashboard.py: " + done.stdout


def test_the_dashboard_can_be_laid_out() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies over another panel"
        taken |= cells
        references = [target["refId"] for target in panel.get("targets", [])]
        assert len(set(references)) == len(references)
    variables = {variable["name"] for variable in dashboard()["templating"]["list"]}
    used = {name for name in re.findall(r"\$\{?(\w+)", DASHBOARD.read_text()) if name[0] != "_"}
    assert used == variables


def test_the_document_tells_of_every_alert() -> None:
    told = set(re.findall(r"^\| `(Tensord\w+)` ", DOCUMENT.read_text(), re.M))
    assert told == {rule["alert"] for rule in alerts()}


def test_prometheus_scrapes_where_the_document_says() -> None:
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    assert job["job_name"] == "tensord"
    (target,) = job["static_configs"][0]["targets"]
    assert f'metrics_address = "{target}"' in DOCUMENT.read_text()


# -- as Prometheus itself sees it ------------------------------------------------------------------


def promtool(*arguments: str, given: str | None = None) -> None:
    found = shutil.which("promtool") or shutil.which(
        "promtool", path=os.environ.get("TENSORD_TEST_CACHE") or "/nowhere"
    )
    if found is None:
        pytest.skip("there is no promtool: tests/tools/promtool.sh FOLDER, and FOLDER in PATH")
    done = subprocess.run(
        [found, *arguments], input=given, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_the_names_conventional(scraped: Scrape) -> None:
    promtool("check", "metrics", given=scraped.text)


def test_promtool_takes_the_configuration() -> None:
    promtool("check", "config", str(MONITORING / "prometheus.yml"))


def test_promtool_takes_every_expression(tmp_path: Path) -> None:
    """Those of the dashboard too, as rules that record."""
    rules = [
        {"record": f"test:expression_{i}", "expr": expression}
        for i, expression in enumerate(expressions().values())
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "expressions", "rules": rules}]}))
    promtool("check", "rules", str(file))


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    shutil.copy(ALERTS, tmp_path)
    shutil.copy(ROOT / "tests" / "monitoring" / "alerts_test.yml", tmp_path)
    promtool("test", "rules", str(tmp_path / "alerts_test.yml"))
