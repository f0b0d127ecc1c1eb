/* SPDX-License-Identifier: GPL-2.0-only */
/* As much of kunit/test.h as the kit's cases use, and a main() that runs them. */
#ifndef KUNIT_TEST_H
#define KUNIT_TEST_H
#include "stand_in.h"

struct kunit { int failures; };
struct kunit_case { void (*run)(struct kunit *test); };
struct kunit_suite { const char *name; struct kunit_case *test_cases; };

#define KUNIT_CASE(function) { function }
#define KUNIT_FAIL_IF(test, condition) do { if (condition) (test)->failures++; } while (0)
#define KUNIT_ASSERT_NOT_NULL(test, pointer) do { \
	if (!(pointer)) { (test)->failures++; return; } } while (0)
#define KUNIT_EXPECT_EQ(test, a, b) KUNIT_FAIL_IF(test, (a) != (b))
#define KUNIT_EXPECT_EQ_MSG(test, a, b, ...) KUNIT_FAIL_IF(test, (a) != (b))
#define KUNIT_EXPECT_NULL_MSG(test, pointer, ...) KUNIT_FAIL_IF(test, (pointer) != NULL)

unsigned int nr_cpu_ids = 64, nr_node_ids = 1;
struct cpumask stand_in_possible, stand_in_present, stand_in_online;
void stand_in_warn(const char *file, int line, const char *text) { abort(); }
bool stand_in_bad_cpu(unsigned int cpu, const char *function) { return cpu >= nr_cpu_ids; }
void *stand_in_alloc(size_t count, size_t size, bool clear) { return calloc(count, size); }
void stand_in_free(const void *memory) { free((void *)memory); }
int *stand_in_counter(atomic_t *v) { return &v->counter; }
s64 *stand_in_counter64(atomic64_t *v) { return &v->counter; }

#define kunit_test_suite(suite) \
int main(void) \
{ \
	int failures = 0; \
	for (struct kunit_case *at = (suite).test_cases; at->run; at++) { \
		struct kunit test = { 0 }; \
		at->run(&test); \
		failures += test.failures; \
	} \
	printf("%s: %d failures\n", (suite).name, failures); \
	return failures > 0; \
} \
extern int stand_in_exported

#endif
