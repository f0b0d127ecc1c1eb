# SPDX-License-Identifier: GPL-2.0-only
"""Serve the explorer as a page of its own, for whoever has the address with its token.

    python -m tools.dashboard [options of Voilà]

Voilà by itself lets every process and every page of the computer in, under any name, and keeps a
kernel for each request.  Here a token is asked for, the Host header has to be a name of this
computer (else a foreign page could reach it by a name of its own), and a kernel that nobody has
looked at for some minutes is shut down.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voila.app import Voila

DASHBOARD = Path(__file__).resolve().parents[1] / "dashboard"
IDLE_SECONDS = 300


class Dashboard(Voila):
    """Voilà for one reader on this computer."""

    def init_settings(self) -> dict[str, Any]:
        """Return Voilà's settings, with a check of the Host header."""
        settings = super().init_settings()
        return settings | {"allow_remote_access": False, "local_hostnames": ["localhost"]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until somebody stops it."""
    options = list(sys.argv[1:] if arguments is None else arguments)
    paths = filter(None, (str(DASHBOARD), os.environ.get("JUPYTER_PATH")))
    os.environ["JUPYTER_PATH"] = os.pathsep.join(paths)
    defaults = {
        "--token": "",  # a random one, which is in the address that is printed
        "--template": "=offline",
        "--Voila.ip": "=127.0.0.1",
        "--MappingKernelManager.cull_idle_timeout": f"={IDLE_SECONDS}",
        "--MappingKernelManager.cull_interval": "=30",
    }
    given = {option.partition("=")[0] for option in options}
    options += [name + value for name, value in defaults.items() if name not in given]
    Dashboard.launch_instance([str(DASHBOARD / "explorer.ipynb"), *options])


if __name__ == "__main__":
    main()
