# SPDX-License-Identifier: Apache-2.0
"""A process of the sweep: runs the cases that pool.py asks it for.

    worker.py [--sample N] [--most N] [--spoil REGEX]

A task is {"case": KEY, "without": [N, ...]}, its reply {"outcome": ...} (case_outcome.py), or
{"asserts": N}: the sample at which eager fails an assertion on the device. Of {"case": KEY,
"asserts": N} the outcome is that sample's (Runner.fails_alike). "lost": this process can no longer
use the device. The note {"doing": TEXT} says what begins, so that a crash or a hang can be told
from it.
"""

from __future__ import annotations

import argparse
import faulthandler
import pathlib
import re
import resource
import sys
import traceback
import warnings
from collections.abc import Callable

# Operators of extreme arguments ask for any amount; eager must fail at it rather than the machine.
MOST_BYTES = 16 << 30


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, default=None)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--spoil", default="")
    args = parser.parse_args()
    faulthandler.enable()
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

    import torch
    import torch._dynamo
    from case_outcome import Outcome
    from entries import Case, entries
    from execute import DeviceLostError, Runner, device_is_lost
    from worker_pool import Json, serve

    warnings.filterwarnings("ignore")
    # Operators whose results' sizes depend on data belong into the graph.
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    torch._dynamo.config.capture_scalar_outputs = True
    # Float32 is compared with float64; TF32 would be further off for some layouts only.
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(1)
    if not torch.cuda.is_available():
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    table = entries()

    def handle(task: Json, note: Callable[[Json], None]) -> Json:
        case = Case.parse(task["case"])
        spoiled = bool(args.spoil) and re.search(args.spoil, case.entry) is not None
        runner = Runner(table[case.entry], case, lambda what: note({"doing": what}), spoiled)
        try:
            if "asserts" in task:
                outcome = runner.fails_alike(task["asserts"])
            else:
                outcome = runner.run(args.sample, args.most, task["without"])
        except DeviceLostError as error:
            return {"asserts": error.sample, "lost": True}
        except Exception:  # of the sweep itself: to be mended, and no reason to lose the process
            outcome = Outcome(case.key)
            outcome.add("crash", -1, f"the sweep: {traceback.format_exc()[-1400:]}")
        return {"outcome": outcome.line(), "lost": device_is_lost(case.device)}

    serve(handle)


if __name__ == "__main__":
    main()
