# SPDX-License-Identifier: Apache-2.0
"""Inputs for any model of transformers, by the names of its forward's parameters."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from .particular_inputs import INPUTS
from .small_config import SMALL, Scale

AUDIO_SAMPLES, FRAMES = 3200, 64
_MOST_TOKENS = 250  # but for those of special meaning, which lie at a vocabulary's end


def _find(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these attributes in a configuration or in those that it holds."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    for child in getattr(type(config), "sub_configs", {}):
        held = getattr(config, child, None)
        if held is not None and hasattr(held, "to_dict"):
            value = _find(held, *names)
            if value is not None:
                return value
    return default


def _side(size: Any) -> int:
    if isinstance(size, dict):
        size = size.get("height", next(iter(size.values())))
    return int(size[0] if isinstance(size, (list, tuple)) else size)


def _ids(config: Any, scale: Scale) -> Tensor:
    text = getattr(config, "text_config", None) or config
    vocabulary = _find(text, "vocab_size", default=_find(config, "vocab_size", default=100))
    # fairseq's count positions from behind the padding's, which is 1.
    behind = 2 if _find(text, "pad_token_id") == 1 else 0
    positions = _find(text, "max_position_embeddings")
    length = min(scale.length, positions - behind) if isinstance(positions, int) else scale.length
    return torch.randint(5, max(6, min(vocabulary, _MOST_TOKENS)), (scale.batch, length))


def _pixels(config: Any, scale: Scale, level: int) -> Tensor:
    vision = getattr(config, "vision_config", None) or config
    channels = _find(vision, "num_channels", "in_channels", "in_chans", default=3)
    size = _find(vision, "image_size", "img_size", "input_size", default=64)
    sides = list(size)[-2:] if isinstance(size, (list, tuple)) else [_side(size)] * 2
    if level == 1:
        sides = [max(side, 64) for side in sides]
    elif level == 2:
        sides = [224, 224]
    return torch.randn(scale.batch, int(channels) if isinstance(channels, int) else 3, *sides)


def _frames(config: Any, scale: Scale, level: int) -> Tensor:
    images = _pixels(config, scale, level)
    count = _find(config, "num_frames", "frames_per_clip", "tubelet_size", default=4)
    count = count if isinstance(count, int) else 4
    return images[:, None].repeat(1, max(2, count), 1, 1, 1)


def _features(config: Any, scale: Scale, name: str, level: int) -> Tensor:
    bins = _find(config, "num_mel_bins", "input_feat_per_channel", "feature_size", "num_features",
                 "feature_projection_input_dim", "input_dim", default=80)  # fmt: skip
    positions = _find(config, "max_source_positions", default=FRAMES // 2)
    if level == 0:
        return torch.randn(scale.batch, bins, 2 * positions)
    return torch.randn(scale.batch, FRAMES, bins)


def _boxes(scale: Scale) -> Tensor:
    corner = torch.randint(0, 30, (scale.batch, scale.length, 2))
    return torch.cat([corner, corner + torch.randint(1, 20, (scale.batch, scale.length, 2))], -1)


def _series(config: Any, scale: Scale) -> dict[str, Tensor]:
    past = _find(config, "context_length", default=24)
    channels = _find(config, "num_input_channels")
    if channels is not None:
        return {"past_values": torch.randn(scale.batch, past, channels)}
    lags = max(_find(config, "lags_sequence", default=[0]) or [0])
    future = _find(config, "prediction_length", default=8) or 8
    times = _find(config, "num_time_features", default=0)
    return {
        "past_values": torch.randn(scale.batch, past + lags),
        "past_time_features": torch.randn(scale.batch, past + lags, times),
        "past_observed_mask": torch.ones(scale.batch, past + lags),
        "future_values": torch.randn(scale.batch, future),
        "future_time_features": torch.randn(scale.batch, future, times),
    }


def _labels(model: Any, scale: Scale, inputs: dict[str, Tensor]) -> Tensor | None:
    name = type(model).__name__
    if any(word in name for word in ("ForCausalLM", "LMHead", "MaskedLM", "ConditionalGeneration",
                                     "ForCTC", "PreTraining", "ImageTextToText")):  # fmt: skip
        ids = inputs.get("input_ids")
        ids = ids if ids is not None else torch.randint(5, 30, (scale.batch, 6))
        return ids.clone()
    if "Classification" in name and "Token" not in name and "ZeroShot" not in name:
        return torch.randint(0, 2, (scale.batch,))
    return None


def candidates(model: Any, scale: Scale = SMALL, architecture: str = "") -> list[dict[str, Tensor]]:
    """Inputs to try, the fullest first; each call draws the same."""
    parameters = inspect.signature(model.forward).parameters
    config = model.config
    found = []
    for level in range(3):
        torch.manual_seed(11)
        series = _series(config, scale) if "past_values" in parameters else {}
        inputs: dict[str, Tensor] = {}
        for name in parameters:
            value = _value(name, config, scale, level, parameters)
            if name in series:
                value = series[name]
            if value is not None:
                inputs[name] = value
        if "input_ids" in inputs and "attention_mask" in inputs:
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        if "image_grid_thw" in parameters and "pixel_values" in inputs:
            gridded = _gridded(config, scale)
            inputs |= {n: v for n, v in gridded.items() if n in parameters}
            inputs.pop("pixel_values_videos", None)
        if series and "past_time_features" not in parameters:
            inputs.pop("future_values", None)
        labels = _labels(model, scale, inputs) if "labels" in parameters else None
        found += _particular(config, scale, architecture, inputs, labels)
        if labels is not None:
            found.append({**inputs, "labels": labels})
        found.append(inputs)
        # Of several kinds of input a model may take one: the main one, or text alone.
        main = model.main_input_name
        main = main if isinstance(main, str) else main[0]
        if main in inputs and len(inputs) > 1:
            found.append({main: inputs[main]})
            if main == "input_ids" and labels is not None:
                found.append({main: inputs[main], "labels": labels})
        text = {n: v for n, v in inputs.items() if n in ("input_ids", "attention_mask")}
        if len(text) < len(inputs) and text:
            found += [{**text, "labels": labels}] if labels is not None else []
            found.append(text)
        if "decoder_input_ids" in parameters and "labels" not in inputs:
            decoder = torch.randint(5, 60, (scale.batch, 7))
            found += [{**f, "decoder_input_ids": decoder} for f in found[-4:] if "labels" not in f]
    return found + _as_rows(model, scale, parameters)


def _as_rows(model: Any, scale: Scale, parameters: Any) -> list[dict[str, Tensor]]:
    """Images as rows of patches for a tower that takes their grid alone, each flat or not."""
    if "grid_thw" not in parameters or "pixel_values" not in parameters:
        return []
    config, found = model.config, []
    torch.manual_seed(11)
    rows = _gridded(config, scale)["pixel_values"]
    others = {"grid_thw": torch.tensor([[1, 4, 4]] * scale.batch)}
    if "merge_sizes" in parameters:
        others["merge_sizes"] = torch.tensor([2] * scale.batch)
    side = _side(_find(config, "patch_size", default=8))
    for shape in ((len(rows), -1), (len(rows), -1, side, side)):
        found.append({"pixel_values": rows.reshape(shape), **others})
    return found


def _particular(
    config: Any, scale: Scale, architecture: str, inputs: dict[str, Tensor], labels: Tensor | None
) -> list[dict[str, Tensor]]:
    """What is known to be wanted of this one, with its labels, and without."""
    if architecture not in INPUTS:
        return []
    found = []
    if labels is not None:
        full = {**inputs, "labels": labels}
        found.append({**full, **INPUTS[architecture](config, scale, full)})
    found.append({**inputs, **INPUTS[architecture](config, scale, inputs)})
    return [{n: v for n, v in inputs.items() if v is not None} for inputs in found]


def _value(name: str, config: Any, scale: Scale, level: int, parameters: Any) -> Tensor | None:
    if name == "input_ids":
        if "pixel_values" in parameters and _find(config, "image_token_id", "image_token_index"):
            return _with_images(config, scale)
        return _ids(config, scale)
    if name == "attention_mask" and "input_ids" in parameters:
        return torch.ones(scale.batch, scale.length, dtype=torch.long)
    if name in ("pixel_values", "pixel_values_images"):
        from_frames = _find(config, "num_frames", "frames_per_clip") is not None
        return _frames(config, scale, level) if from_frames else _pixels(config, scale, level)
    if name in ("pixel_values_videos", "video"):
        return _frames(config, scale, level)
    if name in ("input_features", "input_audio_features"):
        return _features(config, scale, name, level)
    if name == "input_values":
        bins = _find(config, "num_mel_bins", "max_length", default=None)
        if bins and level == 0 and _find(config, "conv_stride") is None:
            return torch.randn(
                scale.batch, int(_find(config, "max_length", default=FRAMES)), int(bins)
            )
        channels = _find(config, "audio_channels", default=1)
        shape = (
            (scale.batch, AUDIO_SAMPLES) if level < 2 else (scale.batch, channels, AUDIO_SAMPLES)
        )
        return torch.randn(shape)
    if name == "bbox":
        return _boxes(scale)
    if name == "qformer_input_ids":
        return _ids(config, scale)
    if name == "input_features_mask":
        return torch.ones(scale.batch, FRAMES, dtype=torch.long)
    if "grid_thw" in parameters and name == next(iter(parameters)):
        return _gridded(config, scale)["pixel_values"]
    if name == "grid_thw":
        return torch.tensor([[1, 4, 4]] * scale.batch)
    return None


def _gridded(config: Any, scale: Scale) -> dict[str, Tensor]:
    """Images as rows of patches, which the Qwen family takes, and their sizes in patches."""
    vision = getattr(config, "vision_config", None) or config
    patch = _side(_find(vision, "patch_size", default=8))
    channels = _find(vision, "in_channels", "in_chans", "num_channels", default=3)
    times = _find(vision, "temporal_patch_size", "patch_temporal", default=1)
    merged = _find(vision, "spatial_merge_size", default=2)
    rows = scale.batch * 16
    ids = _ids(config, scale)
    token = _find(config, "image_token_id", "image_token_index", default=5)
    places = torch.full((scale.batch, 16 // merged**2), int(token))
    ids = torch.cat([ids[:, :4], places, ids[:, 4:]], 1)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == token).int(),
        "pixel_values": torch.randn(rows, channels * times * patch**2),
        "image_grid_thw": torch.tensor([[1, 4, 4]] * scale.batch),
    }


def _with_images(config: Any, scale: Scale) -> Tensor:
    """Text with as many places for an image as a vision tower of patches gives."""
    ids = _ids(config, scale)
    token = _find(config, "image_token_id", "image_token_index")
    vision = getattr(config, "vision_config", None) or config
    patch = _find(vision, "patch_size", default=8)
    side = _side(_find(vision, "image_size", default=32)) // _side(patch)
    merged = _find(config, "spatial_merge_size", "scale_factor", "pixel_shuffle_factor", default=1)
    merged = merged if isinstance(merged, int) else 1
    count = _find(config, "image_seq_length", "mm_tokens_per_image", "num_image_tokens",
                  "image_seq_len")  # fmt: skip
    count = count if isinstance(count, int) and count < 100 else max(1, (side // merged) ** 2)
    places = torch.full((scale.batch, count), int(token))
    return torch.cat([ids[:, :4], places, ids[:, 4:]], 1)
