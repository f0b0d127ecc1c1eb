# SPDX-License-Identifier: GPL-2.0-only
import pickle
import random
import shutil
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from groupcpus import CpuSet, Topology, group_cpus_evenly, load_machine, simulate
from groupcpus.engine.topology import MAX_NODES
from groupcpus.studies.review.building import BuildError, build
from groupcpus.studies.review.compiled import from_sources, revision_from_c
from groupcpus.studies.review.reading import (
    PatchError,
    apply_patch,
    read_sources,
)
from groupcpus.studies.review.running import Child, CrashError, Request
from tests.vectors import machines

OWN = Path(str(files("groupcpus.studies.review").joinpath("c")))

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"
)

SMALL = Topology.uniform(nodes=2, cpus_per_node=4, threads=2)


@pytest.fixture(scope="module")
def plain():
    return read_sources(OWN / "plain")


@pytest.fixture(scope="module")
def tiled():
    return revision_from_c(OWN / "tiled", sanitized=True)


def changed(sources, old, new):
    assert sources.group_cpus.count(old) == 1
    return replace(sources, group_cpus=sources.group_cpus.replace(old, new))


def answer(sources, request, topology=SMALL, seconds=2):
    with Child(build(sources, 512), seconds) as child:
        return child.ask(topology, [request])[0]


def test_own_c_gives_every_vector_of_cluster(plain):
    wrong = count = 0
    with Child(build(plain)) as child:
        for document, cases in machines():
            asked = [case for case in cases if case.revision == "cluster"]
            requests = [Request(case.numgrps) for case in asked]
            answers = child.ask(Topology.from_dict(document), requests)
            for case, given in zip(asked, answers, strict=True):
                masks = tuple(str(CpuSet.from_mask(mask)) for mask in given.masks or ())
                count += 1
                wrong += (masks, given.nummasks) != (case.masks, case.nummasks)
                assert not given.leaks
                assert not given.warnings
    assert (count, wrong) == (4676, 0)


def test_c_rotation_equals_the_python_one_on_the_vectors_machines(tiled):
    rng = random.Random(3)
    for document, cases in machines():
        topology = Topology.from_dict(document)
        case = rng.choice(cases)
        counters = (case.spread_offset, rng.randrange(1 << 32), (1 << 32) - rng.randrange(1, 40))
        requests = [Request(case.numgrps, counter) for counter in counters]
        for request, given in zip(requests, tiled.ask(topology, requests), strict=True):
            expected = group_cpus_evenly(
                topology, case.numgrps, revision="rotate-tiled", spread_offset=request.counter
            )
            assert not given.crash
            assert (given.masks, given.nummasks) == (expected.bits, expected.nummasks), request


def test_largest_machine_is_answered(tiled):
    large = Topology.uniform(nodes=32, cpus_per_node=256, threads=4, cluster=8)
    expected = group_cpus_evenly(large, 100, revision="rotate-tiled", spread_offset=9)
    assert group_cpus_evenly(large, 100, revision=tiled, spread_offset=9) == expected
    nodes = Topology.uniform(nodes=MAX_NODES, cpus_per_node=8)
    expected = group_cpus_evenly(nodes, 1030, revision="rotate-tiled", spread_offset=9)
    assert group_cpus_evenly(nodes, 1030, revision=tiled, spread_offset=9) == expected


def test_compiled_revision_runs_like_any_other(tiled):
    machine = load_machine("L48s_v2")
    ours = simulate(machine, revision=tiled, spread_start=5)
    named = simulate(machine, revision="rotate-tiled", spread_start=5)
    assert ours.irqs.equals(named.irqs)
    copy = pickle.loads(pickle.dumps(tiled))
    assert group_cpus_evenly(SMALL, 3, revision=copy) == group_cpus_evenly(
        SMALL, 3, revision="rotate-tiled"
    )


def test_counter_is_set_whatever_it_is_called(plain):
    named = changed(
        plain,
        "static int compare_parts",
        "static unsigned int some_count = 7;\n\nstatic int compare_parts",
    )
    plain_counter = changed(named, "extra = part->ncpus % part->ngroups;", "extra = some_count++;")
    hidden = changed(
        plain,
        "	unsigned int group;\n\n	for (group = 0;",
        "	static atomic_t hidden = ATOMIC_INIT(5);\n	unsigned int group;\n\n"
        "	extra = atomic_fetch_inc(&hidden);\n	for (group = 0;",
    )
    for sources in (plain_counter, hidden):
        given = answer(sources, Request(2, 1), Topology.uniform(1, 4, threads=1, cluster=4))
        assert given.masks == (0b0111, 0b1000)
        assert given.advance == 1


def test_a_loop_is_a_finding_and_the_next_call_is_answered(plain):
    loops = changed(
        plain,
        "	while (room && (cpu",
        "	while (room == 3) barrier();\n	while (room && (cpu",
    )
    three = Topology.uniform(nodes=1, cpus_per_node=7, threads=1, cluster=0)
    with Child(build(loops, 512), seconds=1) as child:
        answers = child.ask(three, [Request(7), Request(2), Request(7)])
    assert [bool(given.crash) for given in answers] == [False, True, False]
    assert answers[1].crash == "it loops: a call was still running after 1 s of CPU time"


def test_memory_errors_are_findings_with_function_and_line(plain):
    beyond = changed(plain, "if (place->next >= place->count)", "if (place->next > place->count)")
    if not build(beyond, 512).sanitized:
        pytest.skip("the compiler has no sanitizers")
    nodes = {"0": "0", "1": "1", "2": "2"}
    three = Topology.from_dict({"nodes": nodes, "possible": "0-2", "present": "0-2"})
    crash = answer(beyond, Request(2), three).crash
    assert crash.startswith("heap-buffer-overflow in ")
    assert "lib/group_cpus.c:" in crash
    freed = changed(plain, "	kfree(firsts);\n", "	kfree(firsts);\n	kfree(firsts);\n")
    assert "double-free" in answer(freed, Request(8)).crash
    divides = changed(plain, "part->ncpus % part->ngroups", "part->ncpus % (part->ngroups - 2)")
    assert (
        "division by zero"
        in answer(divides, Request(2, 0), Topology.uniform(1, 4, cluster=4)).crash
    )


def test_leaks_and_failed_allocations_are_told(plain):
    leaks = changed(plain, "	kfree(firsts);\n", "")
    assert answer(leaks, Request(8)).leaks == 2
    whole = answer(plain, Request(8))
    with Child(build(plain, 512)) as child:
        failing = child.ask(SMALL, [Request(8, 0, n) for n in range(1, whole.allocations + 2)])
    assert [given.masks is None for given in failing[:2]] == [True, True]
    assert failing[-1] == whole
    assert not any(given.leaks for given in failing)


def test_sources_that_do_not_compile_or_lack_a_symbol_say_so(plain):
    broken = changed(plain, "		nr++;\n", "		nr++\n")
    with pytest.raises(BuildError, match=r"lib/group_cpus.c:\d+: does not compile: expected ';'"):
        build(broken, 512)
    lacking = changed(plain, "return (int)(l->ncpus", "return get_random_u32() + (int)(l->ncpus")
    with pytest.raises(BuildError, match="needs get_random_u32") as caught:
        build(lacking, 512)
    assert caught.value.symbols == ("get_random_u32",)


def test_null_is_an_error_of_a_revision(plain):
    nothing = changed(
        plain, "	return place.masks;\n", "	kfree(place.masks);\n	return NULL;\n"
    )
    with pytest.raises(CrashError, match="returned NULL"):
        group_cpus_evenly(SMALL, 2, revision=from_sources(nothing))


def test_patches_apply_to_a_copy():
    text = "a\nb\nc\nd\ne\n"
    diff = "--- a/x\n+++ b/x\n@@ -2,3 +2,4 @@ f\n b\n-c\n+C\n+CC\n d\n"
    assert apply_patch({"x": text}, diff) == {"x": "a\nb\nC\nCC\nd\ne\n"}
    moved = apply_patch({"x": f"0\n0\n0\n{text}"}, f"From: somebody\n\n{diff}\n-- \n2.43\n> {diff}")
    assert moved["x"].startswith("0\n0\n0\na\nb\nC\n")
    with pytest.raises(PatchError, match="no diff of one of them"):
        apply_patch({"y": text}, diff)
    with pytest.raises(PatchError, match="the hunk at line 2 has no place"):
        apply_patch({"x": "a\nb\nX\nd\n"}, diff)
    with pytest.raises(PatchError, match="cut short"):
        apply_patch({"x": text}, diff[:-4] + "\n")
    with pytest.raises(PatchError, match="its line ends are lost"):
        apply_patch({"x": text}, diff.replace("\n", " "))


def test_trees_without_the_file_say_which_kernels_have_it(tmp_path):
    with pytest.raises(PatchError, match=r"group_cpus.c: there is no such file$"):
        read_sources(tmp_path)
    (tmp_path / "kernel/irq").mkdir(parents=True)
    (tmp_path / "kernel/irq/affinity.c").write_text("", encoding="utf-8")
    with pytest.raises(PatchError, match="irq_build_affinity_masks"):
        read_sources(tmp_path)
