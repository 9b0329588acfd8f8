# SPDX-License-Identifier: Apache-2.0
"""What the general rules of small_config.py cannot know: architectures by what they want besides.

A value may be a function of the configuration that holds it. A comment says why, for those that
follow it.
"""

from __future__ import annotations

import copy
from typing import Any

# Halves an image from each stage to the next, which the default does to its height alone.
_LCNET = {
    "model_type": "pp_lcnet_v4",
    "stem_channels": [3, 8, 16],
    "block_configs": [
        [[3, 16, 16, 1, False]],
        [[3, 16, 32, 2, False]],
        [[3, 32, 32, 2, True]],
        [[3, 32, 64, 2, False]],
    ],
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}

# What a class of configurations is made with: it derives others from it.
GIVEN: dict[str, dict[str, Any]] = {
    # The default is None, or there is none, and the model wants a kind for each layer.
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "pp_ocrv6_small_det": {"backbone_config": _LCNET},
    "pp_ocrv6_medium_det": {"backbone_config": _LCNET},
    # None by default, which the checkpoint's file says.
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    # By default a model of text alone.
    "gemma4": {"vision_config": {"model_type": "gemma4_vision"}},
    # Rather than one of timm, which cannot be made small.
    "omdet-turbo": {"backbone_config": {"model_type": "swin", "out_indices": [2, 3, 4]}},
    "timm_backbone": {"backbone": "resnet10t", "use_pretrained_backbone": False},
}


def _head_dim(config: Any) -> int:
    return config.hidden_size // config.num_attention_heads


def _inner(config: Any) -> int:
    return config.expand * config.hidden_size


_MIMI = {
    # Convolutions in groups of which the width must be a multiple.
    "upsample_groups": lambda c: c.hidden_size,
    "codebook_dim": lambda c: c.hidden_size,
    "vector_quantization_hidden_dimension": lambda c: c.hidden_size,
    "num_filters": 8,
    "num_quantizers": 4,
}


def _within(name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}.{key}": value for key, value in values.items()}


# Stages whose widths double, with heads that divide them.
_SWIN = {"embed_dim": 16, "depths": [1, 1, 1, 1], "num_heads": [2, 2, 4, 4]}
_HIERA = {
    "hidden_size": 16,
    "embed_dim_per_stage": [16, 32, 64, 128],
    "num_attention_heads_per_stage": [1, 2, 4, 4],
    "blocks_per_stage": [1, 1, 2, 1],
    "global_attention_blocks": [3],
    "image_size": [64, 64],
}
_PYRAMID = {"fpn_hidden_size": 64, "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]}
_SAM2 = {
    **_within("vision_config.backbone_config", _HIERA),
    **_within("vision_config", {**_PYRAMID, "backbone_channel_list": [128, 64, 32, 16]}),
    **_within("prompt_encoder_config", {"image_size": 64, "patch_size": 16}),
}
_SAM3 = _within("vision_config", _PYRAMID)
_SAM = {
    "vision_config.output_channels": lambda c: c.hidden_size,
    "vision_config.num_pos_feats": lambda c: c.hidden_size // 2,
    "prompt_encoder_config.image_embedding_size": lambda c: c.image_size // c.patch_size,
}
# timm's, whose channels the default names already; without a name it is resnet50.
_REPVIT = {"backbone_config.architecture": "repvit_m1", **_PYRAMID}
_EDGETAM = {
    **_within("vision_config", _REPVIT),
    **_within("prompt_encoder_config", {"image_size": 64, "patch_size": 16}),
}
_RT_DETR = {"decoder_in_channels": lambda c: [c.d_model] * 3}
_TOKENIZER = {
    "num_filters": 4,
    "depths": [1] * 7,
    "hidden_size": 16,
    "vae_std": 0.0,  # noise, which makes two runs differ
    "layer_scale_init_value": 1.0,  # or what the layers do is not seen
}
_VIT_OF_TIMM = {
    "architecture": "vit_pe_core_large_patch14_336",
    "model_args": {
        "embed_dim": 64, "depth": 2, "num_heads": 4, "img_size": 64, "patch_size": 16,
    },
}  # fmt: skip
_SEMANTIC = {"encoder_hidden_size": 8, "quantization_dim": 128}


def _intraclass() -> dict[str, Any]:
    """Kernel, stride and padding of a block's convolutions: long ones of each direction."""
    found: dict[str, Any] = {"reduce_channel": [1, 1, 0], "return_channel": [1, 1, 0]}
    for size, ratio in ((7, "long"), (5, "mid"), (3, "short")):
        half = size // 2
        found |= {
            f"vertical_long_to_small_conv_{ratio}ratio": [(size, 1), 1, (half, 0)],
            f"horizontal_small_to_long_conv_{ratio}ratio": [(1, size), 1, (0, half)],
            f"symmetric_conv_long_{ratio}ratio": [size, 1, half],
        }
    return found


_COMPASS = {
    "rope_parameters": lambda c: {
        kind: {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
        for kind in c.layer_types
    }
}
_QSA = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 16,
    "indexer_budget": 8,
    "indexer_compress_ratio": 4,
    "hc_lowrank": 8,
}

# What is set after all has been made small; a path leads into configurations that one holds.
CHANGED: dict[str, dict[str, Any]] = {
    # head_dim is None, and the model does not derive it.
    "ministral": {"head_dim": _head_dim},
    "hunyuan_v1_dense": {"head_dim": _head_dim},
    "hunyuan_v1_moe": {"head_dim": _head_dim},
    "hunyuan_vl_text": {"head_dim": _head_dim},
    "hunyuan_vl": {"text_config.head_dim": _head_dim},
    # So are the heads of keys, or there are none.
    "nemotron": {"num_key_value_heads": lambda c: c.num_attention_heads},
    "moonshine_streaming": {"num_key_value_heads": lambda c: c.num_attention_heads},
    # What the model needs is None, or not there.
    "deepseek_v2": {"num_experts_per_tok": 2},
    "deepseek_ocr2": {
        "text_config.num_experts_per_tok": 2,
        "text_config.mlp_layer_types": ["dense", "sparse"],
        "vision_config.sam_config.downsample_channels": [64, 64],
    },
    "esm": {"pad_token_id": 1},
    "udop": {"decoder_start_token_id": 0},
    "dbrx": {"attn_config.rope_theta": 10000.0, "attn_config.clip_qkv": 8.0},
    "t5gemma2_encoder": {
        "text_config.dropout_rate": 0.0,
        "vision_config.dropout_rate": 0.0,
        "mm_tokens_per_image": 16,
    },
    "qwen4_exp_text": _QSA,
    "qwen4_exp": _within("text_config", _QSA),
    "blip-2": {"image_token_index": 300, "num_query_tokens": 16},
    "instructblip": {"image_token_index": 300, "num_query_tokens": 16},
    "instructblipvideo": {"video_token_index": 300, "num_query_tokens": 16},
    "granite4_vision": {
        "deepstack_layer_map": [(0, 0), (1, 1)],
        "downsample_rate": "1/2",
        "image_grid_pinpoints": [[32, 32]],
        "qformer_config.hidden_size": 64,
        "qformer_config.encoder_hidden_size": 64,
        "qformer_config.num_attention_heads": 4,
    },
    "sapiens2": {
        "head_config.upsample_out_channels": [16, 16],
        "head_config.upsample_kernel_sizes": [4, 4],
        "head_config.conv_out_channels": [16],
        "head_config.conv_kernel_sizes": [1],
        "pos_embed_rescale": None,  # which in training is drawn
        "num_key_value_heads_per_layer": lambda c: [c.num_attention_heads] * c.num_hidden_layers,
    },
    "diffusion_gemma": _within(
        "text_config", {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 96}
    ),
    "step3p7": {"text_config.sliding_window": 8},
    "cohere_compass": _within("text_config", _COMPASS),
    "cohere_compass_text": _COMPASS,
    # Heads times their width make the inner width, and groups divide the heads.
    "mamba2": {"head_dim": lambda c: _inner(c) // c.num_heads, "n_groups": 2, "chunk_size": 8},
    "falcon_h1": {
        "mamba_d_ssm": lambda c: c.mamba_expand * c.hidden_size,
        "mamba_d_head": lambda c: c.mamba_d_ssm // c.mamba_n_heads,
    },
    "nemotron_h": {"n_groups": 2, "ssm_state_size": 16, "chunk_size": 8},
    # Attention sees the embeddings beside the hidden states, which is twice the width.
    "zamba2": {
        "mamba_headdim": lambda c: c.mamba_expand * c.hidden_size // c.n_mamba_heads,
        "attention_hidden_size": lambda c: 2 * c.hidden_size,
        "attention_head_dim": lambda c: 2 * c.hidden_size // c.num_attention_heads,
        "chunk_size": 8,
        "adapter_rank": 8,
        "hybrid_layer_ids": [1],
    },
    # The first of the hybrid layers lends its weights to the others: there must be another.
    "zamba": {
        "num_hidden_layers": 3,
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
        "attention_hidden_size": lambda c: 2 * c.hidden_size,
        "attention_head_dim": lambda c: 2 * c.hidden_size // c.num_attention_heads,
        "mamba_dt_rank": 4,
    },
    "kimi_linear": {"num_experts_per_token": 2, "linear_head_dim": 16, "linear_num_heads": 4},
    "xlstm": {"embedding_dim": lambda c: c.hidden_size, "num_blocks": 2},
    # As many layers share the keys of earlier ones as by default there are.
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "ernie4_5_vl_moe": {"text_config.rope_parameters": lambda c: _equal_sections(c)},
    "mimi": _MIMI,
    "csm": {
        **_within("codec_config", _MIMI),
        "text_vocab_size": 320,
        "num_codebooks": 4,
        "depth_decoder_config.num_codebooks": 4,
        "depth_decoder_config.backbone_hidden_size": 64,
    },
    "kyutai_speech_to_text": {**_within("codec_config", _MIMI), "num_codebooks": 4},
    # Tokens of images have names, of which the vocabulary of the default has none.
    "emu3": {
        "vocabulary_map": {
            "<image>": 300,
            "<|extra_200|>": 301,
            **{f"<|visual token {n:06d}|>": 10 + n for n in range(64)},
        },
        "vq_config.base_channels": 32,
        "vq_config.hidden_size": 128,
    },
    "chameleon": {
        "vocabulary_map": {
            "<image>": 251,  # those of images lie beyond text's: the model never says them
            **{f"IMGIMG{chr(65 + n // 10)}{chr(65 + n % 10)}Z": 252 + n for n in range(64)},
        },
        "vq_config.num_embeddings": 64,
        "vq_config.base_channels": 32,
    },
    # Vocabularies beside that of text.
    "luke": {"entity_vocab_size": 50},
    "blt": {
        "encoder_hash_byte_group_vocab": 500,
        "encoder_config.hidden_size_global": 64,
        "decoder_config.hidden_size_global": 64,
        "cross_attn_k": 1,
        "encoder_config.cross_attn_k": 1,
        "decoder_config.cross_attn_k": 1,
        "global_config.encoder_cross_output_size": None,
    },
    "clvp": {
        "speech_config.vocab_size": 320,
        # A head is rotated by 32 at least.
        **{f"{part}_config.hidden_size": 128 for part in ("speech", "text", "decoder")},
    },
    "vits": {
        "noise_scale": 0.0,
        "noise_scale_duration": 0.0,
        "upsample_initial_channel": 32,
    },
    # Widths and depths by a factor, which no attribute names.
    "efficientnet": {"width_coefficient": 0.5, "depth_coefficient": 0.2, "hidden_dim": 640},
    "align": {
        **_within("vision_config", {"width_coefficient": 0.5, "depth_coefficient": 0.2}),
        "projection_dim": 160,
    },
    "glm_image": {
        "vq_config.latent_channels": lambda c: c.embed_dim,
        "vq_config.num_embeddings": 64,
    },
    "florence2": {
        **_within(
            "vision_config",
            {
                "embed_dim": [16, 32, 64, 128],
                "num_heads": [2, 2, 4, 4],
                "num_groups": [2, 2, 4, 4],
                "depths": [1, 1, 1, 1],
                "window_size": 4,
                "projection_dim": 64,
            },
        ),
    },
    "janus": {
        "vq_config.base_channels": 32,
        "vq_config.num_embeddings": 64,
        "vq_config.latent_channels": 32,
        "vq_config.image_token_embed_dim": 64,
        "vision_config.num_image_tokens": 16,
        "vision_config.projection_dim": 64,
        "vq_config.projection_dim": 64,
    },
    "perceiver": {
        "d_latents": 64,
        "num_latents": 16,
        "num_self_attends_per_block": 2,
    },
    "vibevoice_acoustic_tokenizer": _TOKENIZER,
    "vibevoice_acoustic_tokenizer_encoder": _TOKENIZER,
    "vibevoice_acoustic_tokenizer_decoder": _TOKENIZER,
    "vibevoice_asr": {
        **_within("acoustic_tokenizer_encoder_config", _TOKENIZER),
        **_within("semantic_tokenizer_encoder_config", _TOKENIZER),
    },
    "vibevoice": {
        **_within("audio_config", _TOKENIZER),
        **_within("semantic_model_config", _TOKENIZER),
    },
    "neucodec": _SEMANTIC,
    "xcodec2": _SEMANTIC,
    # Models of timm inside, whose size its own arguments say.
    "perception_lm": _within("vision_config", _VIT_OF_TIMM),
    "pe_video_encoder": _within("vision_config", _VIT_OF_TIMM),
    "fast_vlm": {
        "vision_config.model_args": {
            "layers": (1, 1, 1, 1, 1),
            "embed_dims": (16, 32, 64, 128, 256),
        },
        "vision_config.hidden_size": 512,
    },
    "gemma3n": {
        "text_config.num_kv_shared_layers": 0,
        "vision_config.model_args": {"channel_multiplier": 0.125},
        "vision_config.hidden_size": 2048,
    },
    "pe_video": _within("video_config.vision_config", _VIT_OF_TIMM),
    "pe_audio_video": _within("audio_video_config.video_config.vision_config", _VIT_OF_TIMM),
    "pe_audio_video_encoder": _within("video_config.vision_config", _VIT_OF_TIMM),
    # Widths of one part that another takes.
    "sam": _SAM,
    "sam_hq": {**_SAM, "mask_decoder_config.vit_dim": 64},
    "sam2": _SAM2,
    "sam2_video": _SAM2,
    "sam3": _SAM3,
    "sam3_lite_text": _SAM3,
    "sam3_tracker": _SAM3,
    "sam3_video": _SAM3,
    "edgetam": _EDGETAM,
    "edgetam_video": _EDGETAM,
    "edgetam_vision_model": _REPVIT,
    "grounding-dino": _within("backbone_config", _SWIN),
    "mm-grounding-dino": _within("backbone_config", _SWIN),
    "maskformer": _within("backbone_config", _SWIN),
    "mask2former": {**_within("backbone_config", _SWIN), "feature_size": 64},
    "oneformer": {
        **_within("backbone_config", _SWIN),
        "conv_dim": 64,
        "mask_dim": 64,
        "text_encoder_width": 64,
        "text_encoder_vocab_size": 320,
        "text_encoder_num_layers": 2,
    },
    "rt_detr": _RT_DETR,
    "rt_detr_v2": _RT_DETR,
    "lw_detr": {
        "backbone_config.num_hidden_layers": 10,
        "projector_scale_factors": [1.0],
        "projector_in_channels": [64],
        "projector_out_channels": 64,
        "num_feature_levels": 1,
        "decoder_cross_attention_heads": 4,
        "decoder_self_attention_heads": 4,
    },
    "rf_detr": {
        "backbone_config.num_hidden_layers": 12,
        "decoder_cross_attention_heads": 4,
        "decoder_self_attention_heads": 4,
    },
    "clap": {
        "audio_config.patch_embeds_hidden_size": 16,
        "audio_config.hidden_size": 128,
        "audio_config.num_attention_heads": [2, 2, 4, 4],
        "audio_config.depths": [1, 1, 1, 1],
    },
    "dia": {
        "decoder_config.cross_hidden_size": 64,
        "decoder_config.cross_head_dim": 16,
        "decoder_config.cross_num_attention_heads": 4,
        "decoder_config.cross_num_key_value_heads": 4,
    },
    "depth_pro": {
        "patch_size": 32,
        "intermediate_hook_ids": [1, 0],
        "intermediate_feature_dims": [64, 64],
        "scaled_images_feature_dims": [64, 64, 64],
    },
    "vision-text-dual-encoder": {"vision_config.pooler_output_size": 64},
    "xclip": {"vision_config.mit_hidden_size": 32, "vision_config.mit_intermediate_size": 64},
    "tvp": {"max_img_size": 64, "visual_prompt_size": 8},
    "kosmos-2": {"latent_query_num": 4},
    "uvdoc": {"backbone_config.out_features": [f"stage{n}" for n in range(1, 7)]},
    "seggpt": {"image_size": [64, 32]},
    "xcodec": {"codebook_dim": 128},
    "granite_speech5_encoder": {"context_size": 16},
    "granite_speech5_ctc": {"encoder_config.context_size": 16},
    "pi0": {"vlm_config.projection_dim": 64, "vlm_config.vision_config.projection_dim": 64},
    # It runs once: what it keeps of a call's text is differentiated again after the next.
    "omdet-turbo": {
        "encoder_in_channels": [32, 64, 128],
        "vision_features_channels": [64, 64, 64],
        "decoder_hidden_dim": 64,
        # Another width than the decoder's, or the model lacks a part.
        "text_config.hidden_size": 32,
        "text_projection_in_dim": 32,
        "text_projection_out_dim": 32,
        "class_embed_dim": 32,
        "apply_layernorm_after_vision_backbone": False,  # of timm's order of dimensions
        **_within("backbone_config", {**_SWIN, "image_size": 64}),
    },
    "pp_ocrv6_small_det": {"layer_list_out_channels": [16, 32, 32, 64]},
    "pp_ocrv6_medium_det": {
        "intraclass_block_config": _intraclass(),
        "kernel_list": [3, 2, 2],
        "scale_factor_list": [1, 2, 4, 8],
    },
    "siglip2": {"vision_config.num_patches": 16},
    "siglip2_vision_model": {"num_patches": 16},
}


def _equal_sections(config: Any) -> dict[str, Any]:
    """Its sections of height and width are interleaved, and so of one size."""
    half = config.hidden_size // config.num_attention_heads // 2
    part = half // 3
    return {**config.rope_parameters, "mrope_section": [part, part, half - 2 * part]}


def given(architecture: str) -> dict[str, Any]:
    return copy.deepcopy(GIVEN.get(architecture, {}))


def change(config: Any, architecture: str) -> None:
    """Sets what CHANGED says of an architecture."""
    for path, value in CHANGED.get(architecture, {}).items():
        *parents, name = path.split(".")
        holder = config
        for parent in parents:
            holder = getattr(holder, parent)
        setattr(holder, name, value(holder) if callable(value) else copy.deepcopy(value))
