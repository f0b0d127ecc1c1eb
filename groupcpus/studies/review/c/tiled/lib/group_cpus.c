// SPDX-License-Identifier: GPL-2.0-only
/*
 * group_cpus_evenly() with a rotation: each call's groups begin where the last one's ended.
 *
 * Written anew for the groupcpus project from its Python engine; not the kernel's text.
 */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/cpu.h>
#include <linux/sort.h>
#include <linux/atomic.h>
#include <linux/math64.h>
#include <linux/group_cpus.h>

/* A node, or a cluster of a node, and what it is given in a call. */
struct part {
	unsigned int id;
	unsigned int ncpus;
	unsigned int ngroups;
	/* How many groups it was given before. */
	s64 total;
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

/* The counter has 32 bits, what is made of it more; and it may be that it goes below 0. */
static unsigned int modulo(s64 number, unsigned int divisor)
{
	s32 left;

	div_s64_rem(number, divisor, &left);
	return left < 0 ? left + divisor : left;
}

static s64 floor_div(s64 number, unsigned int divisor)
{
	return div_s64(number - modulo(number, divisor), divisor);
}

/* How many groups were given before the call, and how many calls like it that makes. */
struct turn {
	u32 total;
	u32 calls;
};

/* What equally large parts got is dealt to them anew, from where the last call ended. */
static void continue_shares(struct part *parts, unsigned int nr, s64 total, u32 calls)
{
	unsigned int from, to, i, all = 0, shown = 0;

	for (i = 0; i < nr; i++) {
		if (parts[i].ncpus == UINT_MAX)
			continue;
		shown++;
		all += parts[i].ngroups;
	}
	for (from = 0; from < nr; from = to) {
		unsigned int here = 0, count, share, more;
		s64 before;

		for (to = from; to < nr && parts[to].ncpus == parts[from].ncpus; to++)
			here += parts[to].ngroups;
		if (parts[from].ncpus == UINT_MAX)
			continue;
		count = to - from;
		share = here / count;
		more = here % count;
		before = total - (s64)calls * (all - here);
		for (i = 0; i < count; i++) {
			struct part *part = &parts[from + i];

			/* One part alone has had what its whole has had. */
			part->total = shown == 1 ? total : floor_div(before - i + count - 1, count);
			part->ngroups = share + (modulo((s64)i - before, count) < more);
		}
	}
}

/* CPUs in the order of their clusters and cores, and how large these are. */
struct layout {
	unsigned int *cpus;
	unsigned int nr;
	unsigned int cores, core_min, core_max;
	unsigned int clusters, cluster_min, cluster_max;
};

static void lay_out_cores(struct layout *layout, struct cpumask *left, const struct cpumask *within)
{
	unsigned int cpu, thread;

	while ((cpu = cpumask_first_and(left, within)) < nr_cpu_ids) {
		const struct cpumask *core = topology_sibling_cpumask(cpu);
		unsigned int size = 0;

		for_each_cpu(thread, core) {
			if (!cpumask_test_cpu(thread, within) || !cpumask_test_and_clear_cpu(thread, left))
				continue;
			layout->cpus[layout->nr++] = thread;
			size++;
		}
		layout->cores++;
		layout->core_min = min(layout->core_min, size);
		layout->core_max = max(layout->core_max, size);
	}
}

static void lay_out(struct layout *layout, const struct cpumask *cpus, struct cpumask *left,
		    bool by_cluster)
{
	unsigned int cpu;

	layout->nr = layout->cores = layout->core_max = 0;
	layout->clusters = layout->cluster_max = 0;
	layout->core_min = layout->cluster_min = UINT_MAX;
	cpumask_copy(left, cpus);
	if (!by_cluster) {
		lay_out_cores(layout, left, cpus);
		return;
	}
	while ((cpu = cpumask_first(left)) < nr_cpu_ids) {
		unsigned int before = layout->nr, size;

		lay_out_cores(layout, left, topology_cluster_cpumask(cpu));
		size = layout->nr - before;
		layout->clusters++;
		layout->cluster_min = min(layout->cluster_min, size);
		layout->cluster_max = max(layout->cluster_max, size);
	}
}

/* Lay the groups around the CPUs like tiles, after those of the calls before. */
static bool assign_tiles(struct part *part, struct cpumask *cpus, struct place *place)
{
	unsigned int ngroups = part->ngroups, ncpus = part->ncpus, widest, size, v;
	unsigned int share = ncpus / ngroups, extra = ncpus % ngroups;
	unsigned int start = 0, round = 0, back = 0, next;
	struct layout layout = { 0 };
	bool between = false, done = false;
	cpumask_var_t left;

	if (ngroups < 2 || ngroups >= ncpus || !zalloc_cpumask_var(&left, GFP_KERNEL))
		return false;
	layout.cpus = kcalloc(ncpus, sizeof(*layout.cpus), GFP_KERNEL);
	if (!layout.cpus)
		goto out;
	lay_out(&layout, cpus, left, false);
	widest = layout.core_max;
	if (count_clusters(cpus, left)) {
		lay_out(&layout, cpus, left, true);
		if (layout.cluster_max < widest)
			lay_out(&layout, cpus, left, false);
	}

	if (layout.clusters > 1 && share <= layout.cluster_max) {
		if (layout.cluster_min != layout.cluster_max)
			goto out;
		size = layout.cluster_max;
	} else if (layout.cores > 1 && layout.core_min == layout.core_max &&
		   share <= layout.core_max) {
		size = layout.core_max;
	} else {
		size = 1;
		between = share > 1;
	}
	if (between) {
		/* Group i begins at CPU ceil(i * ncpus / ngroups) - back, in a circle. */
		back = modulo(floor_div(part->total, ngroups), ncpus);
		round = back ? (back - 1) * ngroups / ncpus + 1 : 0;
		start = DIV_ROUND_UP(round * ncpus, ngroups) - back;
	} else if (extra) {
		/* total * share * (share + 1) has up to 60 bits. */
		s64 moved = floor_div(part->total * (s64)(share * (share + 1)), size);

		start = modulo(-moved, ncpus / size) * size;
	}
	next = start;
	for (v = 0; v < ngroups; v++) {
		struct cpumask *mask = next_mask(place);
		unsigned int count = share + (v < extra);

		if (between)
			count = DIV_ROUND_UP((round + v + 1) * ncpus, ngroups) -
				DIV_ROUND_UP((round + v) * ncpus, ngroups);
		while (count--) {
			cpumask_set_cpu(layout.cpus[next], mask);
			next = next + 1 == ncpus ? 0 : next + 1;
		}
	}
	done = true;
out:
	kfree(layout.cpus);
	free_cpumask_var(left);
	return done;
}

/* Divide CPUs among groups; the first ones get one more where that does not come out even. */
static void assign(struct part *part, struct cpumask *cpus, struct place *place)
{
	unsigned int share = part->ncpus / part->ngroups;
	unsigned int extra = part->ncpus % part->ngroups;
	unsigned int group;

	if (assign_tiles(part, cpus, place))
		return;
	for (group = 0; group < part->ngroups; group++)
		fill_group(next_mask(place), cpus, share + (group < extra));
}

/* Divide a node by cluster, if it has groups for all of them. */
static bool assign_by_cluster(struct part *node, struct cpumask *cpus, struct place *place,
			      struct turn turn)
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
	continue_shares(parts, nr, node->total, turn.calls);
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

static bool same_size(const struct part *parts, unsigned int nr)
{
	unsigned int i;

	for (i = 1; i < nr; i++)
		if (parts[i].ncpus != parts[0].ncpus)
			return false;
	return true;
}

/* Give whole nodes to groups in turn. */
static void assign_nodes(const struct part *parts, unsigned int nr, struct place *place,
			 const struct cpumask *cpus, unsigned int first)
{
	unsigned int i, cpu;

	for (i = 0; i < nr; i++) {
		const struct part *node = &parts[(first + i) % nr];
		struct cpumask *mask = next_mask(place);

		for_each_cpu(cpu, cpus)
			if (cpu_to_node(cpu) == node->id)
				cpumask_set_cpu(cpu, mask);
	}
}

/* Assign the CPUs of one stage.  Return how many groups were filled, or an error. */
static int assign_stage(struct place *place, const struct cpumask *cpus, struct turn turn)
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
		assign_nodes(parts, nr, place, cpus,
			     same_size(parts, nr) ? turn.total % nr : 0);
		ret = place->count;
		goto out;
	}

	for (i = 0; i < nr_node_ids; i++)
		if (!parts[i].ncpus)
			parts[i].ncpus = UINT_MAX;
	ngroups = min(place->count, ncpus);
	allot(parts, nr_node_ids, ngroups, ncpus);
	continue_shares(parts, nr_node_ids, turn.total, turn.calls);
	for (i = 0; i < nr_node_ids; i++) {
		if (parts[i].ncpus == UINT_MAX)
			continue;
		cpumask_clear(left);
		for_each_cpu(cpu, cpus)
			if (cpu_to_node(cpu) == parts[i].id)
				cpumask_set_cpu(cpu, left);
		if (!assign_by_cluster(&parts[i], left, place, turn))
			assign(&parts[i], left, place);
	}
	ret = ngroups;
out:
	kfree(parts);
	free_cpumask_var(left);
	return ret;
}

/* How many groups all calls got.  It wraps. */
static atomic_t groups_given = ATOMIC_INIT(0);

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
	struct turn turn = { 0 };
	int present, others;

	if (!numgrps || !zalloc_cpumask_var(&cpus, GFP_KERNEL))
		return NULL;
	place.masks = kcalloc(numgrps, sizeof(*place.masks), GFP_KERNEL);
	if (!place.masks)
		goto out;

	/* One group takes all CPUs: there is nothing to rotate. */
	if (numgrps > 1)
		turn.total = (u32)atomic_fetch_add(numgrps, &groups_given);
	turn.calls = turn.total / numgrps;

	/* CPUs may be plugged in meanwhile: one look decides which ones are present. */
	cpumask_copy(cpus, data_race(cpu_present_mask));
	present = assign_stage(&place, cpus, turn);
	if (present < 0)
		goto fail;
	place.next = (unsigned int)present >= numgrps ? 0 : present;
	cpumask_andnot(cpus, cpu_possible_mask, cpus);
	others = assign_stage(&place, cpus, turn);
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
