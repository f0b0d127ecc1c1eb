# SPDX-License-Identifier: GPL-2.0-only
"""Commands as a reader types them, the start of Python included."""

import subprocess
import sys
import time

import pytest

from groupcpus.machines.mail_text import mail_text
from groupcpus.machines.probe import simulate

COMMANDS = {
    "machines": ["machines"],
    "run L96as_v4": ["run", "L96as_v4", "--before", "cluster"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command(benchmark, note, command):
    def run():
        subprocess.run(
            [sys.executable, "-m", "groupcpus", *COMMANDS[command]], check=True, capture_output=True
        )

    benchmark.pedantic(run, rounds=3)
    note(f"groupcpus {command}: {benchmark.stats.stats.median:.2f} s")


def test_a_run_with_its_mail_text(benchmark, note):
    """Two runs of L96as_v4 and the text that compares them; the engine keeps no answers."""

    def run():
        return mail_text(
            simulate("L96as_v4", revision="cluster"), simulate("L96as_v4", revision="rotate-v2")
        )

    started = time.process_time()
    text = run()
    note(f"simulate L96as_v4 twice, with the mail text: {time.process_time() - started:.3f} s")
    assert "372" in text
    benchmark.pedantic(run, rounds=3)
