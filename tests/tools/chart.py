# SPDX-License-Identifier: Apache-2.0
"""The chart of deploy/kubernetes as Helm renders it, and Kubernetes' schemas of what it makes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import own_environment
import yaml

KUBERNETES = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
ENVIRONMENT = own_environment.BUILD / "chart-checks"
# The oldest that the chart names, and the newest that the schemas know.
VERSIONS = ("1.25", "1.35")
PACKAGES = ("helm-python-sdk==0.2.2", "kubernetes-validate==1.37.0")
# Kinds of the operator of Prometheus, whose schemas are not Kubernetes'.
FOREIGN = {"PodMonitor", "PrometheusRule"}

_VALIDATE = """
import json, sys
import kubernetes_validate
documents, versions = json.load(sys.stdin)
for version in versions:
    for document in documents:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except (kubernetes_validate.ValidationError,
                kubernetes_validate.SchemaNotFoundError) as error:
            print(version, document["kind"], error)
"""


def install() -> str:
    """Helm's library and the schemas, once. Empty, or why they cannot be had."""
    return own_environment.install(ENVIRONMENT, "chart", PACKAGES)


def _run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        [str(ENVIRONMENT / "bin" / "python"), *arguments],
        input=given, capture_output=True, text=True, timeout=120, check=False, env=environment,
    )  # fmt: skip


class RenderError(Exception):
    """Helm's words."""


def render(*files: Path, **values: Any) -> str:
    """What the chart makes of files of settings and of settings beside them. It is linted too."""
    arguments = [argument for file in files for argument in ("-f", str(file))]
    done = _run(
        str(KUBERNETES / "render.py"), "--print", "--lint", "--set", json.dumps(values), *arguments
    )
    if done.returncode != 0:
        raise RenderError(done.stderr)
    return done.stdout


def documents(text: str) -> dict[str, dict[str, Any]]:
    """By "Kind/name"."""
    found = [document for document in yaml.safe_load_all(text) if document is not None]
    named = {f"{d['kind']}/{d['metadata']['name']}": d for d in found}
    assert len(named) == len(found), "two documents have one name"
    return named


def invalid(of: dict[str, dict[str, Any]]) -> str:
    """What Kubernetes would not take, a line each; unknown fields are wrong."""
    own = [document for document in of.values() if document["kind"] not in FOREIGN]
    done = _run("-c", _VALIDATE, given=json.dumps([own, VERSIONS]))
    return done.stdout + done.stderr
