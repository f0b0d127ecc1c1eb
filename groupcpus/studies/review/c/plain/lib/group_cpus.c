// SPDX-License-Identifier: GPL-2.0-only
/*
 * group_cpus_evenly() as Linux 7.0 on computes it: by node, then by cluster.
 *
 * Written anew for the groupcpus project from its Python engine; not the kernel's text.
 */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/cpu.h>
#include <linux/sort.h>
#include <linux/group_cpus.h>

/* A node, or a cluster of a node, and what it is given in a call. */
struct part {
	unsigned int id;
	unsigned int ncpus;
	unsigned int ngroups;
};

/* Where the next group is, of how many. */
struct place {
	struct cpumask *masks;
	unsigned int next;
	unsigned int count;
};

static struct cpumask *next_mask(struct place *place)
{
	if (place->next >= place->count)
		place->next = 0;
	return &place->masks[place->next++];
}

static void move_cpu(unsigned int cpu, struct cpumask *from, struct cpumask *to)
{
	cpumask_clear_cpu(cpu, from);
	cpumask_set_cpu(cpu, to);
}

/* Fill a group with the lowest CPUs that are left, the siblings of each right after it. */
static void fill_group(struct cpumask *group, struct cpumask *left, unsigned int room)
{
	unsigned int cpu, thread;

	while (room && (cpu = cpumask_first(left)) < nr_cpu_ids) {
		const struct cpumask *core = topology_sibling_cpumask(cpu);

		move_cpu(cpu, left, group);
		room--;
		for_each_cpu(thread, core) {
			if (!room)
				break;
			if (cpumask_test_cpu(thread, left)) {
				move_cpu(thread, left, group);
				room--;
			}
		}
	}
}

static int compare_parts(const void *left, const void *right)
{
	const struct part *l = left, *r = right;

	/* Parts without CPUs have UINT_MAX and come first: the difference is signed. */
	return (int)(l->ncpus - r->ncpus);
}

/* Allot groups in proportion to CPUs, at least one each; the smallest part is served first. */
static void allot(struct part *parts, unsigned int nr, unsigned int ngroups, unsigned int ncpus)
{
	unsigned int i;

	sort(parts, nr, sizeof(*parts), compare_parts, NULL);
	for (i = 0; i < nr; i++) {
		struct part *part = &parts[i];

		if (part->ncpus == UINT_MAX)
			continue;
		part->ngroups = max(1U, (unsigned int)((u64)ngroups * part->ncpus / ncpus));
		WARN_ON_ONCE(part->ngroups > part->ncpus);
		ngroups -= part->ngroups;
		ncpus -= part->ncpus;
	}
}

/* Divide CPUs among groups; the first ones get one more where that does not come out even. */
static void assign(struct part *part, struct cpumask *cpus, struct place *place)
{
	unsigned int share = part->ncpus / part->ngroups;
	unsigned int extra = part->ncpus % part->ngroups;
	unsigned int group;

	for (group = 0; group < part->ngroups; group++)
		fill_group(next_mask(place), cpus, share + (group < extra));
}

/* Count the clusters of some CPUs; 0: one of them is not known. */
static unsigned int count_clusters(const struct cpumask *cpus, struct cpumask *left)
{
	unsigned int cpu, nr = 0;

	cpumask_copy(left, cpus);
	while ((cpu = cpumask_first(left)) < nr_cpu_ids) {
		const struct cpumask *cluster = topology_cluster_cpumask(cpu);

		if (cpumask_empty(cluster))
			return 0;
		cpumask_andnot(left, left, cluster);
		nr++;
	}
	return nr;
}

/* Divide a node by cluster, if it has groups for all of them. */
static bool assign_by_cluster(struct part *node, struct cpumask *cpus, struct place *place)
{
	unsigned int nr, i, cpu;
	struct part *parts = NULL;
	unsigned int *firsts = NULL;
	cpumask_var_t left;
	bool done = false;

	if (!zalloc_cpumask_var(&left, GFP_KERNEL))
		return false;
	nr = count_clusters(cpus, left);
	if (!nr || nr > node->ngroups)
		goto out;
	parts = kcalloc(nr, sizeof(*parts), GFP_KERNEL);
	firsts = kcalloc(nr, sizeof(*firsts), GFP_KERNEL);
	if (!parts || !firsts)
		goto out;

	cpumask_copy(left, cpus);
	for (i = 0; i < nr; i++) {
		const struct cpumask *cluster;

		cpu = cpumask_first(left);
		cluster = topology_cluster_cpumask(cpu);
		firsts[i] = cpu;
		parts[i].id = i;
		parts[i].ncpus = cpumask_weight_and(cluster, cpus);
		cpumask_andnot(left, left, cluster);
	}
	allot(parts, nr, node->ngroups, node->ncpus);
	for (i = 0; i < nr; i++) {
		cpumask_and(left, cpus, topology_cluster_cpumask(firsts[parts[i].id]));
		assign(&parts[i], left, place);
	}
	done = true;
out:
	kfree(firsts);
	kfree(parts);
	free_cpumask_var(left);
	return done;
}

/* Give whole nodes to groups in turn. */
static void assign_nodes(const struct part *parts, unsigned int nr, struct place *place,
			 const struct cpumask *cpus)
{
	unsigned int i, cpu;

	for (i = 0; i < nr; i++) {
		const struct part *node = &parts[i];
		struct cpumask *mask = next_mask(place);

		for_each_cpu(cpu, cpus)
			if (cpu_to_node(cpu) == node->id)
				cpumask_set_cpu(cpu, mask);
	}
}

/* Assign the CPUs of one stage.  Return how many groups were filled, or an error. */
static int assign_stage(struct place *place, const struct cpumask *cpus)
{
	unsigned int nr = 0, i, cpu, ncpus = cpumask_weight(cpus), ngroups;
	struct part *parts;
	cpumask_var_t left;
	int ret = -ENOMEM;

	if (!ncpus)
		return 0;
	if (!zalloc_cpumask_var(&left, GFP_KERNEL))
		return -ENOMEM;
	parts = kcalloc(nr_node_ids, sizeof(*parts), GFP_KERNEL);
	if (!parts)
		goto out;
	for (i = 0; i < nr_node_ids; i++)
		parts[i].id = i;
	for_each_cpu(cpu, cpus)
		nr += !parts[cpu_to_node(cpu)].ncpus++;

	if (place->count <= nr) {
		struct part *end = parts;

		for (i = 0; i < nr_node_ids; i++)
			if (parts[i].ncpus)
				*end++ = parts[i];
		assign_nodes(parts, nr, place, cpus);
		ret = place->count;
		goto out;
	}

	for (i = 0; i < nr_node_ids; i++)
		if (!parts[i].ncpus)
			parts[i].ncpus = UINT_MAX;
	ngroups = min(place->count, ncpus);
	allot(parts, nr_node_ids, ngroups, ncpus);
	for (i = 0; i < nr_node_ids; i++) {
		if (parts[i].ncpus == UINT_MAX)
			continue;
		cpumask_clear(left);
		for_each_cpu(cpu, cpus)
			if (cpu_to_node(cpu) == parts[i].id)
				cpumask_set_cpu(cpu, left);
		if (!assign_by_cluster(&parts[i], left, place))
			assign(&parts[i], left, place);
	}
	ret = ngroups;
out:
	kfree(parts);
	free_cpumask_var(left);
	return ret;
}

/**
 * group_cpus_evenly - Group all possible CPUs, near ones together
 * @numgrps: how many groups
 * @nummasks: how many of them got CPUs
 *
 * Return: a mask for each group, to be freed by the caller; NULL if there is no memory.
 */
struct cpumask *group_cpus_evenly(unsigned int numgrps, unsigned int *nummasks)
{
	struct place place = { .count = numgrps };
	cpumask_var_t cpus;
	int present, others;

	if (!numgrps || !zalloc_cpumask_var(&cpus, GFP_KERNEL))
		return NULL;
	place.masks = kcalloc(numgrps, sizeof(*place.masks), GFP_KERNEL);
	if (!place.masks)
		goto out;

	/* CPUs may be plugged in meanwhile: one look decides which ones are present. */
	cpumask_copy(cpus, data_race(cpu_present_mask));
	present = assign_stage(&place, cpus);
	if (present < 0)
		goto fail;
	place.next = (unsigned int)present >= numgrps ? 0 : present;
	cpumask_andnot(cpus, cpu_possible_mask, cpus);
	others = assign_stage(&place, cpus);
	if (others < 0)
		goto fail;
	*nummasks = min((unsigned int)(present + others), numgrps);
	goto out;
fail:
	kfree(place.masks);
	place.masks = NULL;
out:
	free_cpumask_var(cpus);
	return place.masks;
}
EXPORT_SYMBOL_GPL(group_cpus_evenly);
