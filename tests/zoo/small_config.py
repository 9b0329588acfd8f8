# SPDX-License-Identifier: Apache-2.0
"""Makes the configuration of any model of transformers small.

Starts from the defaults, which are consistent, and sets what it knows by name, in the
configurations that one holds too; what is derived by ratio (lists of widths, rotary sections) keeps
its form.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scale:
    """How large a model and its batch are made; what is smaller by default stays so."""

    layers: int = 2
    heads: int = 4
    width: int = 64
    feed_forward: int = 96
    vocabulary: int = 320
    positions: int = 64
    image: int = 32
    patch: int = 8
    batch: int = 2
    length: int = 16  # tokens
    most_parameters: int = 30_000_000

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


SMALL = Scale()

# Attributes that say the same.
_LAYERS = """num_hidden_layers n_layer num_layers n_layers encoder_layers decoder_layers depth
    num_decoder_layers num_encoder_layers e_layers d_layers num_transformer_layers
    predictor_num_hidden_layers mask_decoder_num_hidden_layers num_adapter_layers"""
_HEADS = """num_attention_heads n_head num_heads n_heads encoder_attention_heads
    decoder_attention_heads attention_heads decoder_num_attention_heads encoder_num_attention_heads
    num_encoder_attention_heads num_decoder_attention_heads num_key_value_attention_heads"""
_WIDTH = """hidden_size d_model n_embd embed_dim hidden_dim dim decoder_hidden_size model_dim
    encoder_hidden_dim fusion_hidden_size output_hidden_size cross_attention_hidden_size
    embedding_size encoder_hidden_size out_hidden_size word_embed_proj_dim query_hidden_size
    output_dim text_hidden_size vision_hidden_size projector_hidden_size emb_dim lru_width
    attention_hidden_size mask_feature_size feature_size_out kv_dim decoder_dim"""
_FEED_FORWARD = """intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff n_inner
    moe_intermediate_size dim_feedforward shared_expert_intermediate_size d_inner_ff
    intermediate_size_mlp expert_ffn_hidden_size ffn_hidden_size encoder_feedforward_dim
    decoder_intermediate_size encoder_intermediate_size mlp_dim shared_intermediate_size
    block_ff_dim moe_shared_expert_intermediate_size feed_forward_dim"""


def _values(scale: Scale) -> dict[str, Any]:
    """Attributes by their new value."""
    head_dim, times = scale.head_dim, scale.width // SMALL.width
    return {
        **dict.fromkeys(_LAYERS.split(), scale.layers),
        **dict.fromkeys(_HEADS.split(), scale.heads),
        **dict.fromkeys(_WIDTH.split(), scale.width),
        **dict.fromkeys(_FEED_FORWARD.split(), scale.feed_forward),
        "head_dim": head_dim,
        "d_kv": head_dim,
        "attention_head_dim": head_dim,
        "kv_channels": head_dim,
        "v_head_dim": head_dim,
        "qk_nope_head_dim": head_dim // 2,
        "qk_rope_head_dim": head_dim // 2,
        "qk_head_dim": head_dim,
        "global_head_dim": head_dim,
        "kv_lora_rank": 16 * times,
        "q_lora_rank": 24 * times,
        "linear_key_head_dim": head_dim,
        "linear_value_head_dim": head_dim,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "index_head_dim": head_dim,
        "vocab_size": scale.vocabulary,
        "vocab_size_per_layer_input": scale.vocabulary,
        "projection_dim": 32 * times,
        "num_experts": 4,
        "num_local_experts": 4,
        "n_routed_experts": 4,
        "moe_num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_topk": 2,
        "top_k_experts": 2,
        "n_shared_experts": 1,
        "moe_k": 2,
        "rotary_dim": head_dim,
        "n_group": 1,
        "topk_group": 1,
        "num_expert_group": 1,
        "max_position_embeddings": scale.positions,
        "n_positions": scale.positions,
        "max_source_positions": scale.positions,
        "max_target_positions": scale.positions,
        "n_ctx": scale.positions,
        "max_seq_len": scale.positions,
        "context_length": 8 * scale.positions,
        "image_size": scale.image,
        "patch_size": scale.patch,
        "sliding_window": scale.positions // 8,
        "local_attention": scale.positions // 8,
        "mamba_d_state": 8,
        "state_size": 8,
        "mamba_n_heads": 4,
        "mamba_d_head": 32 * times,
        "mamba_chunk_size": scale.positions // 8,
        "mamba_headdim": 32 * times,
        "mamba_num_heads": 4,
        "mamba_head_dim": 32 * times,
        "mamba_n_groups": 1,
        "num_queries": 10,
        "num_labels": 3,
        "first_k_dense_replace": 1,
        "hidden_size_per_layer_input": 8 * times,
        "time_step_rank": 4 * times,
        "num_mtp_layers": 0,
        "num_nextn_predict_layers": 0,
        "use_cache": False,
        "hc_mult": 2,
        "codebook_size": 64,
        "conv_dim_size": 32 * times,
        "block_size": 8,
        "attention_chunk_size": scale.positions // 8,
        "adapter_stride": 2,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "layerdrop": 0.0,
        "mask_time_prob": 0.0,
        "mask_feature_prob": 0.0,
        "apply_spec_augment": False,
        "num_frames": 4,
    }


# Lists of widths, one a stage.
_WIDTHS = "hidden_sizes embed_dims neck_hidden_sizes encoder_hidden_sizes conv_dim".split()
# Where the default is None and the model needs a value.
_MISSING = {"prediction_length": 8, "context_length": 16}
# Attributes of which one may be defined as the other: alike before, alike after.
_ALIKE = [("head_dim", "qk_rope_head_dim"), ("head_dim", "qk_head_dim"), ("d_inner", "hidden_size")]
# What a configuration may hold in numbers that only make it slow.
_LEAST_STAGE = 16


def shrink(config: Any, level: int = 0, scale: Scale = SMALL) -> Any:
    """Makes a configuration small, in place.

    level 0: everything; 1: widths as they are; 2: layers and vocabulary alone.
    """
    _shrink(config, level, scale, set())
    return config


def _shrink(config: Any, level: int, scale: Scale, seen: set[int]) -> None:
    if id(config) in seen:
        return
    seen.add(id(config))
    for name in getattr(type(config), "sub_configs", {}):
        child = getattr(config, name, None)
        if child is not None and hasattr(child, "to_dict"):
            _shrink(child, level, scale, seen)
    before = {name: value for name, value in vars(config).items() if not name.startswith("_")}
    overrides = _overrides(config)
    layers = {before[n] for n in _LAYERS.split() if isinstance(before.get(n), int)}
    deepest, values = _deepest(config, before, scale), _values(scale)
    for name, value in {**_MISSING, "vocab_size": scale.vocabulary}.items():
        if name in before and before[name] is None:
            _set(config, name, value)
    if before.get("is_encoder_decoder") and before.get("decoder_start_token_id", 0) is None:
        _set(config, "decoder_start_token_id", 2)
    for name, value in before.items():
        new = _new(name, value, before, level, deepest, scale, values)
        if new is None and isinstance(value, list) and value and level < 3:
            new = _shorter(name, value, layers, deepest, level, scale)
        if new is not None:
            _set(config, name, new)
    for name, other in _ALIKE:
        if isinstance(before.get(name), int) and before[name] == before.get(other):
            _set(config, name, getattr(config, other))
    if "axial_pos_embds" in before:
        _set(config, "axial_pos_embds", False)
    if before.get("languages") and before.get("default_language", 0) is None:
        _set(config, "default_language", before["languages"][0])
    _tokens(config, before, scale.vocabulary)
    with contextlib.suppress(AttributeError):  # where there are no heads
        _sections(config)
    if overrides:
        _override(config, overrides, scale if level == 0 else None)


def _overrides(config: Any) -> dict[str, dict[str, Any]]:
    """What a configuration sets for single layers, by the layers' kind; it does not any more.

    Only where heads are among that: a configuration does not say any size that layers differ in.
    """
    spec = getattr(config, "_heterogeneity_spec", None)
    if spec is None or "head_dim" not in spec.per_layer_attributes:
        return {}
    found = {config.layer_types[n]: values for n, values in spec.per_layer_overrides.items()}
    config.per_layer_config = None
    return found


def _override(config: Any, overrides: dict[str, dict[str, Any]], scale: Scale | None) -> None:
    """Sets it for the layers that there are now, in a size of its own."""
    most = {"head_dim": 2 * scale.head_dim, "num_key_value_heads": 2} if scale else {}
    config.per_layer_config = {
        number: {name: min(v, most.get(name, v)) for name, v in overrides[kind].items()}
        for number, kind in enumerate(config.layer_types)
        if kind in overrides
    }


def _deepest(config: Any, before: dict[str, Any], scale: Scale) -> int:
    """Layers that must stay because their outputs are asked for."""
    asked = [scale.layers]
    for name in ("out_indices", "_out_indices", "backbone_out_indices", "vision_feature_layer",
                 "vision_feature_layers", "deepstack_visual_indexes", "fullatt_block_indexes",
                 "global_attn_indexes", "full_attn_idxs", "layers_to_extract"):  # fmt: skip
        value = before.get(name)
        if isinstance(value, (list, tuple)) and "depths" not in before and value:
            asked += [1 + max(int(v) if int(v) >= 0 else scale.layers - 1 for v in value)]
    return min(max(asked), 12)


def _new(
    name: str,
    value: Any,
    before: dict[str, Any],
    level: int,
    deepest: int,
    scale: Scale,
    values: dict[str, Any],
) -> Any:
    if isinstance(value, float) and "drop" in name:
        return 0.0
    if isinstance(value, bool) and name not in ("use_cache", "apply_spec_augment"):
        return None
    if name in _LAYERS.split() and isinstance(value, int):
        return deepest
    if name in ("num_key_value_heads", "multi_query_group_num", "num_kv_heads") and level == 0:
        heads = next((before[n] for n in _HEADS.split() if isinstance(before.get(n), int)), value)
        return None if value is None else scale.heads if value == heads else min(value, 2)
    if name not in values or value is None or isinstance(value, (list, tuple, dict)):
        return None
    if level > 0 and name not in ("vocab_size", "use_cache", "vocab_size_per_layer_input"):
        if level > 1 or not ("expert" in name or "layer" in name or "ffn" in name):
            return None
    new = values[name]
    if isinstance(value, int) and not isinstance(value, bool) and value < new:
        return None
    return new


def _shorter(
    name: str, value: list[Any], layers: set[int], deepest: int, level: int, scale: Scale
) -> Any:
    """A list: one entry a layer, of each kind the first; or sizes of stages."""
    if len(value) in layers and len(value) > deepest and not isinstance(value[0], list):
        kinds = list(dict.fromkeys(map(str, value)))
        first = [next(v for v in value if str(v) == kind) for kind in kinds]
        return (first + value)[:deepest]
    if level > 0 or not all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        return None
    if "depth" in name or name in ("layers", "num_layers", "num_blocks"):
        return [min(v, max(1, scale.layers // 2)) for v in value]
    if name in (
        "hidden_sizes",
        "embed_dims",
        "neck_hidden_sizes",
        "encoder_hidden_sizes",
        "conv_dim",
    ):
        largest = max(1, min(value) // (_LEAST_STAGE * scale.width // SMALL.width))
        return [max(8, v // largest // 8 * 8) for v in value]
    if name in ("image_size", "input_size"):
        return [scale.image] * len(value)
    return None


def _tokens(config: Any, before: dict[str, Any], vocabulary: int) -> None:
    """Ids of special tokens within the vocabulary, each its own."""
    if "vocab_size" not in before and not any(n.endswith("_token_index") for n in before):
        names = [n for n in before if n.endswith("_token_id")]
    else:
        names = [n for n in before if n.endswith(("_token_id", "_token_index", "_tok_id"))]
    number = vocabulary - 2
    for name in names:
        value = before[name]
        if isinstance(value, int) and not isinstance(value, bool) and value >= vocabulary - 60:
            _set(config, name, number)
            number -= 1
        elif isinstance(value, list) and any(v >= vocabulary - 60 for v in value):
            _set(config, name, 2)


def _sections(config: Any) -> None:
    """Parts of a rotary embedding, which add up to half of a head."""
    rope = getattr(config, "rope_parameters", None)
    if not isinstance(rope, dict):
        return
    modeling = type(config).__module__.replace("configuration_", "modeling_")
    try:
        has_sections = "mrope_section" in inspect.getsource(importlib.import_module(modeling))
    except (ImportError, OSError):
        has_sections = False
    width = getattr(config, "head_dim", None)
    width = width or config.hidden_size // config.num_attention_heads
    half = int(width * rope.get("partial_rotary_factor", 1.0)) // 2
    for part in [rope, *[v for v in rope.values() if isinstance(v, dict)]]:
        if has_sections or "mrope_section" in part:
            section = part.get("mrope_section") or [16, 24, 24]
            scaled = [max(1, s * half // sum(section)) for s in section]
            scaled[0] += half - sum(scaled)
            part["mrope_section"] = scaled


def _set(config: Any, name: str, value: Any) -> None:
    try:
        setattr(config, name, value)
    except Exception:  # derived or checked: it stays as it is
        pass
