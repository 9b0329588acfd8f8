#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for the daemon's binary: notes that it was started, then serves Hello for a while.

FAKE_STARTS is a file that gets one line per start; FAKE_MODE is "serve", "slow" or "die".
"""

import os
import sys
import time

with open(os.environ["FAKE_STARTS"], "a") as file:
    print(os.getpid(), os.getsid(0), *sys.argv[1:], file=file)

mode = os.environ.get("FAKE_MODE", "serve")
if mode == "die":
    print("no such store", file=sys.stderr)
    sys.exit(4)
time.sleep(0.5 if mode == "slow" else 0.0)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fake_daemon import FakeDaemon  # noqa: E402

daemon = FakeDaemon(os.environ["TENSORD_ADDRESS"].removeprefix("unix:"))
time.sleep(float(os.environ.get("FAKE_LIFETIME_S", "8")))
