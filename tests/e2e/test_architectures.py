# SPDX-License-Identifier: Apache-2.0
"""A dozen of the architectures of tests/models.sh, and what that tells of differences."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from long_cases import long_but

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS), str(TESTS / "tools")]

from zoo import catalogue, inputs, particular, particular_inputs, report, small_config  # noqa: E402
from zoo.check import (  # noqa: E402
    MOST_SHAKEN_RUNS,
    DifferentError,
    check,
    compare,
    compare_with_shaken,
    is_upstream,
    run_once,
    train_once,
)

# What neither test_models.py nor another of them is like, and quick.
ARCHITECTURES = """albert clip deberta fnet gpt_neox mamba modernbert nystromformer qwen2_vl
    swin videomae wav2vec2 whisper""".split()


@pytest.mark.parametrize("name", long_but(("albert", "modernbert", "whisper"), ARCHITECTURES))
def test_architecture(name: str, tensord_daemon: object) -> None:
    line = check(f"transformers/{name}")
    assert line["status"] == "right", line
    assert line["inference"]["graphs"] > 0
    assert line["training"]["graphs"] >= line["inference"]["graphs"]


def test_configurations_become_small() -> None:
    import transformers

    config = small_config.shrink(transformers.Qwen2VLConfig())
    text = config.text_config
    assert text.num_hidden_layers == small_config.SMALL.layers
    assert text.vocab_size == small_config.SMALL.vocabulary
    assert config.image_token_id < small_config.SMALL.vocabulary
    assert config.image_token_id != config.video_token_id
    assert sum(text.rope_parameters["mrope_section"]) * 2 == small_config.SMALL.head_dim


def test_configurations_become_as_large_as_the_scale_says() -> None:
    import transformers

    scale = small_config.Scale(layers=4, heads=4, width=256, positions=256, batch=3, length=48)
    built = catalogue.build("transformers/llama", scale)
    config = built.model.config
    assert (config.num_hidden_layers, config.hidden_size, config.head_dim) == (4, 256, 64)
    assert built.inputs["input_ids"].shape == (3, 48)
    # What is smaller by default stays so.
    small = small_config.shrink(transformers.LlamaConfig(hidden_size=128), 0, scale)
    assert small.hidden_size == 128


def test_layers_with_sizes_of_their_own_stay_so() -> None:
    import transformers

    config = small_config.shrink(transformers.Gemma4TextConfig())
    assert config.layer_types == ["sliding_attention", "full_attention"]
    own = [layer.head_dim for layer in config.per_layer_config]
    assert own == [small_config.SMALL.head_dim, 2 * small_config.SMALL.head_dim]


@pytest.mark.parametrize("width", [64, 256])
def test_what_is_derived_fits_at_any_scale(width: int) -> None:
    import transformers

    scale = small_config.Scale(width=width)
    config = catalogue._config("mamba2", transformers.Mamba2Config, 0, scale)
    assert config.hidden_size == width
    assert config.num_heads * config.head_dim == config.expand * width
    # The levels that keep the default widths keep what goes with them.
    config = catalogue._config("mamba2", transformers.Mamba2Config, 1, scale)
    assert config.head_dim == transformers.Mamba2Config().head_dim


def test_what_architectures_want_besides_is_set() -> None:
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    for name in sorted(set(particular.CHANGED) & set(MODEL_MAPPING_NAMES)):
        config_class = catalogue._classes(name)[1]
        config = catalogue._config(name, config_class, 0, small_config.SMALL)
        for path, value in particular.CHANGED[name].items():
            holder = config
            for part in path.split(".")[:-1]:
                holder = getattr(holder, part)
            if not callable(value) and not path.endswith("out_features"):
                assert getattr(holder, path.split(".")[-1]) == value, (name, path)


# A rule or a line of the tables each: sizes that must fit, inputs that no name tells.
FITTED = """clap deepseek_v2 esm gemma4_text mamba2 mimi musicgen rt_detr sam2 siglip2_vision_model
    zamba2""".split()


@pytest.mark.parametrize("name", FITTED)
def test_eager_runs(name: str) -> None:
    built = catalogue.build(f"transformers/{name}")
    assert built.what.endswith("level 0")
    wanted = particular_inputs.INPUTS.get(name, lambda *_: {})
    config = built.model.config
    assert set(wanted(config, small_config.SMALL, built.inputs)) <= set(built.inputs)


def test_towers_of_vision_get_their_images_as_patches() -> None:
    class Tower(torch.nn.Module):
        main_input_name = "pixel_values"
        config = SimpleNamespace(patch_size=8, num_channels=3, image_size=32)

        def forward(self, pixel_values: torch.Tensor, grid_thw: torch.Tensor) -> None: ...

    *others, flat, square = inputs.candidates(Tower())
    assert others
    assert flat["pixel_values"].shape == (32, 3 * 8 * 8)
    assert square["pixel_values"].shape == (32, 3, 8, 8)
    assert flat["grid_thw"].tolist() == [[1, 4, 4]] * 2


def test_models_of_timm_are_made_small_only_where_they_are_too_large() -> None:
    problems: list[str] = []
    plain = list(catalogue._attempts_of_timm(small_config.SMALL, problems))
    assert not any("embed_dim" in options for _, options, _ in plain)
    attempts = catalogue._attempts_of_timm(small_config.SMALL, problems)
    assert next(attempts) == (64, {"img_size": 64}, 1)
    problems.append(catalogue._TOO_LARGE)
    assert next(attempts) == (64, {**catalogue._NARROWER_OF_TIMM[0], "img_size": 64}, 2)


def test_inputs_are_always_the_same() -> None:
    model = catalogue.build("transformers/clip").model
    first, second = (inputs.candidates(model)[0] for _ in range(2))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_what_cannot_run_says_why() -> None:
    line = check("transformers/of_tomorrow")
    assert line["status"] == "unsupported"
    assert "of_tomorrow" in line["cause"]


def test_differences_are_told() -> None:
    eager = {"loss": torch.tensor(1.0), "gradient of a": torch.tensor([1.0, 2.0])}
    compare(eager, eager, None)
    compare({**eager, "loss": torch.tensor(1.00001)}, eager, None)
    with pytest.raises(DifferentError, match=r"^gradient of a: off by 0\.5"):
        compare({**eager, "gradient of a": torch.tensor([1.0, 3.0])}, eager, None)
    with pytest.raises(DifferentError, match="only one has: gradient of a"):
        compare({"loss": eager["loss"]}, eager, None)
    # As far from float64 as eager is.
    exact = {"loss": torch.tensor(1.001, dtype=torch.float64)}
    compare({"loss": torch.tensor(1.003)}, {"loss": torch.tensor(1.0)}, exact)


def test_what_roundings_decide_is_no_difference() -> None:
    eager = {"gradient of a": torch.tensor([1.0])}
    ours, shaken = (
        {"gradient of a": torch.tensor([1.001])},
        {"gradient of a": torch.tensor([0.9995])},
    )
    with pytest.raises(DifferentError, match=r"^gradient of a: off by 0\.001"):
        compare(ours, eager, None)
    compare(ours, eager, None, [eager, shaken])
    with pytest.raises(DifferentError):
        compare({"gradient of a": torch.tensor([1.01])}, eager, None, [eager, shaken])


def test_a_kink_that_few_roundings_cross_is_looked_for() -> None:
    eager = {"gradient of a": torch.tensor([1.0, 0.5])}
    ours = {"gradient of a": torch.tensor([1.0, 0.6])}
    asked = []

    def shake(crossing: int, seed: int) -> dict[str, torch.Tensor]:
        asked.append(seed)
        return ours if seed == crossing else eager

    compare_with_shaken(ours, eager, None, functools.partial(shake, 20))
    assert asked == list(range(MOST_SHAKEN_RUNS // 2))
    asked.clear()
    with pytest.raises(DifferentError):
        compare_with_shaken(ours, eager, None, functools.partial(shake, -1))
    assert asked == list(range(MOST_SHAKEN_RUNS))


def test_a_rounding_that_overflows_excuses_nothing_beside_it() -> None:
    eager = {"gradient of a": torch.tensor([1.0, 5.0])}
    shaken = {"gradient of a": torch.tensor([1.0, float("inf")])}
    with pytest.raises(DifferentError):
        compare({"gradient of a": torch.tensor([2.0, 5.0])}, eager, None, [eager, shaken])


class AsksWhetherItIsCompiled(torch.nn.Module):
    """Masks when it is compiled alone, as models do whose mask eager finds to be needless."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.linear(x)
        return {"y": y.tril() if torch.compiler.is_compiling() else y}


def test_what_a_model_does_when_compiled_alone_is_upstream() -> None:
    torch.manual_seed(0)
    built = catalogue.Built(AsksWhetherItIsCompiled(), {"x": torch.randn(4, 4)})
    result, ours = run_once(built, train_once, "aot_eager")
    assert result["status"] == "wrong"
    assert is_upstream(built, train_once, result, ours)
    # Another tensor may be the worst of the other backend's: what counts is what it gives.
    assert is_upstream(built, train_once, {**result, "cause": "loss: another cause"}, ours)
    ours["gradient of linear.bias"] = ours["gradient of linear.bias"] * 1.01
    assert not is_upstream(built, train_once, result, ours)
    assert "from its results: gradient of linear.bias" in result["aot_eager"]
    assert not is_upstream(built, train_once, {**result, "status": "failed"}, ours)


def test_where_aot_eager_fails_the_captured_graphs_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(built: catalogue.Built, work: Any, backend: str) -> Any:
        if backend == "aot_eager":
            return {"status": "failed", "cause": "RuntimeError: its own"}, {}
        return run_once(built, work, backend)

    torch.manual_seed(0)
    built = catalogue.Built(AsksWhetherItIsCompiled(), {"x": torch.randn(4, 4)})
    result, ours = run_once(built, train_once, "eager")
    monkeypatch.setattr("zoo.check.run_once", run)
    assert is_upstream(built, train_once, result, ours)
    assert result["aot_eager"] == "failed RuntimeError: its own"
    ours["gradient of linear.bias"] = ours["gradient of linear.bias"] * 1.01
    assert not is_upstream(built, train_once, result, ours)
    assert "from its results: gradient of linear.bias" in result["eager"]
    assert not is_upstream(built, train_once, {**result, "status": "failed"}, ours)


def test_failures_of_one_cause_are_one_group() -> None:
    def line(name: str, cause: str) -> dict[str, object]:
        run = {"status": "wrong", "cause": cause}
        return {"name": name, "status": "wrong", "cause": cause, "inference": run}

    found = report.groups(
        [
            line("a", "output.logits: off by 0.1 of its largest"),
            line("b", "output.0: off by 0.3 of its largest"),
            {"name": "c", "status": "right", "cause": ""},
        ]
    )
    assert [[name for name, _ in members] for members in found.values()] == [["a", "b"]]


def test_documents_have_a_row_for_each(tmp_path: Path) -> None:
    run = {"status": "right", "graphs": 2, "breaks": 1, "kernels": 7, "call_backs": 0, "seconds": 3}
    lines = [
        {"name": "transformers/a", "status": "right", "inference": run, "training": run},
        {"name": "timm/b", "status": "unsupported", "cause": "ImportError: no | here"},
    ]
    report.write_docs(lines, tmp_path / "models.md", "One GPU, torch 2.11")
    text = (tmp_path / "models.md").read_text()
    assert "| transformers/a | right | right | 2 / 2 | 1 / 1 | 7 / 7 | 0 / 0 | 3 / 3 |" in text
    assert "| timm/b | ImportError: no / here |" in text
    assert "One GPU, torch 2.11. 1 ran: 1 right." in text
