"""Files that commands write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import IO

from turnwise.errors import UsageError
from turnwise.paths import to_path


@contextmanager
def writing(path: str | PathLike[str], *, taken: str | None = None, home: bool = False) -> Iterator[IO[str]]:
    """Open a text file to write: UTF-8, line ends as they are written, half of a surrogate pair as an escape.

    Args:
        path: the file.
        taken: what to do where there is such a file already; None to write over it.
        home: whether a leading ``~`` stands for the home of a user.

    Raises:
        UsageError: it can't be written, or is there already and must not be written over.
    """
    try:
        target = to_path(path, home=home)
        mode = "w" if taken is None else "x"
        with target.open(mode, encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield file
    except FileExistsError:
        raise UsageError(f"{path} is there already; {taken}") from None
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a text file over what is there; errors as for `writing`."""
    with writing(path) as file:
        file.write(text)
