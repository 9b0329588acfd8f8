#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders the chart as Helm does, by Helm's own library (pip install helm-python-sdk).

python deploy/kubernetes/render.py              # writes tensord.yaml, for who has no Helm
python deploy/kubernetes/render.py --print [-f VALUES.yaml]... [--set JSON]  # --help
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import helm_python  # type: ignore[import-not-found]

HERE = Path(__file__).resolve().parent
CHART = HERE / "chart"
PLAIN = HERE / "tensord.yaml"
NAMESPACE = "tensord"
HEAD = f"""\
# SPDX-License-Identifier: Apache-2.0
# The chart with its defaults, as deploy/kubernetes/render.py writes it: change the chart instead.
#
#   kubectl apply -f deploy/kubernetes/tensord.yaml
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    # Folders of nodes are for this level alone.
    pod-security.kubernetes.io/enforce: privileged
"""


def render(values: dict[str, Any]) -> str:
    """What the chart makes of these settings, as one text of several documents."""
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        texts = chart.render(values, name="tensord", namespace=NAMESPACE)
    documents = [HEAD]
    # The daemons last, for they want the rest.
    for name, text in sorted(texts.items(), key=lambda one: ("daemonset" in one[0], one[0])):
        text = text.replace("# SPDX-License-Identifier: Apache-2.0\n", "").strip()
        if name.endswith(".yaml") and text:
            documents.append(f"# Source: {name}\n{text}\n")
    return "---\n".join(documents)


def merged(into: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """As Helm puts one file of values over another."""
    both = dict(into)
    for key, value in values.items():
        old = both.get(key)
        both[key] = (
            merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return both


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-f", "--values", type=Path, action="append", default=[])
    parser.add_argument("--set", type=json.loads, default={}, help="more settings, as JSON")
    parser.add_argument("--print", action="store_true", help="print it instead")
    parser.add_argument(
        "--lint", action="store_true", help="end with 1 where helm lint --strict does"
    )
    arguments = parser.parse_args()
    values: dict[str, Any] = {}
    for file in arguments.values:
        values = merged(values, helm_python.values_from_yaml(file.read_text()))
    values = merged(values, arguments.set)
    try:
        text = render(values)
    except helm_python.HelmError as error:
        print(f"render.py: {error}", file=sys.stderr)
        return 1
    wrong = helm_python.lint(CHART, values, strict=True)["errors"] if arguments.lint else []
    if wrong:
        print("render.py: helm lint:", *wrong, sep="\n", file=sys.stderr)
        return 1
    if arguments.print:
        print(text, end="")
    else:
        PLAIN.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
