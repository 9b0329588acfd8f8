# SPDX-License-Identifier: Apache-2.0
"""Tells the daemon of a profile, for `tensorctl profile` and the page. Where that is not possible a
profile stays with who made it, which is said once."""

from __future__ import annotations

import logging

from ..errors import TensordError
from ..v1 import profile_pb2, requests_pb2
from ..wire import rpc
from ..wire.caller import caller

log = logging.getLogger("tensord")

_TIMEOUT_S = 5.0
_said: set[str] = set()


def tell(message: profile_pb2.Profile) -> bool:
    """Whether the daemon has it now. Raises nothing of the daemon's."""
    client = rpc.client()
    try:
        client.hello()  # another may listen since the last greeting
        if not client.takes_profiles():
            return _kept_here("the daemon takes none: it is older")
        request = requests_pb2.PutProfileRequest(caller=caller(), profile=message)
        client.call("PutProfile", request, _TIMEOUT_S)
    except TensordError as error:
        return _kept_here(str(error))
    return True


def _kept_here(why: str) -> bool:
    if why not in _said:
        _said.add(why)
        log.warning("tensord: profiles stay in this process: %s", why)
    return False
