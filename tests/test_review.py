# SPDX-License-Identifier: GPL-2.0-only
import os
import pickle
import random
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path

import pytest

from groupcpus import (
    REVISIONS,
    CpuSet,
    Life,
    Revision,
    Topology,
    explain,
    group_cpus_evenly,
    load_machine,
    panels,
    simulate,
)
from groupcpus.engine.topology import MAX_NODES
from groupcpus.errors import RequestError
from groupcpus.studies.invariants import check_revision
from groupcpus.studies.lessons import allotments
from groupcpus.studies.review.building import BuildError, build
from groupcpus.studies.review.compiled import from_sources, revision_from_c
from groupcpus.studies.review.reading import (
    PatchError,
    apply_patch,
    read_sources,
)
from groupcpus.studies.review.running import Child, CrashError, Request
from groupcpus.studies.sweeps import sweep
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


def test_from_c_is_a_revision_that_sweeps_lives_and_explorers_take(monkeypatch):
    compiled = Revision.from_c(OWN / "tiled", name="my C")
    assert len(repr(compiled)) < 1000
    machine = load_machine("D16plds_v6")
    lives = []
    for revision in (compiled, "rotate-tiled"):
        life = Life(machine, revision=revision)
        life.then("offline 3; reset nvme0; online 3")
        lives.append(life.interrupts)
    assert lives[0] == lives[1]
    for workers in (0, 2):
        frame = sweep(
            [machine],
            devices=[1, 2],
            revisions=[compiled, "rotate-tiled"],
            requests=["lockstep"],
            workers=workers,
            progress=False,
        )
        rows = dict(list(frame.groupby("revision", observed=True)))
        mine, named = (rows[name].drop(columns="revision") for name in ("my C", "rotate-tiled"))
        assert mine.to_dict("list") == named.to_dict("list")
    assert check_revision(compiled)["first counter-example"].eq("holds").all()
    with pytest.raises(RequestError, match="no groups are allotted"):
        allotments(machine.topology, 6, revision=compiled)
    pytest.importorskip("ipywidgets")
    monkeypatch.setitem(REVISIONS, "my C", compiled)
    panel = panels.explorer(machine)
    panel.controls["after"].value = "my C"
    assert "my C" in panel.text
    steps = panels.stepper(machine.topology, 6, revision="my C")
    assert not steps.error


def test_steps_of_c_say_which_cpus_of_which_node(plain):
    crossing = Topology.from_dict(
        {"nodes": {"0": "0", "1": "1-3"}, "possible": "0-3", "present": "0-2"}
    )
    _, steps = explain(crossing, 3, revision=from_sources(plain))
    assert [str(step) for step in steps] == [
        "compiled C: assign CPUs 0-3 of nodes 0, 1 to 3 groups, from group 0 on",
        "group 0: CPU 0 of node 0",
        "group 0: CPU 3 of node 1",
        "group 1: CPU 2 of node 1",
        "group 2: CPU 1 of node 1",
    ]


def test_forked_process_asks_a_child_of_its_own(tiled):
    expected = tiled.ask(SMALL, [Request(3, 1)])
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        assert list(pool.map(ask_small, [tiled] * 6)) == [expected] * 6
    assert tiled.ask(SMALL, [Request(3, 1)]) == expected


def ask_small(revision):
    return revision.ask(SMALL, [Request(3, 1)])


@pytest.mark.parametrize(
    ("line", "crash"),
    [
        ("for (;;) kmalloc(1 << 24, GFP_KERNEL);", "more than 256 MiB was allocated in one call"),
        ('for (;;) printf("answer 1 1 1 1 1 0\\n1\\n");', "it writes without end"),
    ],
)
def test_limits_of_a_child(plain, line, crash):
    greedy = changed(plain, "	kfree(firsts);\n", f"	kfree(firsts);\n	{line}\n")
    assert answer(greedy, Request(8)).crash == crash


def test_compiler_has_limits_and_reads_no_file_but_the_trees(plain):
    for name in ("/etc/passwd", "../../../secret.h"):
        with pytest.raises(BuildError, match="which is no kernel header"):
            build(changed(plain, "<linux/slab.h>", f'"{name}"'), 512)
    text = 'A(A(A(A(A(A(A(A(A(A(A("x")))))))))))'
    bomb = f"#define A(x) x x x x x x x x\nstatic const char *q = {text};\n"
    with pytest.raises(BuildError, match="does not compile"):
        build(changed(plain, "/* Where the next", f"{bomb}/* Where the next"), 512)


def test_nothing_is_left_after_an_interrupt(tmp_path):
    """Ctrl-C ends what is compiled and asked, and its files go."""
    code = (
        "from groupcpus import Revision, Topology, group_cpus_evenly\n"
        "import os, signal, sys\n"
        "tree, machine = sys.argv[1], Topology.uniform(1, 4)\n"
        "group_cpus_evenly(machine, 3, revision=Revision.from_c(tree))\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
    )
    command = [sys.executable, "-c", code, str(OWN / "plain")]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    assert "KeyboardInterrupt" in done.stderr
    assert not list(tmp_path.iterdir())


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
