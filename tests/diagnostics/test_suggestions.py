"""What a misspelt name may have meant."""

from __future__ import annotations

import pytest

from mlopt.diagnostics import did_you_mean, nearest

FLAGS = ("--canonicalize", "--cse", "--dce", "--fuse-kernels", "--convert-kernel-to-memref", "--timing")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("--fuse", ["--fuse-kernels"]),
        ("-fuse-k", ["--fuse-kernels"]),
        ("--kernels", ["--fuse-kernels"]),
        ("--memref", ["--convert-kernel-to-memref"]),
        ("--c", ["--canonicalize", "--cse", "--convert-kernel-to-memref"]),
        ("--canonicalise", ["--canonicalize"]),
        ("--fuze-kernels", ["--fuse-kernels"]),
        ("--xyz", []),
        ("--", []),
    ],
)
def test_nearest(name: str, expected: list[str]) -> None:
    assert nearest(name, FLAGS) == expected


def test_the_end_of_a_message() -> None:
    assert did_you_mean([]) == ""
    assert did_you_mean(["a"]) == "; did you mean 'a'?"
    assert did_you_mean(["a", "b"]) == "; did you mean 'a' or 'b'?"
