"""The build: everything is in pyproject.toml but the modules of the hot path, which mypyc compiles from the same source.

Without a C compiler, or with ARIANE_PURE=1, the plain modules are installed and do the same, slower.
"""

import os
import shutil
import sys
import sysconfig

from setuptools import Extension, setup

HOT = [
    "src/ariane/protocol/java.py",
    "src/ariane/protocol/properties.py",
    "src/ariane/protocol/units.py",
    "src/ariane/protocol/command.py",
    "src/ariane/protocol/frame.py",
]


def compiled() -> list[Extension]:
    """The hot modules as extensions, or nothing where they cannot be built."""
    if os.environ.get("ARIANE_PURE"):
        return []
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if sys.platform != "win32" and shutil.which(compiler) is None:
        print(f"No C compiler ({compiler}): the hot path stays plain Python, which works the same but costs more CPU.")
        return []
    try:
        from mypyc.build import mypycify

        extensions: list[Extension] = mypycify(["--config-file=", "--ignore-missing-imports", *HOT], opt_level="3")
    except Exception as error:
        print(f"The hot path could not be compiled ({error}): it stays plain Python.")
        return []
    for extension in extensions:
        extension.optional = True  # a failing compiler leaves the plain modules
    return extensions


setup(ext_modules=compiled())
