/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Answers requests for group_cpus_evenly() on stdin and stdout; a line each, of numbers.
 *
 *	machine NR_CPU_IDS NR_NODE_IDS, then a line a CPU: POSSIBLE PRESENT ONLINE NODE CORE CLUSTER
 *	call NUMGRPS COUNTER FAIL
 *
 * CORE and CLUSTER name the set by its lowest CPU; -1 is an empty mask.  FAIL is the allocation that
 * fails, from 1 on; 0: none does.  The answer to a call:
 *
 *	answer RETURNED NUMMASKS ALLOCATIONS LEAKS ADVANCE WARNINGS
 *	the masks in hexadecimal, "-" for an empty one
 *	a line a warning
 */
#include "stand_in.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define MOST_WARNINGS 8
#define MOST_BYTES (256UL << 20)

unsigned int nr_cpu_ids = 1, nr_node_ids = 1;
struct cpumask stand_in_possible, stand_in_present, stand_in_online;

static struct cpumask cores[NR_CPUS], clusters[NR_CPUS], alone[NR_CPUS], of_node[MAX_NUMNODES];
static struct cpumask none;
static FILE *answers;
static int node_of[NR_CPUS], core_of[NR_CPUS], cluster_of[NR_CPUS];

static struct {
	unsigned int number;
	unsigned int counter;
	unsigned int advance;
	long fail, allocations, live;
	size_t bytes;
	const int *counter_at;
	int warnings;
	struct { const char *file; int line; const char *text; } warned[MOST_WARNINGS];
} request;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
void __sanitizer_set_death_callback(void (*callback)(void));
#endif

extern char __data_start[], _end[];

void stand_in_set_plain(unsigned int value);
unsigned int stand_in_read_plain(void);

static void die(const char *why)
{
	fflush(answers);
	fprintf(stderr, "group_cpus_evenly: %s\n", why);
	fflush(stderr);
	_exit(3);
}

void stand_in_warn(const char *file, int line, const char *text)
{
	int i;

	for (i = 0; i < request.warnings; i++)
		if (request.warned[i].line == line && request.warned[i].text == text)
			return;
	if (i == MOST_WARNINGS)
		return;
	request.warned[i].file = file;
	request.warned[i].line = line;
	request.warned[i].text = text;
	request.warnings++;
}

bool stand_in_bad_cpu(unsigned int cpu, const char *function)
{
	if (cpu < nr_cpu_ids)
		return false;
	stand_in_warn("a CPU beyond nr_cpu_ids", 0, function);
	return true;
}

void *stand_in_alloc(size_t count, size_t size, bool clear)
{
	size_t bytes;
	void *memory;

	if (++request.allocations == request.fail)
		return NULL;
	if (__builtin_mul_overflow(count, size, &bytes))
		return NULL;
	request.bytes += bytes;
	if (request.bytes > MOST_BYTES)
		die("more than 256 MiB was allocated in one call");
	memory = malloc(bytes ? bytes : 1);
	if (!memory)
		die("out of memory");
	memset(memory, clear ? 0 : 0xa5, bytes);
	request.live++;
	return memory;
}

void stand_in_free(const void *memory)
{
	if (memory)
		request.live--;
	free((void *)memory);
}

static bool is_static(const void *place)
{
	return (const char *)place >= __data_start && (const char *)place < _end;
}

int *stand_in_counter(atomic_t *v)
{
	if (v->request != request.number && is_static(v)) {
		v->counter = (int)request.counter;
		v->request = request.number;
		request.counter_at = &v->counter;
	}
	return &v->counter;
}

s64 *stand_in_counter64(atomic64_t *v)
{
	if (v->request != request.number && is_static(v)) {
		v->counter = request.counter;
		v->request = request.number;
		request.counter_at = (int *)&v->counter;
	}
	return &v->counter;
}

static unsigned int known_cpu(int cpu, const char *function)
{
	if ((unsigned int)cpu < nr_cpu_ids)
		return (unsigned int)cpu;
	stand_in_warn("a CPU beyond nr_cpu_ids", 0, function);
	return 0;
}

int cpu_to_node(int cpu) { return node_of[known_cpu(cpu, __func__)]; }
int topology_core_id(int cpu) { return core_of[known_cpu(cpu, __func__)]; }
int topology_cluster_id(int cpu) { return cluster_of[known_cpu(cpu, __func__)]; }
const struct cpumask *cpumask_of(unsigned int cpu) { return &alone[known_cpu((int)cpu, __func__)]; }

const struct cpumask *topology_sibling_cpumask(int cpu)
{
	return &cores[core_of[known_cpu(cpu, __func__)]];
}

const struct cpumask *topology_cluster_cpumask(int cpu)
{
	int cluster = cluster_of[known_cpu(cpu, __func__)];

	return cluster < 0 ? &none : &clusters[cluster];
}

const struct cpumask *cpumask_of_node(int node)
{
	return (unsigned int)node < nr_node_ids ? &of_node[node] : &none;
}

static void read_machine(void)
{
	unsigned int old = nr_cpu_ids, cpus, nodes;

	if (scanf("%u %u", &cpus, &nodes) != 2 || !cpus || cpus > NR_CPUS || !nodes || nodes > MAX_NUMNODES)
		die("a request that is none");
	nr_cpu_ids = max(old, cpus);
	cpumask_clear(&stand_in_possible);
	cpumask_clear(&stand_in_present);
	cpumask_clear(&stand_in_online);
	for (unsigned int cpu = 0; cpu < nr_cpu_ids; cpu++) {
		cpumask_clear(&cores[cpu]);
		cpumask_clear(&clusters[cpu]);
		cpumask_clear(&alone[cpu]);
	}
	for (unsigned int node = 0; node < max(nr_node_ids, nodes); node++)
		cpumask_clear(&of_node[node]);
	nr_cpu_ids = cpus;
	nr_node_ids = nodes;
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		int possible, present, online, node, core, cluster;

		if (scanf("%d %d %d %d %d %d", &possible, &present, &online, &node, &core, &cluster) != 6 ||
		    (unsigned int)node >= nodes || (unsigned int)core >= cpus || cluster >= (int)cpus)
			die("a request that is none");
		node_of[cpu] = node;
		core_of[cpu] = core;
		cluster_of[cpu] = cluster;
		cpumask_set_cpu(cpu, &alone[cpu]);
		cpumask_set_cpu(cpu, &cores[core]);
		if (cluster >= 0)
			cpumask_set_cpu(cpu, &clusters[cluster]);
		if (possible) {
			cpumask_set_cpu(cpu, &stand_in_possible);
			cpumask_set_cpu(cpu, &of_node[node]);
		}
		if (present)
			cpumask_set_cpu(cpu, &stand_in_present);
		if (online)
			cpumask_set_cpu(cpu, &stand_in_online);
	}
}

static void print_mask(const struct cpumask *mask)
{
	unsigned int word = STAND_IN_WORDS;

	while (word-- > 0 && !mask->bits[word])
		;
	if (word == (unsigned int)-1) {
		fputs("- ", answers);
		return;
	}
	fprintf(answers, "%lx", mask->bits[word]);
	while (word-- > 0)
		fprintf(answers, "%016lx", mask->bits[word]);
	putc(' ', answers);
}

static void answer_call(unsigned int seconds)
{
	struct itimerval limit = { .it_value = { .tv_sec = seconds } }, off = { 0 };
	unsigned int numgrps, nummasks, before;
	struct cpumask *masks;

	request.number++;
	request.allocations = request.live = 0;
	request.bytes = 0;
	request.warnings = 0;
	request.counter_at = NULL;
	if (scanf("%u %u %ld", &numgrps, &request.counter, &request.fail) != 3)
		die("a request that is none");
	stand_in_set_plain(request.counter);
	before = request.counter;
	nummasks = numgrps;
	setitimer(ITIMER_PROF, &limit, NULL);
#ifdef STAND_IN_NUMMASKS
	masks = group_cpus_evenly(numgrps, &nummasks);
#else
	masks = group_cpus_evenly(numgrps);
#endif
	setitimer(ITIMER_PROF, &off, NULL);
	request.advance = request.counter_at ? (unsigned int)*request.counter_at - before
					     : stand_in_read_plain() - before;
	fprintf(answers, "answer %d %u %ld %ld %u %d\n", masks != NULL, masks ? nummasks : 0,
	       request.allocations, request.live - (masks != NULL), request.advance, request.warnings);
	for (unsigned int group = 0; masks && group < numgrps; group++)
		print_mask(&masks[group]);
	putc('\n', answers);
	for (int i = 0; i < request.warnings; i++)
		if (request.warned[i].line)
			fprintf(answers, "%s:%d: %s\n", request.warned[i].file, request.warned[i].line,
			       request.warned[i].text);
		else
			fprintf(answers, "%s(): %s\n", request.warned[i].text, request.warned[i].file);
	if (masks)
		kfree(masks);
}

/* What the function writes goes to stderr, so that the answers before this call are whole. */
static void keep_answers(void)
{
	fflush(answers);
}

static void crashed(int number)
{
	keep_answers();
	signal(number, SIG_DFL);
	raise(number);
}

static void out_of_time(int signal)
{
	static const char text[] = "group_cpus_evenly: still running after its time limit\n";

	(void)signal;
	keep_answers();
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(5);
	_exit(4);
}

/* AddressSanitizer keeps terabytes of addresses for itself; it has a limit of its own. */
static void limit_memory(void)
{
#ifndef __SANITIZE_ADDRESS__
	struct rlimit limit = { 12 * MOST_BYTES, 12 * MOST_BYTES };

	setrlimit(RLIMIT_AS, &limit);
#endif
}

int main(int argc, char **argv)
{
	struct rlimit no_core = { 0, 0 }, report = { 1 << 20, 1 << 20 };
	char word[16];

	answers = fdopen(dup(1), "w");
	if (!answers || dup2(2, 1) < 0)
		return 7;
	setrlimit(RLIMIT_CORE, &no_core);
	setrlimit(RLIMIT_FSIZE, &report);
	limit_memory();
	signal(SIGPROF, out_of_time);
	signal(SIGABRT, crashed);
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_set_death_callback(keep_answers);
#else
	signal(SIGSEGV, crashed);
	signal(SIGBUS, crashed);
	signal(SIGFPE, crashed);
#endif
	while (scanf("%15s", word) == 1) {
		if (!strcmp(word, "machine"))
			read_machine();
		else if (!strcmp(word, "call"))
			answer_call(argc > 1 ? (unsigned int)atoi(argv[1]) : 2);
		else if (!strcmp(word, "flush"))
			fflush(answers);
		else
			die("a request that is none");
	}
	return 0;
}
