"""Libraries that the pages of many releases share, so that each page need not carry them.

They lie in the folder `_static` beside the releases, and are named after their own SHA-256: what
is there is never written again, and a later version of tracecloak puts its own beside them. They
belong to no release, so no release that is withdrawn takes them away.

A page names them with their digests. Of a server, a browser runs none with other bytes, by the
page's policy. Of a disk it compares nothing, as it reads no digest of files; `verify` does.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from contextlib import closing

from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.files import create, is_on_this_machine, join, read_if_there, rename
from tracecloak.transforms.pages.page import library_bytes

STATIC_NAME = "_static"
_LISTED = re.compile(rb'<script type="application/json" id="libraries">(.*?)</script>', re.DOTALL)


def shared_files(page: bytes) -> list[str]:
    """Returns the names of the files that a page of ours reads in the folder of shared ones."""
    listed = _LISTED.search(page)
    return [] if listed is None else [one["file"] for one in json.loads(listed[1])]


def put_shared(output: str, page: bytes) -> None:
    """Puts the libraries that a page names beside the releases, unless they are there.

    Args:
        output: The folder of all releases.
        page: As it will lie in the folder of one of them.

    Raises:
        TracecloakError: A file is there and is not what its name says.
    """
    for name in shared_files(page):
        path = join(output, STATIC_NAME, name)
        there = read_if_there(path)
        if there is None:
            _write(path, library_bytes(name))
        elif not is_what_it_says(name, there):
            raise TracecloakError(
                f"{path} is not what its name says, so pages that share it would not work: remove "
                "it and run again, which writes it anew"
            )


def is_what_it_says(name: str, data: bytes) -> bool:
    """Returns whether a shared file has the SHA-256 that it is named after."""
    return name == f"{hashlib.sha256(data).hexdigest()}.js"


def _write(path: str, data: bytes) -> None:
    """Writes a file that appears whole; two who write it write the same."""
    place = f"{path}.{uuid.uuid4().hex}" if is_on_this_machine(path) else path
    with closing(create(place)) as stream:
        stream.write(data)
    if place != path:
        rename([place], [path])
