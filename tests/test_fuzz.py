# SPDX-License-Identifier: GPL-2.0-only
"""A short run of `fuzz`: the long one is ``python tests/fuzz.py``."""

from tests import fuzz


def test_every_input_is_loaded_or_refused():
    report = fuzz.run(600)
    assert not report.broken, report.broken[:3]
    assert report.counts.total() >= 600
    kinds = {kind for kind, _ in report.counts}
    assert {"capture", "tar.gz", "hwloc", "lscpu -p", "interrupts", "dump"} <= kinds
    assert {"real: JSON", "real: XML", "real: table", "real: pasted"} <= kinds
    assert len([kind for kind in kinds if kind.startswith("made: ")]) == len(fuzz.MADE)
    # An input that no damage ever spoils, or that is never read, would test nothing.
    for kind in ("dump", "lscpu", "lscpu -p", "numactl", "tar.gz"):
        assert report.counts[kind, "loaded"] > 0
        assert report.counts[kind, "refused"] > 0


def test_a_broken_rule_is_noticed(tmp_path, monkeypatch):
    report = fuzz.Report(tmp_path)

    def too_much(path):
        return bytes(10**9)

    monkeypatch.setattr(fuzz, "load", too_much)
    report.check("kind", b"")
    monkeypatch.setattr(fuzz, "load", lambda path: 1 // 0)
    report.check("kind", b"")
    monkeypatch.setattr(fuzz, "load", lambda path: sum(range(10**6)))
    monkeypatch.setattr(fuzz, "SECONDS", 0.001)
    report.check("kind", b"")
    assert [line.split(": ")[1] for line in report.broken[:2]] == [
        "too much memory",
        "ZeroDivisionError",
    ]
    assert len(report.broken) == 3
    assert report.broken[2].endswith(" s: b''")
