# SPDX-License-Identifier: Apache-2.0
"""The architectures: names like transformers/llama and timm/resnet, and how each is built small."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from . import inputs as model_inputs
from . import particular
from .small_config import SMALL, Scale, shrink


def _declare_operators_of_torchvision() -> None:
    """Its wheel is made for a torch with CUDA; beside another its operators do not load, and its
    Python part, which is all that models need here, wants two of them declared."""
    if importlib.util.find_spec("torchvision") and not torch.version.cuda:
        for operator in ("nms", "qnms"):
            with contextlib.suppress(RuntimeError):  # declared already
                torch.library.define(
                    f"torchvision::{operator}", "(Tensor a, Tensor b, float threshold) -> Tensor"
                )


_declare_operators_of_torchvision()

# Heads of transformers in order of preference: one architecture is built with the first it has.
_HEADS = """IMAGE_TEXT_TO_TEXT SPEECH_SEQ_2_SEQ SEQ_TO_SEQ_CAUSAL_LM MASKED_LM CAUSAL_LM CTC
    IMAGE_CLASSIFICATION OBJECT_DETECTION ZERO_SHOT_OBJECT_DETECTION SEMANTIC_SEGMENTATION
    UNIVERSAL_SEGMENTATION DEPTH_ESTIMATION VIDEO_CLASSIFICATION AUDIO_CLASSIFICATION
    TIME_SERIES_PREDICTION MASK_GENERATION KEYPOINT_DETECTION KEYPOINT_MATCHING TEXT_TO_WAVEFORM
    TEXT_TO_SPECTROGRAM IMAGE_TO_IMAGE MULTIMODAL_LM PRETRAINING SEQUENCE_CLASSIFICATION"""


class UnsupportedError(Exception):
    """Eager cannot run the architecture here; the message says why."""


# What architectures are built with: first this file, for what it declares.
IMPORTED = (
    "zoo.catalogue", "transformers.modeling_utils", "transformers.models.auto.modeling_auto",
    *(["timm.models"] if importlib.util.find_spec("timm") else []),
)  # fmt: skip


@dataclass
class Built:
    """A model whose calls are deterministic, in training mode, and a batch for it."""

    model: nn.Module
    inputs: dict[str, Tensor] = field(default_factory=dict)
    what: str = ""

    def call(self, run: Callable[..., Any], inputs: dict[str, Tensor]) -> Any:
        if "" in inputs:  # timm's forward has no names worth knowing
            return run(inputs[""])
        return run(**inputs)


def names() -> list[str]:
    """Every architecture; timm's where it is installed."""
    from transformers.models.auto import modeling_auto

    found = [f"transformers/{name}" for name in sorted(modeling_auto.MODEL_MAPPING_NAMES)]
    with contextlib.suppress(ImportError):
        found += [f"timm/{name}" for name in _timm_families()]
    return found


def build(name: str, scale: Scale = SMALL) -> Built:
    """The architecture with random weights, always the same. Raises UnsupportedError."""
    library, _, architecture = name.partition("/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if library == "timm":
            return _timm(architecture, scale)
        return _transformers(architecture, scale)


def _head(architecture: str) -> str:
    """The name of the class."""
    from transformers.models.auto import modeling_auto

    for task in _HEADS.split():
        found = getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES").get(architecture)
        if found:
            return found if isinstance(found, str) else found[0]
    found = modeling_auto.MODEL_MAPPING_NAMES[architecture]
    return found if isinstance(found, str) else found[0]


def _classes(architecture: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Of the model, and of its configuration."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    name, config_class = _head(architecture), CONFIG_MAPPING[architecture]
    head = getattr(transformers, name, None)
    if head is None:  # it is not exported, and lies beside its configuration
        module = config_class.__module__.replace("configuration_", "modeling_")
        head = getattr(importlib.import_module(module), name)
    return head, getattr(head, "config_class", None) or config_class


def _transformers(architecture: str, scale: Scale) -> Built:
    problems: list[str] = []
    try:
        head, config_class = _classes(architecture)
    except Exception as error:
        raise UnsupportedError(f"class: {_said(error)}") from error
    for level in range(3):
        try:
            config = _config(architecture, config_class, level, scale)
            with torch.device("meta"):
                parameters = sum(p.numel() for p in head(config).parameters())
            if parameters > scale.most_parameters:
                problems.append(f"{parameters / 1e6:.0f} million parameters")
                continue
            torch.manual_seed(5)
            model = head(_config(architecture, config_class, level, scale))
        except Exception as error:
            problems.append(f"build: {_said(error)}")
            continue
        model = _deterministic(model)
        try:
            candidates = model_inputs.candidates(model, scale, architecture)
        except Exception as error:
            problems.append(f"inputs: {_said(error)}")
            continue
        for candidate in candidates:
            built = Built(model, candidate, f"{type(model).__name__}, level {level}")
            problem = _runs(built)
            if not problem:
                return built
            problems.append(f"{', '.join(candidate)}: {problem}")
    raise UnsupportedError("; ".join(dict.fromkeys(problems))[:1500] or "no inputs are known")


def _config(architecture: str, config_class: Callable[..., Any], level: int, scale: Scale) -> Any:
    config = shrink(config_class(**particular.given(architecture)), level, scale)
    if level == 0:
        particular.change(config, architecture)
    return config


def _deterministic(model: nn.Module) -> nn.Module:
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and "drop" in name:
                setattr(module, name, 0.0)
    for parameter in model.parameters():
        with torch.no_grad():
            # What starts as nothing, or as it was in memory, hides mistakes.
            if not parameter.isfinite().all() or (parameter.dim() > 1 and not parameter.any()):
                nn.init.normal_(parameter, std=0.02)
    # Parameters made as torch.Tensor(...) lie on the CPU whatever the default device is.
    return model.float().train().to(torch.get_default_device())


def _runs(built: Built) -> str:
    """Why eager cannot run it, forward and backward, twice alike; empty where it can."""
    try:
        losses = []
        for _ in range(2):
            built.model.zero_grad()
            loss = loss_of(built.call(built.model, built.inputs))
            if not torch.isfinite(loss):
                return "the loss is not finite"
            if loss.requires_grad:
                loss.backward()
            losses.append(loss.item())
        if abs(losses[0] - losses[1]) > 1e-5 * abs(losses[0]) and not _has_state(built.model):
            return "two runs in eager differ"
        built.model.zero_grad()
    except Exception as error:
        return _said(error)
    return ""


def _has_state(model: nn.Module) -> bool:
    return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"[
        :200
    ]


def tensors_of(output: Any, name: str = "output") -> dict[str, Tensor]:
    """Every tensor of a model's output by its path; caches are left out."""
    if isinstance(output, Tensor):
        return {name: output}
    found: dict[str, Tensor] = {}
    if isinstance(output, dict):
        items = [(str(k), v) for k, v in output.items()]
    elif isinstance(output, (list, tuple)):
        items = [(str(i), v) for i, v in enumerate(output)]
    else:
        return found
    for key, value in items:
        found |= tensors_of(value, f"{name}.{key}")
    return found


def loss_of(output: Any) -> Tensor:
    """The model's loss; where it has none, a sum over all of its results."""
    loss = output.get("loss") if isinstance(output, dict) else None
    if isinstance(loss, Tensor) and loss.numel() == 1:
        return loss.reshape(())
    total = torch.zeros(())
    for value in tensors_of(output).values():
        if value.is_floating_point() and value.numel():
            finite = torch.where(torch.isfinite(value), value, torch.zeros_like(value)).float()
            weight = torch.linspace(-1, 1, value.numel(), device=value.device)
            total = total.to(value.device) + (finite * weight.view(value.shape)).mean()
            total = total + finite.square().mean()
    return total


def _timm_families() -> list[str]:
    """Of each module of timm the first model."""
    timm = _import_timm()
    found: dict[str, str] = {}
    for name in timm.list_models():
        family = timm.model_entrypoint(name).__module__.rsplit(".", 1)[-1]
        smallest = found.get(family)
        if smallest is None or _weight(name) < _weight(smallest):
            found[family] = name
    return sorted(found.values())


def _weight(name: str) -> tuple[int, int]:
    """Less for names that speak of small models."""
    small = ("test_", "nano", "pico", "atto", "femto", "tiny", "mini", "xxs", "xs", "_s", "small",
             "18", "b0", "050")  # fmt: skip
    place = next((i for i, word in enumerate(small) if word in name), len(small))
    return place, len(name)


_TOO_LARGE = "too large"
# Ways to make a model of timm small, of which each takes those that it has; some have none.
_NARROWER_OF_TIMM: tuple[dict[str, Any], ...] = (
    {"embed_dim": 64, "depth": 2, "num_heads": 4},
    {"embed_dim": (64, 96, 128), "depth": (1, 1, 1), "num_heads": (2, 3, 4)},
    {"embed_dims": (16, 32, 64, 128), "depths": (1, 1, 2, 1), "num_heads": (1, 2, 4, 4)},
    {"depths": (1, 1, 2, 1)},
    {"layers": [1, 1, 1, 1], "width_factor": 0.5},
    {"layers": [1, 1, 1, 1]},
    {"mlp_ratio": 0.05},
    {"channel_multiplier": 0.125},
    {"num_features": 384, "stem_size": 32},
)


def _timm(architecture: str, scale: Scale) -> Built:
    problems: list[str] = []
    for size, options, most in _attempts_of_timm(scale, problems):
        built = _of_timm(
            architecture, size, options, most * scale.most_parameters, scale.batch, problems
        )
        if built is not None:
            return built
    raise UnsupportedError("; ".join(dict.fromkeys(problems))[:1500])


def _attempts_of_timm(
    scale: Scale, problems: list[str]
) -> Iterator[tuple[int, dict[str, Any], int]]:
    """Sizes of the image, options, and by how many times as large a model may be as is allowed."""
    for size in [s for s in (64, 96, 128, 224) if s >= scale.image]:
        for options in ({"img_size": size}, {}):
            if _TOO_LARGE not in problems:
                yield size, options, 1
    if _TOO_LARGE in problems:
        small = max(64, scale.image)
        for narrower in _NARROWER_OF_TIMM:
            yield small, {**narrower, "img_size": small}, 2
            yield small, narrower, 2
        yield small, {}, 3  # it has one width
        yield 2 * small, {}, 3
    yield max(256, scale.image), {}, 1  # its blocks want a larger image


def _of_timm(
    architecture: str,
    size: int,
    options: dict[str, Any],
    most: int,
    batch: int,
    problems: list[str],
) -> Built | None:
    """The model with so many parameters at most; what prevents it is added to the problems."""
    torch.manual_seed(5)
    try:
        model = _import_timm().create_model(architecture, num_classes=7, **options)
    except Exception as error:
        problems.append(_said(error))
        return None
    if sum(p.numel() for p in model.parameters()) > most:
        problems.append(_TOO_LARGE)
        return None
    channels = model.default_cfg.get("input_size", (3,))[0]
    inputs = {"": torch.randn(batch, channels, size, size)}
    built = Built(_deterministic(model), inputs, f"{architecture} at {size}")
    problem = _runs(built)
    if problem:
        problems.append(problem)
    return None if problem else built


def _import_timm() -> Any:
    return importlib.import_module("timm")
