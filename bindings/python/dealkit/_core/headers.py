"""Headers of a response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dealkit._core.options import pairs


class Headers(Mapping[str, str]):
    """The headers of a response: case-insensitive names, with one value each.

    The values of a repeated header are joined with commas; ``get_list`` keeps them separate.
    """

    _values: dict[str, list[str]]

    def __init__(self, values: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        self._values = {}
        for name, value in pairs("values", values):
            self._values.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name: str) -> str:
        if not isinstance(name, str):
            raise KeyError(name)
        return ", ".join(self._values[name.lower()])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_list(self, name: str) -> list[str]:
        """Returns all values of a header, in the order received."""
        return list(self._values.get(name.lower(), ()))

    def __repr__(self) -> str:
        return f"Headers({sorted(self._values)})"
