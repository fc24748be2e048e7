"""Files that belong together: replaced in a folder all at once or not at all.

New files are written and flushed into a folder of their own inside the target. Renaming that folder
to `COMPLETE` is what makes them count; then they are moved out of it, one by one. Readers look
there first, so an interruption leaves either the old files or the new ones, and the next save
tidies up. Other files in the folder are left alone.
"""

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from pushpop.errors import InputError, reading, writing
from pushpop.files import flush_directory, write_flushed

CONFIG_FILE, VOCABULARY_FILE, TENSORS_FILE = "config.json", "vocabulary.json", "model.safetensors"
"""The files of a saved model."""
COMPLETE = ".saved"
STAGING = ".saving-"
LEFT_BEHIND = 3600  # seconds after which a staging folder is nobody's


def write_together(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put these files in place of the ones with their names, in a folder that is made if needed."""
    is_new = not folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _move_out(folder)
        staging = Path(mkdtemp(prefix=STAGING, dir=folder))
        try:
            for name, data in files.items():
                write_flushed(staging / name, data, "xb")
            flush_directory(staging)
            os.rename(staging, folder / COMPLETE)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            if is_new:
                with suppress(OSError):
                    folder.rmdir()
            raise
        flush_directory(folder)
        _move_out(folder)
        _tidy(folder)


def read_file(folder: Path, name: str) -> bytes:
    """The contents of a file, from the last save that was complete."""
    for path in (folder / COMPLETE / name, folder / name):
        with reading(path), suppress(FileNotFoundError, NotADirectoryError):
            return path.read_bytes()
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    raise InputError(f"{folder / name}: missing")


def _move_out(folder: Path) -> None:
    complete = folder / COMPLETE
    if not complete.is_dir():
        return
    for file in sorted(complete.iterdir()):
        os.replace(file, folder / file.name)
    flush_directory(folder)
    complete.rmdir()


def _tidy(folder: Path) -> None:
    """Remove what saves that were killed long ago have left behind."""
    for staging in folder.glob(f"{STAGING}*"):
        with suppress(OSError):
            if time.time() - staging.stat().st_mtime > LEFT_BEHIND:
                shutil.rmtree(staging, ignore_errors=True)
