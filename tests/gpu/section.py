# SPDX-License-Identifier: Apache-2.0
"""One section of the GPU tests in this process: a JSON object a line for each check.

    section.py NAME [--device cuda|cpu] [--end SECONDS] [--shard I/N] [--only REGEX]

--end is on the clock that all processes of a host share (time.monotonic()). The last line is
{"end": true, "not_run": N}: how many checks there was no time for.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import re
import sys
import time
import traceback
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[1:1] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "bench"), str(ROOT / "examples")]

import torch  # noqa: E402

# Section -> the module whose checks() gives names and functions, in order.
MODULES = {
    "ops": "checks_ops",
    "call_backs": "checks_call_backs",
    "sanitized": "checks_sanitized",
    "models": "checks_models",
    "graphs": "checks_graphs",
    "memory": "checks_memory",
    "attention": "checks_attention",
    "shared": "checks_shared",
    "devices": "checks_devices",
    "faults": "checks_faults",
    "curves": "checks_curves",
    "profile": "checks_profile",
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=MODULES)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--end", type=float, default=float("inf"))
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    # Float32 is compared with float64: cuDNN would take TF32 for some layouts, and not for others.
    torch.backends.cudnn.allow_tf32 = False
    # Inputs, and tensors that a function makes on its way, are on the device.
    torch.set_default_device(args.device)
    shard, shards = map(int, args.shard.split("/"))
    checks = [c for c in importlib.import_module(MODULES[args.name]).checks()
              if re.search(args.only, c[0])][shard::shards]  # fmt: skip
    not_run = 0
    for name, function in checks:
        if time.monotonic() > args.end:
            not_run += 1
            continue
        start, detail = time.monotonic(), ""
        try:
            torch._dynamo.reset()
            function()
            if args.device == "cuda":
                torch.cuda.synchronize()
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            detail = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"[:3000]
        seconds = round(time.monotonic() - start, 3)
        line = {"name": name, "ok": not detail, "seconds": seconds, "detail": detail}
        print(json.dumps(line), flush=True)
    print(json.dumps({"end": True, "not_run": not_run}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
