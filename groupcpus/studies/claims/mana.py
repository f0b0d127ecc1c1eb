# SPDX-License-Identifier: GPL-2.0-only
"""MANA's irq_setup(): M1 to M5."""

from groupcpus.engine.irq_setup import cpumask_local_spread, irq_setup
from groupcpus.studies.claims.trials import HARDWARE, Outcome, Trial, machine_named, scenario


def _mana(version: str) -> list[str]:
    topology = machine_named("mana_8cpu").topology
    return [str(mask) for mask in irq_setup(topology, 8, 0, version=version)]


@scenario("M1")
def _m1() -> Outcome:
    return Outcome(
        tuple(Trial(f"the code as {version}", _mana(version)) for version in ("posted", "merged"))
    )


@scenario("M2")
def _m2() -> Outcome:
    note = (
        "The posted loop counts a hop's passes and makes as many as the hop has CPUs. The merged "
        f"driver counts interrupts instead, and has {' '.join(_mana('merged'))}. Nothing calls the "
        "function in the patch as posted, the mail says only that a table may look so, and the "
        "loop was mended before the merge."
    )
    return Outcome((Trial("", _mana("posted")),), note=note)


@scenario("M3a")
def _m3a() -> Outcome:
    topology = machine_named("mana_8cpu").topology
    nodes = [topology.node_of(int(mask.split("-")[0])) for mask in _mana("merged")]
    return Outcome(
        (
            Trial("nodes counted from 0, as in the drawing above the table", nodes),
            Trial("nodes counted from 1", [node + 1 for node in nodes]),
        )
    )


@scenario("M3b")
def _m3b() -> Outcome:
    topology = machine_named("mana_8cpu").topology
    numbers = {min(core): at for at, core in enumerate(topology.siblings)}
    return Outcome((Trial("", [numbers[int(mask.split("-")[0])] for mask in _mana("merged")]),))


# What ntttcp printed: bytes, and a test duration of 60.00 seconds.
_RATES = [total * 8 / 60 / 1e9 for total in (630292053310, 741966608384)]


@scenario("M4a")
def _m4a() -> Outcome:
    return Outcome((Trial("", round(_RATES[0], 2)),))


@scenario("M4b")
def _m4b() -> Outcome:
    return Outcome((Trial("", round(_RATES[1], 2)),))


@scenario("M4c")
def _m4c() -> Outcome:
    slow, fast = _RATES
    return Outcome(
        (
            Trial("faster: by the rate", round(100 * (fast / slow - 1))),
            Trial("faster: by the time for the same bytes", round(100 * (1 - slow / fast))),
        ),
        note=f"The rate is {100 * (fast / slow - 1):.1f} % higher, the time "
        f"{100 * (1 - slow / fast):.1f} % less.",
    )


@scenario("M5")
def _m5() -> Outcome:
    topology = machine_named("mana_8cpu").topology
    cpus = [cpumask_local_spread(topology, at, 0) for at in range(8)]
    nodes = [topology.node_of(cpu) for cpu in cpus]
    value = {
        "nodes_in_order": nodes == sorted(nodes),
        "first_two_share_a_core": topology.core_id(cpus[0]) == topology.core_id(cpus[1]),
    }
    return Outcome((Trial("", value),), note=f"The CPUs in turn: {' '.join(map(str, cpus))}.")


# Of 192 CPUs, before and after, as ntttcp printed it.
_BUSY = (3.59, 3.82)


@scenario("M6a")
def _m6a() -> Outcome:
    """Cycles are busy CPUs times a clock that stays; bytes are known."""
    spent = [busy * 192 / 100 for busy in _BUSY]
    ratio = spent[1] / _RATES[1] / (spent[0] / _RATES[0])
    note = f"The machine's clock is not told; the second figure is {ratio:.3f} of the first."
    return Outcome((Trial("the same clock in both runs", round(ratio, 2)),), note=note)


@scenario("M6b")
def _m6b() -> Outcome:
    value = [round(busy * 192) for busy in _BUSY]
    return Outcome((Trial("as many per cent of 192 CPUs", value),))


@scenario("M6c")
def _m6c() -> Outcome:
    return Outcome((), note=HARDWARE)
