"""The types and names of the package are true at run time. `bindings/check_types.py`, in `make lint`, runs the type checkers."""

from __future__ import annotations

import runpy
from pathlib import Path

import dealkit


def test_the_samples_run() -> None:
    """What a type checker believes about the models is true at run time as well."""
    runpy.run_path(str(Path(__file__).parent / "typing" / "models.py"))


def test_every_name_is_public_on_purpose() -> None:
    assert len(set(dealkit.__all__)) == len(dealkit.__all__)
    for name in dealkit.__all__:
        assert getattr(dealkit, name) is not None
        assert name in dir(dealkit)
    assert (Path(dealkit.__file__).parent / "py.typed").exists()
