# SPDX-License-Identifier: Apache-2.0
"""The bundle's copies of Python packages (tensord/_vendor): found, and behind the host's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import tensord

SOURCES = Path(tensord.__file__).parent


def test_vendored_packages_come_last(tmp_path: Path) -> None:
    package = tmp_path / "tensord"
    (package / "_vendor" / "only_vendored").mkdir(parents=True)
    for name in ("__init__.py", "_version.py", "errors.py"):
        shutil.copy(SOURCES / name, package)
    (package / "_vendor" / "only_vendored" / "__init__.py").write_text("where = 'vendored'\n")
    (package / "_vendor" / "colorsys.py").write_text("where = 'vendored'\n")
    program = (
        "import tensord, only_vendored, colorsys\n"
        "assert only_vendored.where == 'vendored'\n"
        "assert not hasattr(colorsys, 'where')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
