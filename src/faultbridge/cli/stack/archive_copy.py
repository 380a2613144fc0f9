"""Read an archive that was copied to a folder, without a stack and without credentials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from faultbridge.adapters.objects.folder import Folder
    from faultbridge.ledger.timeline import Line, TimelineQuery
    from faultbridge.ledger.verify import Verified

ArchiveOption = Annotated[
    Path | None,
    typer.Option("--archive", metavar="DIR", help="Read a copy of the archive in this folder instead of a stack."),
]


def open_folder(path: Path) -> Folder:
    """Open a folder with a copy of the archive and, optionally, of the vault.

    The vault contains the anchors, which record where each stream of entries ends. A path that is not a folder is a
    usage error.
    """
    from faultbridge.adapters.objects.folder import Folder

    if not path.is_dir():
        raise typer.BadParameter(f"not a folder: {path}; give the folder of an archive copy")
    return Folder(path)


def archived_entries(path: Path, wanted: TimelineQuery) -> list[Line]:
    """Return the archived entries that match a query, without duplicates, in the order of recording."""
    from faultbridge.archive.read import ReadArchive

    return ReadArchive(open_folder(path)).entries(wanted)


def verify_archived(path: Path, cluster: str, node: str | None, *, anchor: bool, stack_id: str | None) -> Verified:
    """Verify the entries of a node, or of a cluster and all its nodes, in a copy of the archive.

    If `node` is None, all streams of the cluster are verified. With `anchor`, the copy is also compared with the
    manifests and anchors of the vault in the same folder. An anchor records where each stream of entries ends.
    `stack_id` is needed only if no manifest or anchor names the stack.
    """
    from faultbridge.archive.archive_verification import VerifyArchive

    folder = open_folder(path)
    return VerifyArchive(folder, folder if anchor else None, stack_id)(cluster, node)
