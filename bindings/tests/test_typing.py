"""The types and names of the package are correct at run time. `bindings/check_types.py`, in `make lint`, runs the type
checkers.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import dealkit


def test_typing_samples_run() -> None:
    """The types that a type checker infers for the models are correct at run time."""
    runpy.run_path(str(Path(__file__).parent / "typing" / "models.py"))


def test_every_name_in_all_exists() -> None:
    assert len(set(dealkit.__all__)) == len(dealkit.__all__)
    for name in dealkit.__all__:
        assert getattr(dealkit, name) is not None
        assert name in dir(dealkit)
    assert (Path(dealkit.__file__).parent / "py.typed").exists()
