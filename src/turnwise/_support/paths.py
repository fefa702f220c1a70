"""Paths that somebody named: on a command line, in a file, or in a call."""

from __future__ import annotations

import errno
from os import PathLike, fspath
from pathlib import Path


def to_path(name: str | PathLike[str], *, home: bool = False) -> Path:
    r"""The path of a file or folder that is to be opened; with `home` a leading ``~`` is the home of a user.

    A name that can't be that of a file (with a NUL character, or the home of nobody) raises an `OSError`, where
    Python has other errors: whoever handles a file that can't be opened has handled this too.

    >>> to_path("a\0b")
    Traceback (most recent call last):
        ...
    OSError: [Errno 22] a file name can't have a NUL character: 'a\x00b'
    """
    text = fspath(name)
    if "\0" in text:
        raise OSError(errno.EINVAL, "a file name can't have a NUL character", text)
    try:
        return Path(text).expanduser() if home else Path(text)
    except RuntimeError as error:
        raise OSError(errno.ENOENT, "there is no home folder of that user", text) from error
