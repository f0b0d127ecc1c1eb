# SPDX-License-Identifier: GPL-2.0-only
"""Reads topology documents, as JSON and TOML files hold them; `Topology.from_dict` asks it."""

import re
from collections.abc import Mapping
from typing import Any

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.errors import CpuListError, TopologyError, brief

__all__ = ["MAX_NODES", "read_document"]

# CONFIG_NODES_SHIFT is at most 10.
MAX_NODES = 1024

_SETS = ("possible", "present", "online", "no_cluster")
_LISTS = ("clusters", "siblings", "llcs")
_FIELDS = ("nodes", *_SETS, *_LISTS, "distances")


def read_document(doc: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a document says as arguments of `Topology`, which checks that they fit.

    Raises
    ------
    TopologyError
        If a field is missing, unknown or not of its kind.

    Examples
    --------
    >>> read_document({"nodes": {"0": "0-3"}, "possible": "0-3", "present": "0-1"})["nodes"]
    {0: CpuSet('0-3')}
    """
    if not isinstance(doc, Mapping):
        raise TopologyError(f"topology {brief(doc)}: expected a table of fields")
    if unknown := sorted(map(str, set(doc) - set(_FIELDS))):
        raise TopologyError(
            f"topology: unknown field {brief(unknown[0])}; expected {', '.join(sorted(_FIELDS))}"
        )
    for field in ("nodes", "possible", "present"):
        if field not in doc:
            raise TopologyError(f"{field}: missing")
    if not isinstance(doc["nodes"], Mapping) or not doc["nodes"]:
        raise TopologyError(f"nodes: {brief(doc['nodes'])} is no table of node ids to cpulists")
    nodes = {
        _node(node): _cpulist(f"nodes: node {node}", cpus) for node, cpus in doc["nodes"].items()
    }
    fields: dict[str, Any] = {"nodes": nodes, "distances": doc.get("distances")}
    fields |= {field: _cpulist(field, doc[field]) for field in _SETS if field in doc}
    fields |= {field: _cpulists(field, doc[field]) for field in _LISTS if field in doc}
    return {"online": fields["present"]} | fields


def _cpulist(field: str, text: object) -> CpuSet:
    if not isinstance(text, str):
        raise TopologyError(f"{field}: {brief(text)} is no cpulist such as '0-3,8'")
    try:
        return CpuSet(text)
    except CpuListError as error:
        raise TopologyError(f"{field}: {error}") from None


def _cpulists(field: str, texts: object) -> list[CpuSet]:
    if not isinstance(texts, list | tuple):
        raise TopologyError(f"{field}: {brief(texts)} is no list of cpulists")
    if len(texts) > MAX_CPUS:
        raise TopologyError(f"{field}: {len(texts)} cpulists, but at most {MAX_CPUS} CPUs")
    return [_cpulist(field, text) for text in texts]


def _node(node: object) -> int:
    if not (isinstance(node, str) and re.fullmatch("0|[1-9][0-9]{0,3}", node)):
        raise TopologyError(f"nodes: {brief(node)} is no node id from 0 to {MAX_NODES - 1}")
    return int(node)
