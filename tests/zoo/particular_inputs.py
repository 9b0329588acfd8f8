# SPDX-License-Identifier: Apache-2.0
"""Inputs that the names of forward's parameters do not tell: architectures by what they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .small_config import Scale

Inputs = dict[str, Tensor | None]


def ids(scale: Scale, *more: int, most: int = 60) -> Tensor:
    return torch.randint(5, most, (scale.batch, scale.length, *more))


def _pairs(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    """Two images of the same, of which keypoints are matched."""
    return {"pixel_values": torch.randn(scale.batch, 2, 3, 64, 64)}


def _codebooks(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    """The tokens of each codebook as another entry of the batch."""
    rows = scale.batch * config.num_codebooks
    return {"input_ids": torch.randint(5, 60, (rows, scale.length))}


def _patches(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    """Images as rows of patches of any number, which a mask and a shape tell."""
    vision = getattr(config, "vision_config", None) or config
    wide = vision.num_channels * vision.patch_size**2
    return {
        "pixel_values": torch.randn(scale.batch, 16, wide),
        "pixel_attention_mask": torch.ones(scale.batch, 16, dtype=torch.long),
        "spatial_shapes": torch.tensor([[4, 4]] * scale.batch),
    }


def _with_tokens(count: int, token: int | None = None) -> Callable[..., Inputs]:
    """Text with places for what an image, a video or audio is made to."""

    def made(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
        found, number = ids(scale), config.image_token_id if token is None else token
        places = torch.full((scale.batch, count), number)
        found = torch.cat([found[:, :2], places, found[:, 2:]], 1)
        given = {"input_ids": found, "attention_mask": torch.ones_like(found)}
        if "mm_token_type_ids" in inputs:
            given["mm_token_type_ids"] = (found == number).int()
        return {**given, "labels": found.clone()} if "labels" in inputs else given

    return made


def _beside(
    made: Callable[..., Inputs], **others: Callable[[Any, Scale], Tensor]
) -> Callable[..., Inputs]:
    return lambda config, scale, inputs: {
        **made(config, scale, inputs),
        **{name: other(config, scale) for name, other in others.items()},
    }


def _without(name: str, made: Callable[..., Inputs]) -> Callable[..., Inputs]:
    """What is optional, and not there: a value of None is taken out."""
    return lambda config, scale, inputs: {**made(config, scale, inputs), name: None}


def _samples(config: Any, scale: Scale) -> Tensor:
    return torch.randn(scale.batch, 1, 3200)


def _mono(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    return {"input_values": _samples(config, scale)}


def _semantic(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    """Samples beside their features, ten of which are a second's hundredth each."""
    bins = config.semantic_model_config.feature_projection_input_dim
    return {
        "input_values": _samples(config, scale),
        "input_features": torch.randn(scale.batch, 10, bins),
        "input_features_mask": torch.ones(scale.batch, 10, dtype=torch.long),
    }


def _open_words(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    """Three names of classes for each image, and a task."""
    classes, tasks = torch.randint(5, 60, (3 * scale.batch, 6)), ids(scale)
    return {
        "classes_input_ids": classes,
        "classes_attention_mask": torch.ones_like(classes),
        "tasks_input_ids": tasks,
        "tasks_attention_mask": torch.ones_like(tasks),
        "classes_structure": torch.tensor([3] * scale.batch),
    }


def _tiles(made: Callable[..., Inputs], count: int = 1) -> Callable[..., Inputs]:
    """So many images for each text, of the one size."""
    return lambda config, scale, inputs: {
        **made(config, scale, inputs),
        "pixel_values": inputs["pixel_values"][:, None].repeat(1, count, 1, 1, 1),
    }


def _first(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    """A batch of one: of more the model's own shapes are wrong."""
    return {name: value[:1] for name, value in inputs.items()}


def _gemma4(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    found = _positions_of_patches(config.vision_config, scale, inputs)
    return {
        "pixel_values": found["pixel_values"],
        "image_position_ids": found["pixel_position_ids"],
        **dict.fromkeys(["pixel_values_videos", "input_features", "input_features_mask"]),
        **_with_tokens(4)(config, scale, {**inputs, "mm_token_type_ids": torch.ones(1)}),
    }


def _idefics(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    return {
        "pixel_values": inputs["pixel_values"][:, None],
        "image_attention_mask": torch.ones(scale.batch, scale.length, 1, dtype=torch.long),
    }


def _kosmos(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    places = torch.zeros(scale.batch, scale.length, dtype=torch.long)
    places[:, 1 : 1 + config.latent_query_num] = 1
    return {"image_embeds_position_mask": places}


def _lxmert(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    return {
        "visual_feats": torch.randn(scale.batch, 8, config.visual_feat_dim),
        "visual_pos": torch.rand(scale.batch, 8, config.visual_pos_dim),
    }


def _decisions(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    shape = (scale.batch, scale.length)
    return {
        "states": torch.randn(*shape, config.state_dim),
        "actions": torch.randn(*shape, config.act_dim),
        "rewards": torch.randn(*shape, 1),
        "returns_to_go": torch.randn(*shape, 1),
        "timesteps": torch.arange(scale.length).repeat(scale.batch, 1),
        "attention_mask": torch.ones(shape, dtype=torch.long),
    }


def _dia(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    channels = config.decoder_config.num_channels
    return {"decoder_input_ids": torch.randint(5, 60, (scale.batch, 7, channels))}


def _speech(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    """Text, how long each token is said, and what is said, which training wants."""
    model = getattr(config, "model_config", config)
    durations = torch.full((scale.batch, scale.length), 2)
    frames = 2 * scale.length
    return {
        "duration_labels": durations,
        "spectrogram_labels": torch.randn(scale.batch, frames, model.num_mel_bins),
        "pitch_labels": torch.randn(scale.batch, scale.length, 1),
        "energy_labels": torch.randn(scale.batch, scale.length, 1),
    }


def _audio_mel(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    return {
        "audio_mel": torch.randn(scale.batch, 64, config.input_feat_size),
        "audio_mel_mask": torch.zeros(scale.batch, 64, dtype=torch.bool),
    }


def _frames_of_codes(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    """Audio as a code of each codebook for each frame, of which a second model says the later."""
    codes = ids(scale, config.num_codebooks)
    labels = {"labels": codes.clone()} if "labels" in inputs else {}
    return {"input_ids": codes, "input_values": None, **labels}


def _frames(bins: int) -> Callable[[Any, Scale, Inputs], Inputs]:
    def made(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
        return {
            "input_features": torch.randn(scale.batch, 64, bins),
            "attention_mask": torch.ones(scale.batch, 64, dtype=torch.bool),
        }

    return made


def _stacked_frames(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    """Four frames of features as one."""
    encoder = getattr(config, "encoder_config", config)
    return {"input_features": torch.randn(scale.batch, 32, 4 * encoder.num_mel_bins)}


def _positions_of_patches(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    side = 6
    places = torch.cartesian_prod(torch.arange(side), torch.arange(side))
    return {
        "pixel_values": torch.rand(scale.batch, side**2, 3 * config.patch_size**2),
        "pixel_position_ids": places.repeat(scale.batch, 1, 1),
    }


def _masked_prompts(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    """An image beside a prompt, which shows an image and its mask."""
    height, width = config.image_size
    shape = (scale.batch, config.num_channels, height // 2, width)
    return {name: torch.randn(shape) for name in
            ("pixel_values", "prompt_pixel_values", "prompt_masks")}  # fmt: skip


def _robot(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    text = _with_tokens(16, config.vlm_config.image_token_id)(config, scale, inputs)
    return {
        **text,
        "state": torch.randn(scale.batch, config.max_state_dim),
        "noise": torch.randn(scale.batch, config.chunk_size, config.max_action_dim),
        "timestep": torch.rand(scale.batch),
        "actions": torch.randn(scale.batch, config.chunk_size, config.max_action_dim),
        "pixel_values": inputs["pixel_values"][:, None],
        "pixel_attention_mask": torch.ones(scale.batch, 1, dtype=torch.bool),
    }


def _queries(config: Any, scale: Scale, inputs: Inputs) -> Inputs:
    wide = config.encoder_hidden_size
    return {
        "query_embeds": torch.randn(scale.batch, 8, config.hidden_size),
        "encoder_hidden_states": torch.randn(scale.batch, 16, wide),
    }


# What is taken beside, or instead of, what the parameters' names tell.
INPUTS: dict[str, Callable[[Any, Scale, Inputs], Inputs]] = {
    "lightglue": _pairs,
    "efficientloftr": _pairs,
    "musicgen": _codebooks,
    "musicgen_melody": _codebooks,
    "siglip2": _patches,
    "siglip2_vision_model": _patches,
    "idefics": _idefics,
    "kosmos-2": _kosmos,
    "lxmert": _lxmert,
    "decision_transformer": _decisions,
    "dia": _dia,
    "fastspeech2_conformer": _speech,
    "fastspeech2_conformer_with_hifigan": _speech,
    "gemma3n_audio": _audio_mel,
    "gemma4_audio": _frames(128),
    "gemma4_vision": _positions_of_patches,
    "seggpt": _masked_prompts,
    "blip_2_qformer": _queries,
    "chameleon": _with_tokens(16, 251),
    "emu3": _beside(
        _with_tokens(72, 300),
        image_sizes=lambda config, scale: torch.tensor([[64, 64]] * scale.batch),
    ),
    # Of two images of each the second is to be made.
    "glm_image": _beside(
        _with_tokens(16),
        image_grid_thw=lambda config, scale: torch.tensor([[1, 4, 4]] * 2 * scale.batch),
        images_per_sample=lambda config, scale: torch.tensor([2] * scale.batch),
    ),
    "gemma4": _gemma4,
    "deepseek_ocr2": _with_tokens(145),
    "hunyuan_vl": _with_tokens(8),
    "florence2": _with_tokens(5),
    "fast_vlm": _with_tokens(1),
    "pi0": _robot,
    "tvp": _first,
    "xcodec": _mono,
    "vibevoice_acoustic_tokenizer": _mono,
    "pe_audio_video": _mono,
    "pe_audio_video_encoder": _mono,
    "neucodec": _semantic,
    "xcodec2": _semantic,
    "vibevoice_acoustic_tokenizer_encoder": lambda config, scale, inputs: {
        "hidden_states": _samples(config, scale)
    },
    "vibevoice_acoustic_tokenizer_decoder": lambda config, scale, inputs: {
        "hidden_states": torch.randn(scale.batch, config.hidden_size, 4)
    },
    "voxtral_realtime": lambda config, scale, inputs: {
        "input_features": torch.randn(scale.batch, inputs["input_features"].shape[1], 128)
    },
    # How late what is heard is said.
    "voxtral_realtime_text": lambda config, scale, inputs: {
        "t_cond": torch.randn(1, 1, config.hidden_size)
    },
    "qwen3_asr_encoder": lambda config, scale, inputs: {
        "input_features": torch.randn(scale.batch, config.num_mel_bins, 2 * config.n_window),
        "input_features_mask": torch.ones(scale.batch, 2 * config.n_window, dtype=torch.long),
    },
    "granite_speech5_encoder": _stacked_frames,
    "granite_speech5_ctc": _stacked_frames,
    "fun_asr_nano_encoder": lambda config, scale, inputs: {
        "input_features": torch.randn(scale.batch, 20, 560),
        "input_features_mask": torch.ones(scale.batch, 20, dtype=torch.long),
    },
    # A token of which the answer is read.
    "splinter": _with_tokens(1, 104),
    "step3p7": _with_tokens(1),
    "omdet-turbo": _open_words,
    "perception_lm": _without("pixel_values_videos", _tiles(_with_tokens(16))),
    "gemma3n": _without("input_features", _without("input_features_mask", _with_tokens(256))),
    "granite4_vision": _beside(
        _tiles(_with_tokens(10), 2),
        image_sizes=lambda config, scale: torch.tensor([[32, 32]] * scale.batch),
    ),
    "kyutai_speech_to_text": lambda config, scale, inputs: {
        "input_ids": ids(scale, config.num_codebooks + 1)
    },
    "csm": _frames_of_codes,
    "clap": lambda config, scale, inputs: {
        "input_features": torch.randn(scale.batch, 1, 100, config.audio_config.num_mel_bins)
    },
    "univnet": lambda config, scale, inputs: {
        "input_features": torch.randn(scale.batch, 20, config.num_mel_bins),
        "noise_sequence": torch.randn(scale.batch, 20, config.model_in_channels),
    },
    "vit_mae": lambda config, scale, inputs: {"noise": torch.rand(scale.batch, 16)},
    "depth_pro": lambda config, scale, inputs: {
        "pixel_values": torch.randn(scale.batch, 3, 128, 128)
    },
    "oneformer": lambda config, scale, inputs: {
        "task_inputs": torch.randint(5, 60, (scale.batch, config.task_seq_len))
    },
    "muse_glimmer_assistant": lambda config, scale, inputs: {
        "noise_embeds": torch.randn(scale.batch, 4, config.hidden_size),
        "context_hidden_states": torch.randn(
            scale.batch, scale.length, len(config.target_layer_ids) * config.hidden_size
        ),
    },
    "instructblipvideo": lambda config, scale, inputs: {
        "pixel_values": inputs["pixel_values"][:, None],
        **_with_tokens(16, 300)(config, scale, inputs),
    },
}
