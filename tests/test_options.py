"""Configuration files: what they set, and what a mistake is answered with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest

import mlopt
from mlopt.diagnostics import InputError, PipelineError
from mlopt.options import CompileOptions, load_config
from mlopt.passes.pipelines import LEVELS, PipelineOptions, at_optimisation_level, phase_passes
from mlopt.passmanager.option_values import parse_bytes


def write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_the_three_switches(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "c.json",
        '{"optimization": {"enable_fusion": false, "enable_inplace": true, "memory_reuse_strategy": "conservative"}}',
    )
    pipeline = load_config(path, CompileOptions()).pipeline
    assert pipeline == PipelineOptions(fusion=False, inplace=True, memory_reuse="conservative")


def test_toml_and_the_other_keys(tmp_path: Path) -> None:
    path = write(
        tmp_path, "c.toml", 'optimize = false\npoison = true\ndisable_pass = ["cse"]\ndims = {batch = 2}\n'
    )
    options = load_config(path, CompileOptions())
    assert options.poison and not options.pipeline.optimize
    assert options.pipeline.disabled == ("cse",)
    assert options.dims == {"batch": 2}


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "c.json", '{"dims": {"batch": 2, "length": 3}}')
    assert load_config(path, CompileOptions(dims={"batch": 7})).dims == {"batch": 7, "length": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"optimisation": {}}', "unknown key 'optimisation', expected one of bisect, dims, disable_pass"),
        (
            '{"optimization": {"enable_fuse": true}}',
            "unknown key 'optimization.enable_fuse', expected one of enable_fusion",
        ),
        (
            '{"optimization": {"enable_fusion": 1}}',
            "'optimization.enable_fusion' must be one of true, false, found 1",
        ),
        (
            '{"optimization": {"memory_reuse_strategy": "greedy"}}',
            'must be one of "none", "conservative", "aggressive", found "greedy"',
        ),
        ('{"dims": {"batch": "two"}}', "'dims.batch' must be a whole number"),
        ('{"dims": {"batch": -1}}', "'dims.batch' must be a whole number"),
        ('{"disable_pass": [1]}', "'disable_pass' must be a list of names"),
        ("[]", "expected a table of options"),
        (
            '{"memory_budget": "64 cats"}',
            "'memory_budget' must be a number of bytes, such as 65536, 64KiB or 1.5MB",
        ),
        ('{"memory_budget": true}', "'memory_budget' must be a number of bytes"),
        ('{"memory_budget": -1}', "'memory_budget' must be a number of bytes"),
        ('{"waves": 1}', "'waves' must be a number of launches, at least 2, found 1"),
        ('{"waves": "2"}', "'waves' must be a number of launches"),
        (
            '{"spill_budget": "all"}',
            '\'spill_budget\' must be a number of bytes, such as 65536, 64KiB or 1.5MB, or "any", found "all"',
        ),
        ('{"poison": "yes"}', "'poison' must be true or false"),
        ("{", "not JSON"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, "c.json", text)
    with pytest.raises(InputError) as caught:
        load_config(path, CompileOptions())
    assert message in caught.value.message
    assert caught.value.place is not None and caught.value.place.file == str(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such configuration file"):
        load_config(tmp_path / "none.json", CompileOptions())


def test_broken_json_is_located(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_config(write(tmp_path, "c.json", '{\n  "dims": }'), CompileOptions())
    assert str(caught.value.place).endswith("c.json:2:11")


@pytest.mark.parametrize("switch", ["fusion", "inplace", "memory_reuse", "optimize"])
def test_each_switch_changes_the_pipeline(switch: str) -> None:
    value = "none" if switch == "memory_reuse" else False
    assert passes_of(PipelineOptions(**{switch: value})) != passes_of(PipelineOptions())


def passes_of(options: PipelineOptions) -> list[str]:
    return [name for level in LEVELS for name in phase_passes(level, options)]


def test_optimisation_levels_set_their_switches_alone() -> None:
    options = PipelineOptions(
        optimize=False, fusion=False, inplace=False, memory_reuse="none", disabled=("cse",)
    )
    assert at_optimisation_level("O2", options) == PipelineOptions(
        optimize=True, fusion=True, inplace=False, memory_reuse="none", disabled=("cse",)
    )
    assert at_optimisation_level("O1", PipelineOptions()) == PipelineOptions(fusion=False)
    assert not at_optimisation_level("O0", PipelineOptions()).optimize


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fuse-kernel", "there is no pass 'fuse-kernel' to disable; did you mean 'fuse-kernels'?"),
        ("convert-graph-to-kernel", "pass 'convert-graph-to-kernel' can't be disabled"),
    ],
)
def test_passes_that_can_not_be_disabled(name: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        passes_of(PipelineOptions(disabled=(name,)))
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("65536", 65536),
        ("17B", 17),
        ("64KiB", 65536),
        ("64 KiB", 65536),
        ("64kB", 64000),
        ("1.5MB", 1_500_000),
        ("0.3MiB", 314572),
        ("2GiB", 2 << 30),
        ("-1", None),
        ("1.5", None),
        ("64kib", None),
        ("KiB", None),
        ("1e6", None),
        ("", None),
    ],
)
def test_sizes_in_bytes(text: str, number: int | None) -> None:
    """Powers of 1024 with an i, of 1000 without; a part of a byte is no size, and is left out of larger ones."""
    assert parse_bytes(text) == number


@pytest.mark.parametrize(("text", "value"), [('"any"', "any"), ('"1KiB"', 1024), ("64", 64)])
def test_a_spill_budget_from_a_file(tmp_path: Path, text: str, value: int | str) -> None:
    path = write(tmp_path, "c.toml", f'memory_budget = "64KiB"\nspill_budget = {text}')
    pipeline = load_config(path, CompileOptions()).pipeline
    assert pipeline.spill_budget == value
    assert f"fit-memory{{budget=65536 spill={value}}}" in passes_of(pipeline)


def test_a_memory_budget_from_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, "c.toml", 'memory_budget = "64KiB"')
    assert load_config(path, CompileOptions()).pipeline.memory_budget == 65536


def test_bytes_in_python_are_numbers_or_texts() -> None:
    options = mlopt.PipelineOptions(memory_budget="64KiB", spill_budget="1.5kB")
    assert (options.memory_budget, options.spill_budget) == (65536, 1500)
    assert mlopt.PipelineOptions(memory_budget="64", spill_budget="any").spill_budget == "any"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"memory_budget": -1},
            "'memory_budget' must be a number of bytes, such as 65536, 64KiB or 1.5MB, found -1",
        ),
        ({"memory_budget": 1.5}, "'memory_budget' must be a number of bytes"),
        ({"memory_budget": True}, "'memory_budget' must be a number of bytes"),
        ({"memory_budget": "much"}, "'memory_budget' must be a number of bytes"),
        ({"spill_budget": "all"}, "or any, found 'all'"),
        ({"waves": 1}, "'waves' must be a number of launches, at least 2, found 1"),
        ({"waves": "2"}, "'waves' must be a number of launches"),
        (
            {"memory_reuse": "some"},
            "'memory_reuse' must be one of none, conservative, aggressive, found 'some'",
        ),
        ({"optimize": "no"}, "'optimize' must be true or false, found 'no'"),
        ({"fusion": 1}, "'fusion' must be true or false, found 1"),
        ({"disabled": "cse"}, "'disabled' must be a list of names, found 'cse'"),
        ({"disabled_patterns": [1]}, "'disabled_patterns' must be a list of names"),
    ],
)
def test_wrong_pipeline_options_in_python(values: dict[str, Any], message: str) -> None:
    """The error names the option, not one of the passes that it goes to."""
    with pytest.raises(InputError, match=re.escape(message)):
        mlopt.PipelineOptions(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dims": [1]}, "'dims' must be a table of names and sizes"),
        ({"weights": 3}, "'weights' must be a path, found 3"),
        ({"reproducers": None}, "'reproducers' must be a path, found None"),
        ({"poison": "yes"}, "'poison' must be true or false"),
        ({"bisect": 1}, "'bisect' must be true or false"),
        ({"pipeline": "O2"}, "'pipeline' must be PipelineOptions"),
        ({"pipeline_text": 3}, "'pipeline_text' must be text"),
        ({"donate": "past"}, "'donate' must be a list of donations"),
        ({"donate": [3]}, "'donate' must be donations or texts"),
    ],
)
def test_wrong_options_in_python(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        CompileOptions(**values)


def test_a_path_in_python_may_be_text() -> None:
    options = CompileOptions(weights=cast(Path, "w.safetensors"), reproducers=cast(Path, "r"))
    assert (options.weights, options.reproducers) == (Path("w.safetensors"), Path("r"))
