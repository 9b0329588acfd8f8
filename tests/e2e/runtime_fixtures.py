# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the runtime's tests: a blob folder, and both bridges in turn."""

from __future__ import annotations

import pytest
from runtime_artifacts import Store
from tensord import _native
from tensord._native import build as native_build
from tensord.bridge import runtime
from tensord.bridge.call_backs import run_step


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("blobs"))


@pytest.fixture(scope="session")
def native_built(store):
    if not native_build.can_build():
        return False
    native_build.build()
    return True


@pytest.fixture(params=["ctypes", "native"])
def load(request, store, native_built):
    """Loads an artifact through either bridge."""
    if request.param == "native":
        if not native_built:
            pytest.skip("no compiler or headers for the native bridge")
        module = _native.load(runtime.find_runtime_library(), runtime.runtime_error, run_step)
        assert module is not None
        kind = module.Program
    else:
        kind = runtime.Program
    # The caller installed last serves both bridges, so install this bridge's own.
    if request.param == "ctypes":
        library = runtime._Library.get()
        library.lib.tensord_set_operator_caller(library._caller, None)
    else:
        module.init(str(runtime.find_runtime_library()), runtime.runtime_error, run_step)

    def loader(artifact, folder=None):
        return kind(artifact.SerializeToString(), str(folder or store.folder))

    loader.name = request.param
    return loader
