"""Outrider's programs: those in this package, or else those in PATH.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Optional

from outrider.types import OutriderError

# What `outrider` takes as the name of another program than the edge.
OTHERS = ("server", "bench", "train", "link")


def find(name: str) -> str:
    """The path of outrider-NAME. Raises OutriderError where it is missing."""
    program = f"outrider-{name}"
    own = Path(__file__).parent / "bin" / program
    found = str(own) if own.exists() else shutil.which(program)
    if found is None:
        raise OutriderError(f"there is no {program} in this package or in PATH. Remedy: install a wheel that carries it, or the Debian "
                            f"package, or build it with ./run build and add build/release/bin to PATH")
    return found


def cannot_start(program: str, why: Optional[str]) -> str:
    """In words, with a remedy: a wheel's programs are of one kind of machine."""
    return (f"{program} cannot be started: {why}. Remedy: programs for this machine, which is {platform.system()} on "
            f"{platform.machine()}: the wheel of that name, or ./run build")


def main() -> None:
    """`outrider server ..` runs outrider-server, and so on; `outrider serve ..`, run, chat .. are outrider-edge's."""
    words = sys.argv[1:]
    name = words.pop(0) if words and words[0] in OTHERS else "edge"
    try:
        program = find(name)
    except OutriderError as error:
        sys.exit(f"outrider: {error}")
    try:
        os.execv(program, [program, *words])
    except OSError as error:
        sys.exit(f"outrider: {cannot_start(program, error.strerror)}")


if __name__ == "__main__":
    main()
