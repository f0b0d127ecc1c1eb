# SPDX-License-Identifier: GPL-2.0-only
"""States of explorers go into mails and come back; presets show what claims are about."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus.errors import FormatError
from groupcpus.machines import machine as machines
from groupcpus.panels.states import FIELDS, format_state, is_state, load_presets, parse_state
from groupcpus.studies.claims import load_claims


@given(
    st.dictionaries(st.sampled_from(FIELDS[1:]), st.text(max_size=60).filter(bool)),
    st.text(max_size=60).filter(bool),
)
def test_any_values_come_back(values, machine):
    state = {"machine": machine, **values}
    line = format_state(state)
    assert "\n" not in line
    assert is_state(line)
    assert parse_state(line) == state


@pytest.mark.parametrize("wrapped", ["{}\n", "> {}", ">> {}\n", "  groupcpus {}", "groupcpus:\n{}"])
def test_mails_may_wrap_and_quote_it(wrapped):
    state = 'machine=custom topology="node:2\n> core:2 pu:2"\n> devices=2'
    found = parse_state(wrapped.format(state))
    assert found == {"machine": "custom", "topology": "node:2 core:2 pu:2", "devices": "2"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "does not begin"),
        ("devices=2 machine=L96as_v4", "does not begin"),
        ("machine=L96as_v4 colour=red", "unknown field 'colour'"),
        ("machine=L96as_v4 devices=2 devices=3", "devices is there twice"),
        ("machine=L96as_v4 devices", "expected fields such as"),
        ('machine="L96as_v4', "expected fields such as"),
        (r'machine="\x"', "escape"),
        ("machine=" + "x" * 1_100_000, "characters"),
    ],
)
def test_other_texts_are_refused(text, words):
    with pytest.raises(FormatError) as error:
        parse_state(text)
    assert words in str(error.value)
    assert len(str(error.value)) < 200


def test_presets_are_about_claims_and_can_be_read():
    presets = load_presets()
    claims = {claim.id for claim in load_claims()}
    assert len(presets) >= 8
    for preset in presets:
        assert preset.claim in claims
        assert parse_state(preset.state)["machine"] in machines.machine_names()
    assert len({preset.label for preset in presets}) == len(presets)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[presets]]", r"presets\[0\].claim: missing; expected a text"),
        (
            "[[presets]]\nclaim = 1\ntitle = ''\nstate = ''",
            r"presets\[0\].claim: 1; expected a text",
        ),
        ("[[presets]]\nclaim = ''\ntitle = ''\nstate = 'x'", "does not begin"),
        ("[[", "not a TOML file"),
    ],
)
def test_a_damaged_table_of_presets_is_named(tmp_path, monkeypatch, text, words):
    (tmp_path / "presets.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr("groupcpus.panels.states.data_dir", lambda: tmp_path)
    with pytest.raises(FormatError, match=words):
        load_presets()


def test_a_topology_document_survives_quoting():
    document = json.dumps({"nodes": {"0": "0-3"}, "possible": "0-3", "present": "0-3"})
    line = format_state({"machine": "custom", "topology": document})
    assert json.loads(parse_state("> " + line.replace(" ", "\n> "))["topology"]) == json.loads(
        document
    )
