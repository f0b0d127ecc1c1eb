// SPDX-License-Identifier: GPL-2.0-only
/*
 * Written by groupcpus kit.  KUnit cases for lib/group_cpus.c: tables of known answers, and what
 * must hold of any.  Put it beside the file, with group_cpus_fixture.h and group_cpus_cases.h.
 */
#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/group_cpus.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/topology.h>

#include "group_cpus_fixture.h"

static void group_cpus_known_answers(struct kunit *test)
{
	unsigned int at, nummasks;
	int cpu;

	for (at = 0; at < ARRAY_SIZE(case_calls); at++) {
		const struct case_call *call = &case_calls[at];
		const struct case_machine *machine = &case_machines[call->machine];
		struct cpumask *masks;

		if (machine->ncpus > nr_cpu_ids)
			continue;
		masks = fixture_call(machine, call->numgrps, call->counter, &nummasks);
		KUNIT_ASSERT_NOT_NULL(test, masks);
		KUNIT_EXPECT_EQ(test, nummasks, call->nummasks);
		for (cpu = 0; cpu < machine->ncpus; cpu++)
			KUNIT_EXPECT_EQ_MSG(test, fixture_group(masks, call->numgrps, cpu),
					    call->group[cpu], "%s, %u groups, counter %u, CPU %d",
					    machine->name, call->numgrps, call->counter, cpu);
		kfree(masks);
	}
}

static void group_cpus_every_cpu_once(struct kunit *test)
{
	unsigned int at, numgrps, nummasks, turn;

	for (at = 0; at < ARRAY_SIZE(case_machines); at++) {
		const struct case_machine *machine = &case_machines[at];

		if (machine->ncpus > nr_cpu_ids)
			continue;
		for (numgrps = 1; numgrps <= machine->ncpus + 1; numgrps++) {
			for (turn = 0; turn < 8; turn++) {
				/* Four counters before the wrap, and four after it. */
				u32 counter = turn * numgrps - 4 * numgrps - 1;
				struct cpumask *masks = fixture_call(machine, numgrps, counter,
								     &nummasks);

				KUNIT_ASSERT_NOT_NULL(test, masks);
				KUNIT_EXPECT_NULL_MSG(test, fixture_judge(masks, numgrps, nummasks),
						      "%s, %u groups, counter %u", machine->name,
						      numgrps, counter);
				kfree(masks);
			}
		}
	}
}

static struct kunit_case group_cpus_cases[] = {
	KUNIT_CASE(group_cpus_known_answers),
	KUNIT_CASE(group_cpus_every_cpu_once),
	{}
};

static struct kunit_suite group_cpus_suite = {
	.name = "group_cpus",
	.test_cases = group_cpus_cases,
};
kunit_test_suite(group_cpus_suite);

MODULE_DESCRIPTION("KUnit cases for group_cpus_evenly()");
MODULE_LICENSE("GPL");
