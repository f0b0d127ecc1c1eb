# SPDX-License-Identifier: GPL-2.0-only
"""The claims ledger: every verdict and computed value, pinned; and what the searches rest on."""

import json
import re
from itertools import product

import pytest

from groupcpus.__main__ import main
from groupcpus.engine.group_cpus import explain, group_cpus_evenly
from groupcpus.engine.steps import Assigned
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, RequestError
from groupcpus.machines.machine import read_machine
from groupcpus.machines.probe import simulate
from groupcpus.studies.claims import (
    VERDICTS,
    Claim,
    Ledger,
    Outcome,
    Result,
    Trial,
    check_claims,
    claims_document,
    claims_table,
    claims_text,
    load_claims,
)
from groupcpus.studies.claims.ledger import read_claims, verdict
from groupcpus.studies.claims.rule import cluster_shapes, smallest_rule_breaker
from groupcpus.studies.claims.sequences import probe_sequences
from groupcpus.studies.claims.thread import d96_pattern, pair_outcomes
from groupcpus.studies.claims.trials import SCENARIOS, grouping_of, placed
from tests.browser import open_page

IDS = (
    [f"R{n}" for n in range(1, 25)]
    + [f"C{n}" for n in range(1, 5)]
    + [f"M{n}" for n in range(1, 7)]
)

YES, MAYBE, NO, ANSWERED, ELSEWHERE = VERDICTS

TABLE = ["0-1", "2-3", "0-1", "2-3", "4-5", "6-7", "4-5", "6-7"]
EVEN = [30, 30, 30, 30, 36, 36]

# Verdict and first computed value of each part.
LEDGER = {
    "R1": (YES, {"disks": 6, "queues": 62, "cpus_a_node": [48, 48], "queues_a_node": [31, 31]}),
    "R2a": (YES, {"2": 17, "1": 14}),
    "R2b": (YES, {"a_disk": 28, "in_all": 168}),
    "R3a": (YES, {"3": 68, "6": 28}),
    "R3b": (MAYBE, {"0": 3, "1": 3, "34": 6, "47": 6}),
    "R3c": (MAYBE, 204),
    "R4": (MAYBE, "34-47,82-95"),
    "R4b": (NO, ["numa", "cluster"]),
    "R5a": (MAYBE, {"most": 5, "used": 96}),
    "R5b": (MAYBE, {"0": 4, "1": 4, "2": 4, "3": 4, "47": 4}),
    "R6a": (YES, {"before": 372, "after": 372}),
    "R6b": (YES, {"before": 1, "after": 1}),
    "R7": (YES, {"with_stride": 2, "stride_1": 6}),
    "R7b": (MAYBE, 2),
    "R8a": (MAYBE, False),
    "R8b": (YES, True),
    "R8c": (MAYBE, True),
    "R8d": (MAYBE, True),
    "R8e": (MAYBE, True),
    "R9a": (MAYBE, False),
    "R9b": (YES, True),
    "R9c": (MAYBE, True),
    "R10a": (YES, {"nodes": 6, "cpus_a_node": 8, "clusters": 24, "irqs": 192}),
    "R10b": (YES, {"3": 32, "6": 16}),
    "R10c": (MAYBE, "3-5"),
    "R10d": (YES, 4),
    "R10e": (YES, {"before": EVEN, "after": EVEN}),
    "R11a": (MAYBE, "3-5"),
    "R11b": (MAYBE, "4-5"),
    "R11c": (MAYBE, {"node_0": "4-5", "node_1": "3-4"}),
    "R12a": (YES, {"2": 6}),
    "R12b": (MAYBE, {"1": 4, "2": 4}),
    "R12c": (MAYBE, {"vcpus": 11, "most": 2}),
    "R13a": (YES, {"6": 14}),
    "R13b": (MAYBE, {"vcpus": 26, "a_node": [13, 13], "irqs": "1-6"}),
    "R13c": (YES, True),
    "R13d": (ANSWERED, {"by_rule": True}),
    "R14a": (YES, {"same": True, "sizes": [16]}),
    "R14b": (MAYBE, False),
    "R15a": (YES, {"busy": 6, "idle": 90}),
    "R15b": (YES, {"most": 1}),
    "R16a": (ELSEWHERE, None),
    "R16b": (ELSEWHERE, None),
    "R17a": (YES, True),
    "R17b": (YES, True),
    "R17c": (YES, True),
    "R17d": (YES, True),
    "R17e": (ANSWERED, {"same_sizes": True}),
    "R17f": (ANSWERED, {"same_sizes": True}),
    "R17g": (ANSWERED, {"as_without": True}),
    "R18a": (YES, True),
    "R18b": (MAYBE, False),
    "R19": (MAYBE, False),
    "R20": (NO, {"1": 6, "2": 3}),
    "R21": (YES, False),
    "R22": (MAYBE, True),
    "R23": (MAYBE, False),
    "R24": (MAYBE, True),
    "C1a": (YES, [4, 4, 4, 4, 4, 4, 4, 3, 3, 3, 3]),
    "C1b": (YES, {"has": "31-32", "clusters": 2}),
    "C1c": (YES, True),
    "C1d": (NO, 33),
    "C2a": (YES, {"2": 2, "4": 9, "spanning": 0}),
    "C2b": (MAYBE, "0-3"),
    "C2c": (NO, [10, 11]),
    "C3": (ELSEWHERE, None),
    "C4a": (YES, True),
    "C4b": (YES, True),
    "M1": (MAYBE, ["0-1", "2-3", "0-1", "2-3", "0-1", "2-3", "0-1", "2-3"]),
    "M2": (NO, ["0-1", "2-3", "0-1", "2-3", "0-1", "2-3", "0-1", "2-3"]),
    "M3a": (MAYBE, [0, 0, 0, 0, 1, 1, 1, 1]),
    "M3b": (YES, [0, 1, 0, 1, 2, 3, 2, 3]),
    "M4a": (YES, 84.04),
    "M4b": (YES, 98.93),
    "M4c": (MAYBE, 18),
    "M5": (YES, {"nodes_in_order": True, "first_two_share_a_core": True}),
    "M6a": (YES, 0.9),
    "M6b": (NO, [689, 733]),
    "M6c": (ELSEWHERE, None),
}

STEPS_APART = ("consecutive", *(f"every call in {step}" for step in (2, 4, 5)))

# All that a claim holds for, or the first of many.
HOLDS = {
    "R4": [
        "numa (6.3 to 6.19)",
        "numa-single-pop (6.3 to 6.8 or so)",
        "cluster, stable sort (no kernel)",
    ],
    "R3c": ["single-CPU interrupts alone"],
    "R5a": [
        "rotate-v2, admin-first, requests device by device: counter at start modulo 24 is 0-23",
        "rotate-v2, interleaved, requests device by device: counter at start modulo 24 is 0-23",
    ],
    "R5b": [
        "rotate-v2, admin-first, requests device by device: counter at start modulo 24 is 0-14, "
        "22-23",
        "rotate-v2, interleaved, requests device by device: counter at start modulo 24 is 3-14",
    ],
    "R7b": [f"{step}: counter at start is 0-23" for step in STEPS_APART],
    "R8e": ["cluster, 4 groups: offset 0", "rotate-v2, 4 groups: offset 1-2, 4-5"],
    "R9a": ["overflow_4cpu, rotate-v2: counter 4294967295"],
    "R9c": ["a node's or cluster's number of groups is a power of 2"],
    "R10c": ["order admin-first, requests device by device: counter at start modulo 4 is 0-3"],
    "R12c": ["any grouping, an irqchip that chooses (ITS)"],
    "R12b": ["order admin-first: counter at start modulo 6 is 0-1, 4-5"],
    "R13b": [
        "order admin-first: counter at start modulo 7 is 0, 3-6",
        "order interleaved: counter at start modulo 7 is 2-6",
    ],
    "R14b": ["cluster: queues 1-46", "rotate-v2: queues 1-46"],
    "C2b": ["double-pop sort (7.0, 6.9 on)", "older, single-pop sort"],
    "R24": ["D96plds_v6, gicv3: queues 18, 22, 26, 30, 34, 38, 42, 46"],
    "M1": ["the code as merged"],
    "M3a": ["nodes counted from 1"],
    "M4c": ["faster: by the time for the same bytes"],
}


@pytest.fixture(scope="module")
def ledger():
    return {result.claim.name: result for result in check_claims()}


def test_every_id_is_there_in_order():
    assert list(dict.fromkeys(claim.id for claim in load_claims())) == IDS


def test_every_claim_has_a_scenario_and_none_is_left_over():
    names = [claim.name for claim in load_claims()]
    assert len(set(names)) == len(names)
    assert set(names) == set(SCENARIOS) == set(LEDGER)


@pytest.mark.parametrize("name", LEDGER)
def test_the_verdict_and_the_computed_value(ledger, name):
    kind, value = LEDGER[name]
    result = ledger[name]
    assert result.verdict == kind
    assert (result.computed[:1] or [None])[0] == value


@pytest.mark.parametrize("name", HOLDS)
def test_what_a_claim_holds_for(ledger, name):
    assert ledger[name].assumptions[: len(HOLDS[name])] == HOLDS[name]


def test_what_is_assumed_is_told_when_it_matters_and_only_then(ledger):
    for result in ledger.values():
        assert bool(result.assumptions) == (result.verdict == MAYBE)


def test_the_verdict_follows_from_the_comparison():
    right, wrong = Trial("a", {1: (2, 3)}), Trial("b", {1: (2, 4)})
    asserted = {"1": [2, 3]}  # as TOML has it
    assert verdict(asserted, [right, right]) == YES
    assert verdict(asserted, [right, wrong]) == MAYBE
    assert verdict(asserted, [wrong]) == NO
    assert verdict(asserted, []) == ELSEWHERE
    assert verdict(None, [right]) == ANSWERED


def test_linux_7_has_other_hot_cpus_than_r4_says(ledger):
    assert "0-1,4-5,38-49,52-53,86-95" in ledger["R4"].computed
    assert "really has 0-1,4-5,38-49,52-53,86-95." in ledger["R4"].outcome.note
    run = simulate("L96as_v4", revision="cluster")
    hot = [cpu for cpu, single in run.per_cpu["single"].items() if single]
    assert hot == [0, 1, 4, 5, *range(38, 50), 52, 53, *range(86, 96)]


@pytest.mark.parametrize("machine", ["D16plds_v6", "D96plds_v6", "L48s_v2"])
def test_the_search_places_as_the_simulation_does(machine):
    loaded = read_machine(machine)
    sequences = probe_sequences(len(loaded.devices))
    for sequence in sequences[:: 1 if machine == "D16plds_v6" else 40]:
        admin = (f"{device.name}:admin" for device in loaded.devices)
        default = (f"{device.name}:default" for device in loaded.devices)
        probe = [next(admin if call == "A" else default) for call in sequence]
        run = simulate(loaded, revision="rotate-v2", probe=probe, spread_start=5)
        offsets = [call.spread_offset for call in run.calls if call.kind == "default"]
        assert offsets == [5 + at for at, call in enumerate(sequence) if call == "I"]
        queues = loaded.devices[0].io_queues
        groupings = tuple(grouping_of(machine, "rotate-v2", queues, at) for at in offsets)
        assert placed(machine, groupings) == run.counts


def test_probe_sequences_are_all_and_each_once():
    def is_order(calls):
        return all(calls[:at].count("I") <= calls[:at].count("A") for at in range(len(calls) + 1))

    for devices in (1, 2, 3, 4):
        words = ("".join(calls) for calls in product("AI", repeat=2 * devices))
        expected = [word for word in words if word.count("A") == devices and is_order(word)]
        assert probe_sequences(devices) == expected
    assert len(probe_sequences(6)) == 132


@pytest.mark.parametrize(
    ("machine", "queues", "period"),
    [("L96as_v4", 62, 24), ("L48s_v2", 32, 4), ("D16plds_v6", 6, 6), ("D96plds_v6", 14, 7)],
)
def test_layouts_repeat_after_the_period_that_is_searched(machine, queues, period):
    for offset in range(period):
        repeated = {
            grouping_of(machine, "rotate-v2", queues, offset + period * n) for n in range(3)
        }
        assert len(repeated) == 1


def test_26_cpus_come_of_offsets_0_and_6_modulo_7(ledger):
    note = ledger["R13b"].outcome.note
    assert note.startswith("26 CPUs come of 433 of 924 orders and starts modulo 7: exactly those")
    for start in range(14):
        run = simulate("D96plds_v6", revision="rotate-v2", spread_start=start)
        offsets = [call.spread_offset for call in run.calls if call.kind == "default"]
        assert run.counts == d96_pattern(offsets)
        assert (run.summary.used == 26) == ({0, 6} <= {offset % 7 for offset in offsets})


def units(topology, numgrps, revision, offset):
    """Give (CPUs, groups) of every node or cluster that a call deals by itself."""
    grouping, steps = explain(topology, numgrps, revision=revision, spread_offset=offset)
    dealt: dict[tuple[int, object], list[int]] = {}
    for step in steps:
        if isinstance(step, Assigned):
            dealt.setdefault((step.node, step.cluster), []).append(len(step.cpus))
    return grouping, [(sum(sizes), len(sizes)) for sizes in dealt.values()]


@pytest.mark.parametrize("revision", ["numa", "cluster", "rotate-v2", "rotate-next"])
def test_the_exact_condition_for_small_groups(revision):
    """All groups have k CPUs if and only if every unit has k times as many CPUs as groups."""
    for count in range(1, 6):
        for topology in cluster_shapes(count, 1):
            for numgrps, offset in product(range(len(topology.nodes) + 1, count + 1), range(4)):
                grouping, dealt = units(topology, numgrps, revision, offset)
                smallest = min(map(len, grouping.masks))
                for k in range(1, 6):
                    assert (smallest >= k) == all(k * g <= n for n, g in dealt)


@pytest.mark.parametrize("revision", ["numa", "cluster"])
@pytest.mark.parametrize("k", [2, 3])
def test_the_proven_part_of_the_rule(revision, k):
    """Multiples of k: at most n / k groups fall to every unit of n CPUs."""
    assert smallest_rule_breaker(revision, k, k, 6) == ""


def test_equal_nodes_may_break_the_rule_too():
    machine = Topology.uniform(nodes=2, cpus_per_node=3, threads=1, cluster=0)
    assert sorted(map(len, group_cpus_evenly(machine, 3, revision="cluster").masks)) == [1, 2, 3]


def test_the_smallest_rule_breakers(ledger):
    note = ledger["R8c"].outcome.note
    assert "numa: 4 CPUs, nodes 0-2 | 3, 2 groups: 3 alone." in note
    assert "cluster: 4 CPUs, clusters 0-2 | 3, 2 groups: 3 alone." in note
    # Rotation breaks it with even clusters as well.
    assert "10 CPUs, clusters 0-3 | 4-7 | 8-9, 4 groups at offset 0: 8 alone" in note


def test_two_cpus_whose_disks_race():
    # Two disks with two single-CPU queues: nothing to choose.
    assert pair_outcomes(((1, 2), (1, 2))) == {(2, 2)}
    # A queue for both: it goes to the last CPU, unless the other disk was there first.
    assert pair_outcomes(((3,),)) == {(0, 1)}
    assert pair_outcomes(((2,), (3,))) == {(1, 1), (0, 2)}


def test_r11_needs_a_foreign_call_and_mixed_vectors(ledger):
    assumptions = ledger["R11b"].assumptions
    assert [re.findall(r"after disk (\d)", text) for text in assumptions] == [["1"], ["3"], ["5"]]
    assert all("mixed order" in text for text in assumptions)


def test_an_unknown_id_is_refused():
    with pytest.raises(RequestError, match=r"^claim 'R99': expected one of R1, R2, .*, M6$"):
        check_claims("R99")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"verdict": "reproduced"},
            "claims.toml: claims[0]: unknown field 'verdict'",
        ),
        ({"statement": None}, "claims.toml: claims[0].statement: missing; expected a text"),
        ({"source": "hearsay"}, "claims.toml: claims[0].source: 'hearsay'; expected one of"),
    ],
)
def test_a_bad_ledger_is_refused(change, message):
    entry = {"id": "X1", "source": "mail", "statement": "It is so.", "asserted": 1, **change}
    entry = {key: value for key, value in entry.items() if value is not None}
    with pytest.raises(FormatError) as caught:
        read_claims({"sources": {"mail": "A mail"}, "claims": [entry]}, "claims.toml")
    assert str(caught.value).startswith(message)


def test_a_good_ledger_is_read():
    entry = {"id": "X1", "source": "mail", "statement": "It is so.", "asserted": 1}
    doc = {"sources": {"mail": "A mail"}, "claims": [entry]}
    assert read_claims(doc, "claims.toml") == [Claim("X1", "", "A mail", "It is so.", 1)]


def test_no_verdict_is_typed_in():
    text = (read_machine.__globals__["data_dir"]() / "claims.toml").read_text("utf-8")
    assert not any(re.search(rf"\b{kind}\b", text) for kind in VERDICTS)


def test_the_command_prints_text_and_json(capsys, ledger):
    assert main(["claims", "--id", "R5"]) == 0
    assert capsys.readouterr().out == claims_text([ledger["R5a"], ledger["R5b"]]) + "\n"
    assert main(["claims", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == claims_document(list(ledger.values()))
    assert {row["id"] for row in document} == set(IDS)
    assert main(["claims", "--id", "R99"]) == 2
    assert capsys.readouterr().err.startswith("groupcpus: claim 'R99': expected one of R1, ")


def test_the_table_has_a_line_a_part(capsys, ledger):
    assert main(["claims"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = {line.split()[0]: line for line in lines[1:-2]}
    verdicts = [ledger[line.split()[0]].verdict for line in lines[1:-2]]
    assert verdicts == sorted(verdicts, key=[NO, MAYBE, YES, ANSWERED, ELSEWHERE].index)
    assert set(told) == set(ledger)
    for name, line in told.items():
        assert ledger[name].verdict in line
        assert len(line) <= 100


def test_no_random_order_keeps_r5_and_three_calls_are_as_bad_as_before(ledger):
    result = ledger["R5a"]
    random = [trial for trial in result.outcome.trials if "random" in trial.setting]
    assert len(random) == 384
    assert {trial.value["most"] for trial in random} == {5}
    assert "In lockstep from 0: 48 CPUs with 3, 12 with 4, 36 with 5." in result.outcome.note
    assert (
        "With three calls a disk, from 0: 64 CPUs with 3, 12 with 5, 20 with 6."
        in result.outcome.note
    )


def test_both_nodes_at_once_need_another_call_and_mixed_requests(ledger):
    settings = [trial.setting for trial in ledger["R11c"].matching]
    assert settings
    assert all("one more call" in text and "random" in text for text in settings)


def test_an_order_that_explains_r11_can_be_simulated_alone(ledger):
    trial = ledger["R11c"].matching[0]
    gap, seed = map(int, re.findall(r"\d+", trial.setting))
    offsets = [trial.number + disk + (0 < gap <= disk) for disk in range(6)]
    groupings = tuple(grouping_of("L48s_v2", "rotate-v2-skip1", 32, at) for at in offsets)
    counts = placed("L48s_v2", groupings, f"random-{seed}")
    nodes = read_machine("L48s_v2").topology.nodes
    spans = [(min(own), max(own)) for own in ([counts[c] for c in nodes[n]] for n in (0, 1))]
    assert spans == [(3, 5), (3, 4)]


def test_what_each_reading_is_said(ledger):
    assert "asserted  nothing" in claims_text([ledger["R13d"]])
    assert "read as   " in claims_text([ledger["R15b"]])
    assert "18 of nvme0's 62 masks change at a reset" in ledger["R18b"].outcome.note


def test_no_reader_sees_braces_or_code(ledger):
    results = list(ledger.values())
    for text in (claims_text(results), claims_table(results)):
        assert not re.findall(r"[{}]|\[[0-9'\"]|\bTrue\b|\bFalse\b|\bNone\b", text)
    rows = re.findall(r"<td.*?</td>", Ledger(results)._repr_html_(), re.DOTALL)
    assert len(rows) == 3 * len(results)
    assert not re.findall(r"[{}]|\[[0-9'\"]|\bTrue\b|\bFalse\b|\bNone\b", "".join(rows))


def test_a_row_of_the_table_has_a_sentence_a_line_a_badge_and_folded_details(ledger):
    shown = Ledger([ledger["R2a"], ledger["C2c"]])._repr_html_()
    first, second = re.findall(r"<tr>\s*<td.*?</tr>", shown, re.DOTALL)
    assert ">C2c<" in first
    assert "It is interrupts 1 and 2 that have 2 CPUs.<br>" in first
    assert "<i>It says 1 and 2; computed: 10 and 11.</i><details><summary>" in first
    assert "\u2717 contradicted</span>" in first
    assert "<i>So it is, in all 5 settings.</i>" in second
    assert "<b>computed</b> 17 groups of 2, 14 groups of 1<br>" in second
    assert "http" not in shown
    assert "<script" not in shown
    assert shown.endswith("<p>1 reproduced, 1 contradicted</p>")


def test_what_a_mail_says_is_no_markup():
    claim = Claim("X1", "", "<b>mail</b>", "1 < 2 & so on", 1, "<i>so</i>")
    result = Result(claim, Outcome((Trial("", 1),), note="a <script>"), YES)
    shown = Ledger([result])._repr_html_()
    assert "1 &lt; 2 &amp; so on" in shown
    assert not re.search("<b>mail|<i>so|<script", shown)


@pytest.mark.browser
def test_the_table_is_ordered_by_what_is_chosen_and_unfolds(ledger, tmp_path):
    results = [ledger[name] for name in ("R2a", "R4", "R4b", "R13d", "M6b")]
    page_file = tmp_path / "ledger.html"
    page_file.write_text(f"<!doctype html>{Ledger(results)._repr_html_()}", encoding="utf-8")

    with open_page() as (page, requested):
        page.goto(page_file.as_uri())

        def order():
            cells = page.locator("td:first-child").all()
            boxes = {cell.inner_text(): cell.bounding_box() or {"y": -1.0} for cell in cells}
            return sorted(boxes, key=lambda name: boxes[name]["y"])

        assert order() == ["R4b", "M6b", "R4", "R2a", "R13d"]
        page.get_by_label("claim").check()
        assert order() == ["R2a", "R4", "R4b", "R13d", "M6b"]
        details = page.locator("details").first
        assert not details.get_by_text("asserted").is_visible()
        details.locator("summary").click()
        assert details.get_by_text("asserted").is_visible()
        assert requested == [page_file.as_uri()]
