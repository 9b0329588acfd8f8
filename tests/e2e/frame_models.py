# SPDX-License-Identifier: Apache-2.0
"""Records or checks the guards of models in a process of its own:

    python frame_models.py record FOLDER CASE...   captures, and writes each case's frames
    python frame_models.py check FOLDER CASE...    builds the models again, and checks

CASE: MODEL/MODE, or for `check` MODEL/MODE/CHANGE, by which the model is changed before; MODE:
inference or training. Each case is a fork of one process that has imported what all need. A line
for each frame: the case, and behind a space what was found: of `record` its function and why it
could not be recorded, of `check` "holds" or why its guards do not.
"""

from __future__ import annotations

import os
import sys
import traceback
import types
from pathlib import Path
from typing import Any

import torch


def ids() -> torch.Tensor:
    return torch.arange(32).reshape(2, 16) % 100


def bert() -> tuple[Any, dict[str, Any]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    return BertModel(config), {"input_ids": ids()}


def gpt2() -> tuple[Any, dict[str, Any]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=32, n_layer=2, n_head=2)
    return GPT2LMHeadModel(config), {"input_ids": ids()}


def llama() -> tuple[Any, dict[str, Any]]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        vocab_size=200,
    )  # fmt: skip
    return LlamaForCausalLM(config), {"input_ids": ids()}


def t5() -> tuple[Any, dict[str, Any]]:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        d_model=32, num_layers=2, num_heads=2, d_ff=64, d_kv=16, vocab_size=200,
        decoder_start_token_id=0,
    )  # fmt: skip
    return T5ForConditionalGeneration(config), {"input_ids": ids(), "labels": ids()}


def vit() -> tuple[Any, dict[str, Any]]:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        image_size=32, patch_size=8,
    )  # fmt: skip
    return ViTModel(config), {"pixel_values": torch.ones(2, 3, 32, 32)}


def resnet() -> tuple[Any, dict[str, Any]]:
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[2, 2])
    return ResNetModel(config), {"pixel_values": torch.ones(2, 3, 32, 32)}


MODELS = {"bert": bert, "gpt2": gpt2, "llama": llama, "t5": t5, "vit": vit, "resnet": resnet}


def build(name: str, mode: str) -> tuple[Any, dict[str, Any]]:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return model.train(mode == "training"), inputs


def frame_of(model: Any) -> types.FunctionType:
    """The function whose frame Dynamo captures when the model is called."""
    forward: types.FunctionType = type(model).forward
    return forward


def locals_of(model: Any, inputs: dict[str, Any], function: types.FunctionType) -> dict[str, Any]:
    """What that frame has when it is entered."""
    code = function.__code__
    held: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        held[name] = cell.cell_contents
    import inspect

    bound = inspect.Signature.from_callable(function, follow_wrapped=False).bind(model, **inputs)
    bound.apply_defaults()
    return {**held, **bound.arguments}


def record(name: str, mode: str, folder: Path) -> list[str]:
    from frame_guards import captures

    model, inputs = build(name, mode)
    compiled = torch.compile(model, backend="eager")
    with torch.set_grad_enabled(mode == "training"):
        found = captures(lambda: compiled(**inputs))
    for number, recorded in enumerate(found):
        (folder / f"{name}-{mode}-{number}.frame").write_bytes(recorded.data)
    return [f"{recorded.code.co_name} {recorded.reason}" for recorded in found]


def change_config(model: Any) -> None:
    model.config.use_cache = not getattr(model.config, "use_cache", False)
    model.config.output_hidden_states = True


def change_training(model: Any) -> None:
    model.train(not model.training)


def change_inner_training(model: Any) -> None:
    next(m for m in model.modules() if isinstance(m, torch.nn.Dropout)).train(not model.training)


def _attention() -> Any:
    import transformers.models.bert.modeling_bert as bert

    return bert.BertSelfAttention


def change_class(model: Any) -> None:
    """A method of a class of the library, as a later version may have it."""
    forward = _attention().forward
    _attention().forward = lambda self, *args, **named: forward(self, *args, **named)


def change_default(model: Any) -> None:
    forward = _attention().forward
    while hasattr(forward, "__wrapped__"):
        forward = forward.__wrapped__
    forward.__defaults__ = (False, *(forward.__defaults__ or ())[1:])


def change_function(model: Any) -> None:
    """A function of another module of the library."""
    import transformers.integrations.sdpa_attention as attention

    attention.repeat_kv = lambda states, count: states
    attention.sdpa_attention_forward.__code__ = change_function.__code__


def change_dtype(model: Any) -> None:
    model.double()


def change_tied(model: Any) -> None:
    layers = model.encoder.layer
    layers[1].output.dense.weight = layers[0].output.dense.weight
    layers[1].output.dense.weight.requires_grad = False


def change_hook(model: Any) -> None:
    model.encoder.layer[1].register_forward_hook(lambda module, given, result: result)


def change_layers(model: Any) -> None:
    del model.encoder.layer[1]


def change_inner_module(model: Any) -> None:
    model.encoder.layer[1].intermediate.dense = torch.nn.Linear(32, 64, bias=False)


def change_activation(model: Any) -> None:
    model.encoder.layer[1].intermediate.intermediate_act_fn = torch.nn.ReLU()


def change_none(model: Any) -> None:
    """The same model once more."""


def check(name: str, mode: str, folder: Path, change: str = "none") -> list[str]:
    from tensord.frames import digests, guard_checks
    from tensord.frames.errors import UnfitError
    from tensord.v1 import frame_pb2

    model, inputs = build(name, mode)
    function = frame_of(model)
    globals()["change_" + change](model)
    before = set(sys.modules)
    lines = []
    with torch.set_grad_enabled(mode == "training"):
        for path in sorted(folder.glob(f"{name}-{mode}-*.frame")):
            frame = frame_pb2.Frame.FromString(path.read_bytes())
            if frame.code.digest != digests.of_code(function.__code__):
                continue
            try:
                tree = guard_checks.load(frame, function.__globals__)
                lines.append(tree.failure(locals_of(model, inputs, function)) or "holds")
            except UnfitError as error:
                lines.append(f"unfit: {error}")
    for module in ("torch._dynamo", "torch.fx.experimental.symbolic_shapes", "sympy"):
        if module in set(sys.modules) - before:
            lines.append(f"{module} is imported")
    return lines


def in_a_fork(verb: str, folder: Path, case: str) -> bool:
    """Prints a case's lines from a child, which leaves this process as it is."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            name, mode, *change = case.split("/")
            for line in {"record": record, "check": check}[verb](name, mode, folder, *change):
                print(case, line, flush=True)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main(verb: str, folder: Path, cases: list[str]) -> int:
    import transformers

    # The classes, which lie in modules that are imported when they are asked for.
    for name in (
        "BertModel", "GPT2LMHeadModel", "LlamaForCausalLM", "ResNetModel",
        "T5ForConditionalGeneration", "ViTModel",
    ):  # fmt: skip
        getattr(transformers, name)
    if verb == "record":
        import frame_guards  # noqa: F401  with Dynamo
    else:
        from tensord.frames import guard_checks  # noqa: F401
    done = [in_a_fork(verb, folder, case) for case in cases]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
