"""Small files and folders on the local file system, or on any other that Arrow opens."""

import os
import re
from pathlib import Path
from typing import Final

from pyarrow import fs

from ariane.env import SystemFiles

_HADOOP_S3: Final = re.compile(r"^s3[an]://")


def is_remote(path: str) -> bool:
    """Whether a path is a URI of a file system that Arrow opens, such as s3://."""
    return "://" in path


def file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """What opens a URI, and the path in there. Spark asks for Hadoop's s3a:// where Arrow says s3://."""
    return fs.FileSystem.from_uri(_HADOOP_S3.sub("s3://", uri))


def join(folder: str, *names: str) -> str:
    return "/".join((folder.rstrip("/"), *names))


def list_folder(folder: str) -> list[str]:
    """Names in a folder; none when it is not there."""
    if is_remote(folder):
        system, path = file_system(folder)
        return sorted(info.base_name for info in system.get_file_info(fs.FileSelector(path, allow_not_found=True)))
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def read_small(path: str) -> bytes:
    """A whole small file."""
    if is_remote(path):
        system, inner = file_system(path)
        with system.open_input_file(inner) as source:
            return bytes(source.read())
    return Path(path).read_bytes()


def replace_file(path: str, data: bytes) -> None:
    """Write a small file so that a crash leaves the old or the new one. Object stores replace atomically."""
    if is_remote(path):
        system, inner = file_system(path)
        system.create_dir(inner.rpartition("/")[0], recursive=True)
        with system.open_output_stream(inner) as stream:
            stream.write(data)
    else:
        files = SystemFiles()
        files.make_folder(Path(path).parent)
        files.replace(Path(path), data)


def remove(path: str) -> None:
    """Remove one file."""
    if is_remote(path):
        system, inner = file_system(path)
        system.delete_file(inner)
    else:
        Path(path).unlink(missing_ok=True)
