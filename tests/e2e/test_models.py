# SPDX-License-Identifier: Apache-2.0
"""Whole models, compiled, against eager and a float64 reference: loss, results, every gradient."""

from __future__ import annotations

import model_check
import models
import pytest
from long_cases import long_but

pytestmark = pytest.mark.usefixtures("tensord_daemon")


@pytest.mark.parametrize("precision", long_but(("float32",), model_check.TOLERANCE))
@pytest.mark.parametrize("name", models.MODELS)
def test_training(name: str, precision: str) -> None:
    model_check.check_training(name, precision)


@pytest.mark.parametrize("precision", long_but(("float32",), model_check.TOLERANCE))
@pytest.mark.parametrize("name", models.MODELS)
def test_inference(name: str, precision: str) -> None:
    model_check.check_inference(name, precision)
