#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes grafana-dashboard.json: the panels are one table here.

    deploy/monitoring/dashboard.py           # writes it
    deploy/monitoring/dashboard.py --check   # ends with 1 where it differs

A dashboard that was changed in Grafana is lost with the next import; change the table.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from dataclasses import dataclass
from typing import Any

OUTPUT = pathlib.Path(__file__).resolve().parent / "grafana-dashboard.json"
ALL = 24  # columns of Grafana's grid
SOURCE = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True)
class Panel:
    """kind, unit: Grafana's names. queries: expressions and their legends."""

    title: str
    kind: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    text: str = ""
    stacked: bool = False


def select(labels: str = "") -> str:
    """Of the daemons that were chosen, those series that have the labels."""
    return "{" + ", ".join(filter(None, ['instance=~"$instance"', labels])) + "}"


def rate(metric: str, labels: str = "", by: str = "") -> str:
    """The metric's growth a second, of all daemons together or by labels."""
    grouped = f"sum by ({by})" if by else "sum"
    return f"{grouped} (rate({metric}{select(labels)}[$__rate_interval]))"


def quantile(q: float, outcome: str) -> str:
    buckets = rate("tensord_request_duration_seconds_bucket", f'outcome="{outcome}"', "le")
    return f"histogram_quantile({q}, {buckets})"


def total(metric: str, labels: str = "") -> str:
    """By how much the metric grew in the time that is shown."""
    return f"sum (increase({metric}{select(labels)}[$__range]))"


HERE = select()
REQUESTS = "tensord_requests_total"
FOUND = total(REQUESTS, 'outcome="hit"')
FLEET = "tensord_fleet_searches_total"

# A row of panels, which share its width. "stat" shows a number, "timeseries" lines.
ROWS: list[tuple[str, list[Panel]]] = [
    (
        "Now",
        [
            Panel("Daemons", "stat", "short", ((f"count(tensord_build_info{HERE})", ""),)),
            Panel(
                "Found",
                "stat",
                "percentunit",
                ((f"{FOUND} / {total(REQUESTS)}", ""),),
                "Share of requests that found their program compiled.",
            ),
            Panel(
                "Compiling saved",
                "stat",
                "s",
                ((total("tensord_compile_saved_seconds_total"), ""),),
                "What compiling took of the programs that were found, each time they were.",
            ),
            Panel(
                "Failed",
                "stat",
                "short",
                ((total(REQUESTS, 'outcome="failed"'), ""),),
                "Requests whose graphs run in eager.",
            ),
            Panel("Waiting", "stat", "short", ((f"sum(tensord_requests_in_flight{HERE})", ""),)),
            Panel(
                "Stores with a problem",
                "stat",
                "short",
                ((f"sum(tensord_store_problem{HERE})", ""),),
                "tensorctl status says which.",
            ),
        ],
    ),
    (
        "Requests",
        [
            Panel(
                "Requests by outcome",
                "timeseries",
                "reqps",
                ((rate(REQUESTS, by="outcome"), "{{outcome}}"),),
                stacked=True,
            ),
            Panel(
                "Time to answer",
                "timeseries",
                "s",
                (
                    (quantile(0.5, "hit"), "found, median"),
                    (quantile(0.99, "hit"), "found, 99 %"),
                    (quantile(0.5, "compiled"), "compiled, median"),
                    (quantile(0.99, "compiled"), "compiled, 99 %"),
                ),
                "Quantiles are as exact as the buckets.",
            ),
            Panel(
                "Waiting and refused",
                "timeseries",
                "short",
                (
                    (f"sum(tensord_requests_in_flight{HERE})", "requests that wait"),
                    (f"sum(tensord_compiles_queued{HERE})", "compiles without a turn"),
                    (rate("tensord_requests_refused_total", by="reason"), "refused/s: {{reason}}"),
                    (rate("tensord_unauthenticated_calls_total"), "not let in/s"),
                ),
            ),
        ],
    ),
    (
        "Hits and misses",
        [
            Panel(
                "Found by tier",
                "timeseries",
                "reqps",
                ((rate("tensord_hits_total", by="tier"), "{{tier}}"),),
                "In the daemon's own store, or brought from the fleet.",
                stacked=True,
            ),
            Panel(
                "Compiled, as the program was",
                "timeseries",
                "short",
                ((rate("tensord_program_misses_total", by="reason"), "{{reason}}/s"),),
                "tensorctl explain-miss shows the nearest program and what differs.",
                stacked=True,
            ),
        ],
    ),
    (
        "Compiling",
        [
            Panel(
                "Time by stage",
                "timeseries",
                "s",
                ((rate("tensord_compile_stage_seconds_total", by="stage"), "{{stage}}"),),
                "Seconds of compiling in a second.",
                stacked=True,
            ),
            Panel(
                "Slowest passes",
                "timeseries",
                "s",
                (
                    (
                        f"topk(8, {rate('tensord_compile_pass_seconds_total', by='stage, pass')})",
                        "{{stage}}/{{pass}}",
                    ),
                ),
            ),
            Panel(
                "Kernels",
                "timeseries",
                "short",
                ((rate("tensord_kernels_total", by="outcome"), "{{outcome}}/s"),),
                stacked=True,
            ),
            Panel(
                "Workers",
                "timeseries",
                "short",
                (
                    (f"sum(tensord_workers{HERE})", "running"),
                    (rate("tensord_worker_cpu_seconds_total"), "processors used"),
                    (rate("tensord_worker_restarts_total"), "crashed/s"),
                    (rate("tensord_repros_kept_total"), "graphs kept/s"),
                ),
            ),
        ],
    ),
    (
        "Store and frames",
        [
            Panel(
                "Store",
                "timeseries",
                "bytes",
                (
                    (f"tensord_store_bytes{HERE}", "{{instance}}"),
                    (f"tensord_store_frame_bytes{HERE}", "{{instance}}, frames"),
                    (f"tensord_store_limit_bytes{HERE}", "{{instance}}, limit"),
                ),
            ),
            Panel(
                "What is stored",
                "timeseries",
                "short",
                (
                    (f"sum(tensord_store_programs{HERE})", "programs"),
                    (f"sum(tensord_store_frames{HERE})", "frames"),
                ),
            ),
            Panel(
                "Evicted and damaged",
                "timeseries",
                "short",
                (
                    (rate("tensord_store_evictions_total", by="kind"), "{{kind}}s evicted/s"),
                    (rate("tensord_store_corrupt_blobs_total"), "damaged blobs/s"),
                ),
            ),
            Panel(
                "Frames",
                "timeseries",
                "short",
                (
                    (rate("tensord_frame_searches_total", by="outcome"), "searches/s: {{outcome}}"),
                    (rate("tensord_frame_hits_total"), "served/s"),
                    (rate("tensord_frame_puts_total", by="outcome"), "put/s: {{outcome}}"),
                ),
            ),
            Panel(
                "Captures",
                "timeseries",
                "short",
                (
                    (rate("tensord_captures_total"), "made/s"),
                    (rate("tensord_capture_waits_total"), "waited for/s"),
                    (rate("tensord_captures_lapsed_total"), "lapsed/s"),
                    (rate("tensord_captures_unrecorded_total"), "without a frame/s"),
                ),
            ),
        ],
    ),
    (
        "Fleet",
        [
            Panel(
                "Searches",
                "timeseries",
                "short",
                (
                    (rate(FLEET, by="outcome"), "{{outcome}}/s"),
                    (rate("tensord_fleet_waits_total"), "waited for another host/s"),
                ),
            ),
            Panel(
                "Given",
                "timeseries",
                "short",
                ((rate("tensord_fleet_puts_total", by="outcome"), "{{outcome}}/s"),),
            ),
            Panel(
                "Trouble",
                "timeseries",
                "short",
                (
                    (f"sum(tensord_fleet_breaker_open{HERE})", "daemons that do not ask"),
                    (f"sum(tensord_fleet_problem{HERE})", "daemons with a problem"),
                    (rate("tensord_fleet_breaker_opened_total"), "breakers opened/s"),
                    (rate("tensord_fleet_errors_total"), "errors/s"),
                    (rate("tensord_fleet_refused_total"), "refused/s"),
                ),
            ),
            Panel(
                "Traffic",
                "timeseries",
                "Bps",
                (
                    (rate("tensord_fleet_received_bytes_total"), "received"),
                    (rate("tensord_fleet_sent_bytes_total"), "sent"),
                ),
            ),
        ],
    ),
    (
        "Process",
        [
            Panel(
                "Memory",
                "timeseries",
                "bytes",
                (
                    (f"tensord_resident_memory_bytes{HERE}", "{{instance}}"),
                    (f"tensord_request_memory_bytes{HERE}", "{{instance}}, requests"),
                ),
                "Of daemons, without their workers.",
            ),
            Panel("Up", "timeseries", "s", ((f"tensord_uptime_seconds{HERE}", "{{instance}}"),)),
        ],
    ),
]


def panel_json(panel: Panel, identity: int, place: dict[str, int]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    options: dict[str, Any] = {}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none"}
        defaults["custom"] = {"fillOpacity": 30 if panel.stacked else 5, "stacking": stacking}
        options = {"tooltip": {"mode": "multi", "sort": "desc"}}
    else:
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "none"}
    return {
        "id": identity,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": legend or "__auto",
            }
            for i, (expression, legend) in enumerate(panel.queries)
        ],
    }


def panels() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        place = {"x": 0, "y": y, "w": ALL, "h": 1}
        made.append({"id": len(made) + 1, "type": "row", "title": title, "gridPos": place})
        y += 1
        height = 4 if row[0].kind == "stat" else 8
        edges = [ALL * i // len(row) for i in range(len(row) + 1)]
        for panel, left, right in zip(row, edges, edges[1:], strict=False):
            place = {"x": left, "y": y, "w": right - left, "h": height}
            made.append(panel_json(panel, len(made) + 1, place))
        y += height
    return made


def dashboard() -> dict[str, Any]:
    return {
        "uid": "tensord",
        "title": "tensord",
        "description": "Daemons of tensord; docs/monitoring.md. Written by dashboard.py.",
        "tags": ["tensord"],
        "schemaVersion": 38,  # Grafana 10; newer ones migrate it
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "source",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                },
                {
                    "name": "instance",
                    "label": "Host",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": "label_values(tensord_build_info, instance)",
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": panels(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    text = json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"
    if OUTPUT.exists() and OUTPUT.read_text() == text:
        return 0
    if check:
        print(f"{OUTPUT.name} differs from what dashboard.py writes")
        return 1
    OUTPUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
