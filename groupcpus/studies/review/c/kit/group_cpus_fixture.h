/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Written by groupcpus kit.  Machines that lib/group_cpus.c can be asked about, one after the other:
 * include this after the kernel's headers, and the file under test is part of it, with the lookups
 * of the machine turned to the tables of group_cpus_cases.h.
 */
#include "group_cpus_cases.h"

static struct cpumask fixture_possible, fixture_present;
static struct cpumask fixture_cores[CASE_CPUS], fixture_clusters[CASE_CPUS], fixture_none;
static const struct case_machine *fixture_machine;

static int fixture_node(int cpu)
{
	return fixture_machine->node[cpu];
}

static const struct cpumask *fixture_core(int cpu)
{
	return &fixture_cores[fixture_machine->core[cpu]];
}

static const struct cpumask *fixture_cluster(int cpu)
{
	int cluster = fixture_machine->cluster[cpu];

	return cluster < 0 ? &fixture_none : &fixture_clusters[cluster];
}

static void fixture_set(const struct case_machine *machine)
{
	int cpu;

	fixture_machine = machine;
	cpumask_clear(&fixture_possible);
	cpumask_clear(&fixture_present);
	for (cpu = 0; cpu < machine->ncpus; cpu++) {
		cpumask_clear(&fixture_cores[cpu]);
		cpumask_clear(&fixture_clusters[cpu]);
	}
	for (cpu = 0; cpu < machine->ncpus; cpu++) {
		cpumask_set_cpu(cpu, &fixture_possible);
		if (machine->present[cpu])
			cpumask_set_cpu(cpu, &fixture_present);
		cpumask_set_cpu(cpu, &fixture_cores[machine->core[cpu]]);
		if (machine->cluster[cpu] >= 0)
			cpumask_set_cpu(cpu, &fixture_clusters[machine->cluster[cpu]]);
	}
}

#undef cpu_possible_mask
#undef cpu_present_mask
#undef cpu_to_node
#undef nr_node_ids
#undef topology_sibling_cpumask
#undef topology_cluster_cpumask
#undef EXPORT_SYMBOL_GPL
#define cpu_possible_mask ((const struct cpumask *)&fixture_possible)
#define cpu_present_mask ((const struct cpumask *)&fixture_present)
#define cpu_to_node(cpu) fixture_node(cpu)
#define nr_node_ids ((unsigned int)fixture_machine->nodes)
#define topology_sibling_cpumask(cpu) fixture_core(cpu)
#define topology_cluster_cpumask(cpu) fixture_cluster(cpu)
#define EXPORT_SYMBOL_GPL(name)
#define group_cpus_evenly tested_group_cpus_evenly

struct cpumask *tested_group_cpus_evenly(unsigned int numgrps, unsigned int *nummasks);
#ifndef CASE_FILE
#define CASE_FILE "group_cpus.c"
#endif
#include CASE_FILE

static struct cpumask *fixture_call(const struct case_machine *machine, unsigned int numgrps,
				    u32 counter, unsigned int *nummasks)
{
	fixture_set(machine);
#ifdef CASE_COUNTER
	atomic_set(&CASE_COUNTER, counter);
#endif
	*nummasks = 0;
	return tested_group_cpus_evenly(numgrps, nummasks);
}

/* Return the group that has a CPU; -1: none, -2: several. */
static int fixture_group(const struct cpumask *masks, unsigned int numgrps, int cpu)
{
	unsigned int group;
	int found = -1;

	for (group = 0; group < numgrps; group++)
		if (cpumask_test_cpu(cpu, &masks[group]))
			found = found < 0 ? (int)group : -2;
	return found;
}

/* Return what is wrong with the masks of a call, or NULL: each CPU in one, and none without need. */
static const char *fixture_judge(const struct cpumask *masks, unsigned int numgrps,
				 unsigned int nummasks)
{
	unsigned int group, filled = 0, all = 0;
	int cpu;

	for (cpu = 0; cpu < fixture_machine->ncpus; cpu++)
		if (fixture_group(masks, numgrps, cpu) < 0)
			return "a CPU is in no mask, or in two";
	for (group = 0; group < numgrps; group++) {
		all += cpumask_weight(&masks[group]);
		filled += !cpumask_empty(&masks[group]);
	}
	if (all != fixture_machine->ncpus)
		return "a mask has a CPU that is not possible";
	if (filled != min(numgrps, (unsigned int)fixture_machine->ncpus))
		return "a mask is empty though there are CPUs";
	if (nummasks < filled || nummasks > numgrps)
		return "nummasks is not the number of masks filled";
	return NULL;
}
