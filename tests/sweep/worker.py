# SPDX-License-Identifier: Apache-2.0
"""A process of the sweep: takes keys of cases, a line each, and answers with JSON, a line each.

    worker.py [--sample N] [--most N] [--spoil REGEX]

{"doing": TEXT} says what begins, so that a crash or a hang can be told from it; {"outcome": ...} is
the end of a case (outcome.py). Everything else that is printed goes to the error stream.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import re
import resource
import sys
import traceback
import warnings

# Operators of extreme arguments ask for any amount; eager must fail at it rather than the machine.
MOST_BYTES = 16 << 30


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, default=None)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--spoil", default="")
    args = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what torch prints is no answer
    faulthandler.enable()

    def say(line: dict[str, object]) -> None:
        answers.write(json.dumps(line) + "\n")
        answers.flush()

    import torch
    import torch._dynamo
    from entries import Case, entries
    from execute import Runner
    from outcome import Outcome

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
    say({"doing": "ready"})
    for line in sys.stdin:
        case = Case.parse(line.strip())
        spoiled = bool(args.spoil) and re.search(args.spoil, case.entry) is not None
        runner = Runner(table[case.entry], case, lambda what: say({"doing": what}), spoiled)
        try:
            outcome = runner.run(args.sample, args.most)
        except Exception:  # of the sweep itself: to be mended, and no reason to lose the process
            outcome = Outcome(case.key)
            outcome.add("crash", -1, f"the sweep: {traceback.format_exc()[-1400:]}")
        say({"outcome": outcome.line()})


if __name__ == "__main__":
    main()
