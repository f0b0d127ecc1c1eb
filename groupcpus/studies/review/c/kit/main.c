// SPDX-License-Identifier: GPL-2.0-only
/*
 * Written by groupcpus kit.  Test lib/group_cpus.c in userspace, as tools/testing/memblock does its
 * file: tables of known answers, what must hold of any, and every allocation failing once.  Prints
 * TAP; exits with 1 if anything failed.
 */
#include "stand_in.h"
#include "group_cpus_fixture.h"

#include <sys/resource.h>

#undef nr_node_ids
#undef cpu_to_node

unsigned int nr_cpu_ids = CASE_CPUS, nr_node_ids = 1;
struct cpumask stand_in_possible, stand_in_present, stand_in_online;
static long live, until_failure;
static int warned, number, failures;

void stand_in_warn(const char *file, int line, const char *text)
{
	printf("# %s:%d: %s\n", file, line, text);
	warned++;
}

bool stand_in_bad_cpu(unsigned int cpu, const char *function)
{
	if (cpu < nr_cpu_ids)
		return false;
	printf("# %s: CPU %u\n", function, cpu);
	warned++;
	return true;
}

void *stand_in_alloc(size_t count, size_t size, bool clear)
{
	void *memory;

	if (until_failure && !--until_failure)
		return NULL;
	memory = clear ? calloc(count ? count : 1, size) : malloc(count * size + !count);
	live += memory != NULL;
	return memory;
}

void stand_in_free(const void *memory)
{
	live -= memory != NULL;
	free((void *)memory);
}

int *stand_in_counter(atomic_t *v) { return &v->counter; }
s64 *stand_in_counter64(atomic64_t *v) { return &v->counter; }

static void result(bool ok, const char *what, const struct case_machine *machine,
		   unsigned int numgrps, u32 counter)
{
	number++;
	if (!ok) {
		failures++;
		printf("not ok %d - %s: %s, %u groups, counter %u\n", number, what, machine->name,
		       numgrps, counter);
	}
}

static void known_answers(void)
{
	for (unsigned int at = 0; at < ARRAY_SIZE(case_calls); at++) {
		const struct case_call *call = &case_calls[at];
		const struct case_machine *machine = &case_machines[call->machine];
		unsigned int nummasks;
		struct cpumask *masks = fixture_call(machine, call->numgrps, call->counter, &nummasks);
		bool ok = masks && nummasks == call->nummasks;

		for (int cpu = 0; ok && cpu < machine->ncpus; cpu++)
			ok = fixture_group(masks, call->numgrps, cpu) == call->group[cpu];
		result(ok, "known answer", machine, call->numgrps, call->counter);
		kfree(masks);
#ifdef CASE_COUNTER
		result((u32)atomic_read(&CASE_COUNTER) == (u32)(call->counter + call->advance),
		       "counter", machine, call->numgrps, call->counter);
#endif
	}
}

static void check(const struct case_machine *machine, unsigned int numgrps, u32 counter)
{
	unsigned int nummasks;
	struct cpumask *masks = fixture_call(machine, numgrps, counter, &nummasks);
	const char *wrong = masks ? fixture_judge(masks, numgrps, nummasks) : "NULL";

	result(!wrong, wrong ? wrong : "", machine, numgrps, counter);
	kfree(masks);
	result(!live, "memory that is not freed", machine, numgrps, counter);
	live = 0;
	result(!warned, "a warning", machine, numgrps, counter);
	warned = 0;
}

static void every_cpu_once(void)
{
	for (unsigned int at = 0; at < ARRAY_SIZE(case_machines); at++) {
		const struct case_machine *machine = &case_machines[at];

		for (unsigned int numgrps = 1; numgrps <= machine->ncpus + 1u; numgrps++)
			for (unsigned int turn = 0; turn < 8; turn++)
				check(machine, numgrps, turn * numgrps - 4 * numgrps - 1);
	}
}

static void without_memory(void)
{
	for (unsigned int at = 0; at < ARRAY_SIZE(case_machines); at++) {
		const struct case_machine *machine = &case_machines[at];
		unsigned int numgrps = machine->ncpus - machine->ncpus / 3;

		for (long fail = 1;; fail++) {
			unsigned int nummasks;
			struct cpumask *masks;
			bool reached;

			until_failure = fail;
			masks = fixture_call(machine, numgrps, 5, &nummasks);
			reached = !until_failure;
			until_failure = 0;
			result(!masks || !fixture_judge(masks, numgrps, nummasks),
			       "CPUs lost without memory", machine, numgrps, 5);
			kfree(masks);
			result(!live, "memory that is not freed", machine, numgrps, 5);
			live = 0;
			if (!reached)
				break;
		}
	}
}

int main(void)
{
	/* All of it takes a second: what loops is ended. */
	struct rlimit seconds = { 5, 5 };

	setrlimit(RLIMIT_CPU, &seconds);
	known_answers();
	every_cpu_once();
	without_memory();
	printf("1..%d\n# %d failed\n", number, failures);
	return failures > 0;
}
