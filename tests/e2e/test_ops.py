# SPDX-License-Identifier: Apache-2.0
"""Single operators against eager, each on inputs of many layouts, sizes and dtypes."""

from __future__ import annotations

import op_check
import pytest
from long_cases import long_but
from op_table import Case

RESULTS = [run for run in op_check.RUNS if run[1] == "result"]

pytestmark = pytest.mark.usefixtures("tensord_daemon")


@pytest.mark.parametrize(
    ("case", "how"),
    long_but(RESULTS, op_check.RUNS),
    ids=[f"{case.name}-{how}" for case, how in op_check.RUNS],
)
def test_operator(case: Case, how: str) -> None:
    op_check.run(case, how)
