# SPDX-License-Identifier: Apache-2.0
"""Who asks the daemon, from what schedulers and launchers set: for its logs and fair turns."""

from __future__ import annotations

import os
import socket

from .. import _native
from ..v1 import requests_pb2

_JOB_VARIABLES = ("TENSORD_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")
_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


def caller() -> requests_pb2.Caller:
    """This process."""
    job = next((os.environ[v] for v in _JOB_VARIABLES if os.environ.get(v)), "")
    rank = next((os.environ[v] for v in _RANK_VARIABLES if os.environ.get(v, "").isdigit()), "0")
    return requests_pb2.Caller(
        pid=os.getpid(), job=job, rank=int(rank), host=socket.gethostname(),
        bridge=_native.bridge(),
    )  # fmt: skip
