/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A userspace stand-in for what lib/group_cpus.c and lib/sort.c ask of the kernel's headers.
 *
 * Written for this project from what the functions are documented to do; nothing is copied.  Every
 * header that a file includes is this one.  What a file needs and this one lacks is an error of the
 * compiler that names it.
 *
 * CONFIG_CPUMASK_OFFSTACK is set: a cpumask_var_t is allocated.
 */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef NR_CPUS
#define NR_CPUS 8192
#endif
#define MAX_NUMNODES 1024

#define CONFIG_SMP 1
#define CONFIG_NUMA 1
#define CONFIG_64BIT 1
#define CONFIG_CPUMASK_OFFSTACK 1
#define CONFIG_NR_CPUS NR_CPUS
#define CONFIG_GENERIC_IRQ_AFFINITY 1

/* Types and attributes. */
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef unsigned int gfp_t;
typedef int (*cmp_func_t)(const void *, const void *);
typedef int (*cmp_r_func_t)(const void *, const void *, const void *);
typedef void (*swap_func_t)(void *, void *, int);
typedef void (*swap_r_func_t)(void *, void *, int, const void *);

#define __always_inline inline __attribute__((always_inline))
#define noinline __attribute__((noinline))
#define __attribute_const__ __attribute__((const))
#define __must_check __attribute__((warn_unused_result))
#define __maybe_unused __attribute__((unused))
#define __always_unused __attribute__((unused))
#define __pure __attribute__((pure))
#define __init
#define __initdata
#define __read_mostly
#define __ro_after_init
#define __cacheline_aligned_in_smp
#define __user
#define __percpu
#define fallthrough __attribute__((fallthrough))
#define __cleanup(function) __attribute__((cleanup(function)))

#define EXPORT_SYMBOL(name) extern int stand_in_exported
#define EXPORT_SYMBOL_GPL(name) extern int stand_in_exported
#define EXPORT_SYMBOL_NS_GPL(name, space) extern int stand_in_exported
#define MODULE_LICENSE(text) extern int stand_in_exported
#define MODULE_AUTHOR(text) extern int stand_in_exported
#define MODULE_DESCRIPTION(text) extern int stand_in_exported

/* Small arithmetic. */
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define min(a, b) ({ __auto_type a_ = (a); __auto_type b_ = (b); a_ < b_ ? a_ : b_; })
#define max(a, b) ({ __auto_type a_ = (a); __auto_type b_ = (b); a_ > b_ ? a_ : b_; })
#define min3(a, b, c) min(min(a, b), c)
#define max3(a, b, c) max(max(a, b), c)
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define umin(a, b) min((u64)(a), (u64)(b))
#define umax(a, b) max((u64)(a), (u64)(b))
#define clamp(x, low, high) min(max(x, low), high)
#define clamp_t(type, x, low, high) clamp((type)(x), (type)(low), (type)(high))
#define swap(a, b) do { __auto_type a_ = (a); (a) = (b); (b) = a_; } while (0)
#define abs_diff(a, b) ({ __auto_type a_ = (a); __auto_type b_ = (b); a_ > b_ ? a_ - b_ : b_ - a_; })
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define DIV_ROUND_CLOSEST(n, d) (((n) + (d) / 2) / (d))
#define roundup(n, d) (DIV_ROUND_UP(n, d) * (d))
#define rounddown(n, d) ((n) - (n) % (d))
#define round_up(n, d) roundup(n, d)
#define round_down(n, d) rounddown(n, d)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define BITS_PER_LONG 64
#define BITS_TO_LONGS(n) DIV_ROUND_UP(n, BITS_PER_LONG)
#define BIT(n) (1UL << (n))
#define U8_MAX UINT8_MAX
#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define S32_MAX INT32_MAX
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#define do_div(n, base) ({ u32 left_ = (n) % (base); (n) /= (base); left_; })
#define div_u64(n, d) ((u64)(n) / (u32)(d))
#define div_s64(n, d) ((s64)(n) / (s32)(d))
#define div_s64_rem(n, d, left) ({ s64 n_ = (n); s32 d_ = (s32)(d); *(left) = (s32)(n_ % d_); n_ / d_; })
#define div64_u64(n, d) ((u64)(n) / (u64)(d))
#define mult_frac(x, n, d) ((x) / (d) * (n) + (x) % (d) * (n) / (d))
#define is_power_of_2(n) ((n) != 0 && ((n) & ((n) - 1)) == 0)
#define hweight32(n) ((unsigned int)__builtin_popcount(n))
#define hweight64(n) ((unsigned long)__builtin_popcountl(n))
#define __ffs(n) ((unsigned long)__builtin_ctzl(n))
static inline unsigned long gcd(unsigned long a, unsigned long b)
{
	while (b) {
		unsigned long left = a % b;

		a = b;
		b = left;
	}
	return a;
}

/* Access once, barriers, locks that nobody else wants: one thread runs. */
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#define data_race(expression) (expression)
#define barrier() __asm__ __volatile__("" : : : "memory")
#define smp_mb() barrier()
#define smp_rmb() barrier()
#define smp_wmb() barrier()
#define cond_resched() ((void)0)
#define might_sleep() ((void)0)
#define cpus_read_lock() ((void)0)
#define cpus_read_unlock() ((void)0)
#define lockdep_assert_cpus_held() ((void)0)
#define rcu_read_lock() ((void)0)
#define rcu_read_unlock() ((void)0)

/* Warnings are kept for the answer; one line warns once a call. */
void stand_in_warn(const char *file, int line, const char *text);
#define STAND_IN_WARN(condition, text) \
	({ bool warns_ = !!(condition); if (warns_) stand_in_warn(__FILE__, __LINE__, text); warns_; })
#define WARN_ON(condition) STAND_IN_WARN(condition, "WARN_ON(" #condition ")")
#define WARN_ON_ONCE(condition) STAND_IN_WARN(condition, "WARN_ON_ONCE(" #condition ")")
#define WARN(condition, ...) STAND_IN_WARN(condition, "WARN(" #condition ")")
#define WARN_ONCE(condition, ...) STAND_IN_WARN(condition, "WARN_ONCE(" #condition ")")
#define BUG_ON(condition) do { if (STAND_IN_WARN(condition, "BUG_ON(" #condition ")")) abort(); } while (0)
#define BUG() BUG_ON(1)
#define BUILD_BUG_ON(condition) _Static_assert(!(condition), #condition)
#define pr_debug(...) ((void)0)
#define pr_info(...) ((void)0)
#define pr_info_once(...) ((void)0)
#define pr_warn(...) ((void)0)
#define pr_warn_once(...) ((void)0)
#define pr_err(...) ((void)0)
#define printk(...) ((void)0)

/* Memory: counted, and made to fail on request. */
#define GFP_KERNEL 0u
#define GFP_ATOMIC 1u
#define GFP_NOWAIT 2u
#define __GFP_ZERO 4u
#define __GFP_NOWARN 8u
void *stand_in_alloc(size_t count, size_t size, bool clear);
void stand_in_free(const void *memory);
#define kmalloc(size, gfp) stand_in_alloc(1, size, (gfp) & __GFP_ZERO)
#define kzalloc(size, gfp) stand_in_alloc(1, size, true)
#define kmalloc_array(count, size, gfp) stand_in_alloc(count, size, (gfp) & __GFP_ZERO)
#define kcalloc(count, size, gfp) stand_in_alloc(count, size, true)
#define kvmalloc(size, gfp) kmalloc(size, gfp)
#define kvzalloc(size, gfp) kzalloc(size, gfp)
#define kvcalloc(count, size, gfp) kcalloc(count, size, gfp)
#define kvmalloc_array(count, size, gfp) kmalloc_array(count, size, gfp)
#define kmalloc_obj(object, ...) stand_in_alloc(1, sizeof(object), false)
#define kmalloc_objs(object, count, ...) stand_in_alloc(count, sizeof(object), false)
#define kzalloc_obj(object, ...) stand_in_alloc(1, sizeof(object), true)
#define kzalloc_objs(object, count, ...) stand_in_alloc(count, sizeof(object), true)
#define kfree(memory) stand_in_free(memory)
#define kvfree(memory) stand_in_free(memory)
#define array_size(count, size) ((size_t)(count) * (size_t)(size))
#define PTR_ERR(pointer) ((long)(pointer))
#define ERR_PTR(error) ((void *)(long)(error))
#define IS_ERR(pointer) ((unsigned long)(pointer) >= (unsigned long)-4095)
#define IS_ERR_OR_NULL(pointer) (!(pointer) || IS_ERR(pointer))

#define DEFINE_FREE(name, type, statement) \
	static inline __maybe_unused void stand_in_free_##name(void *place) \
	{ type _T = *(type *)place; statement; }
#define __free(name) __cleanup(stand_in_free_##name)
#define no_free_ptr(pointer) ({ __auto_type kept_ = (pointer); (pointer) = NULL; kept_; })
#define return_ptr(pointer) return no_free_ptr(pointer)
DEFINE_FREE(kfree, void *, if (!IS_ERR_OR_NULL(_T)) kfree(_T))
DEFINE_FREE(kvfree, void *, if (!IS_ERR_OR_NULL(_T)) kvfree(_T))

/*
 * Counters.  An atomic_t of static storage is set to the counter of the request when a call first
 * touches it, whatever it is called and wherever it is declared.
 */
typedef struct { int counter; unsigned int request; } atomic_t;
typedef struct { s64 counter; unsigned int request; } atomic64_t;
typedef atomic64_t atomic_long_t;
#define ATOMIC_INIT(value) { (value), 0 }
#define ATOMIC64_INIT(value) { (value), 0 }
#define ATOMIC_LONG_INIT(value) { (value), 0 }
int *stand_in_counter(atomic_t *counter);
s64 *stand_in_counter64(atomic64_t *counter);
#define STAND_IN_ATOMIC(prefix, type, number, place) \
static inline __maybe_unused number prefix##_read(const type *v) { return *place((type *)v); } \
static inline __maybe_unused void prefix##_set(type *v, number n) { *place(v) = n; } \
static inline __maybe_unused number prefix##_fetch_add(number n, type *v) \
{ number *at = place(v), old = *at; *at = (number)((u64)old + (u64)n); return old; } \
static inline __maybe_unused number prefix##_fetch_sub(number n, type *v) \
{ return prefix##_fetch_add((number)-(u64)n, v); } \
static inline __maybe_unused number prefix##_fetch_inc(type *v) { return prefix##_fetch_add(1, v); } \
static inline __maybe_unused number prefix##_fetch_dec(type *v) { return prefix##_fetch_sub(1, v); } \
static inline __maybe_unused number prefix##_add_return(number n, type *v) \
{ return (number)((u64)prefix##_fetch_add(n, v) + (u64)n); } \
static inline __maybe_unused number prefix##_inc_return(type *v) { return prefix##_add_return(1, v); } \
static inline __maybe_unused void prefix##_add(number n, type *v) { prefix##_fetch_add(n, v); } \
static inline __maybe_unused void prefix##_inc(type *v) { prefix##_fetch_add(1, v); } \
static inline __maybe_unused void prefix##_dec(type *v) { prefix##_fetch_sub(1, v); } \
static inline __maybe_unused number prefix##_xchg(type *v, number n) \
{ number *at = place(v), old = *at; *at = n; return old; } \
static inline __maybe_unused number prefix##_cmpxchg(type *v, number expected, number n) \
{ number *at = place(v), old = *at; if (old == expected) *at = n; return old; } \
static inline __maybe_unused bool prefix##_try_cmpxchg(type *v, number *expected, number n) \
{ number old = prefix##_cmpxchg(v, *expected, n); bool done = old == *expected; *expected = old; return done; }
STAND_IN_ATOMIC(atomic, atomic_t, int, stand_in_counter)
STAND_IN_ATOMIC(atomic64, atomic64_t, s64, stand_in_counter64)
STAND_IN_ATOMIC(atomic_long, atomic_long_t, s64, stand_in_counter64)
#define atomic_fetch_inc_relaxed atomic_fetch_inc
#define atomic_fetch_add_relaxed atomic_fetch_add
#define atomic_inc_return_relaxed atomic_inc_return
#define atomic_add_return_relaxed atomic_add_return
#define atomic_cmpxchg_relaxed atomic_cmpxchg
#define atomic_try_cmpxchg_relaxed atomic_try_cmpxchg

/* Bitmaps and CPU masks. */
struct cpumask { unsigned long bits[BITS_TO_LONGS(NR_CPUS)]; };
typedef struct cpumask cpumask_t;
typedef struct cpumask *cpumask_var_t;
extern unsigned int nr_cpu_ids;
extern struct cpumask stand_in_possible, stand_in_present, stand_in_online;
#define nr_cpumask_bits nr_cpu_ids
#define small_cpumask_bits nr_cpu_ids
#define large_cpumask_bits nr_cpu_ids
#define cpu_possible_mask ((const struct cpumask *)&stand_in_possible)
#define cpu_present_mask ((const struct cpumask *)&stand_in_present)
#define cpu_online_mask ((const struct cpumask *)&stand_in_online)
#define cpumask_bits(mask) ((mask)->bits)
#define cpumask_size() sizeof(struct cpumask)

/* A CPU that no mask has room for is reported, and left out. */
bool stand_in_bad_cpu(unsigned int cpu, const char *function);
#define STAND_IN_WORDS ((nr_cpu_ids + 63) / 64)

static inline __maybe_unused bool cpumask_test_cpu(int cpu, const struct cpumask *mask)
{
	return !stand_in_bad_cpu(cpu, __func__) && (mask->bits[cpu / 64] >> (cpu % 64) & 1);
}
static inline __maybe_unused void cpumask_set_cpu(unsigned int cpu, struct cpumask *mask)
{
	if (!stand_in_bad_cpu(cpu, __func__))
		mask->bits[cpu / 64] |= 1UL << cpu % 64;
}
static inline __maybe_unused void cpumask_clear_cpu(int cpu, struct cpumask *mask)
{
	if (!stand_in_bad_cpu(cpu, __func__))
		mask->bits[cpu / 64] &= ~(1UL << cpu % 64);
}
static inline __maybe_unused bool cpumask_test_and_clear_cpu(int cpu, struct cpumask *mask)
{
	bool was = cpumask_test_cpu(cpu, mask);

	if (was)
		cpumask_clear_cpu(cpu, mask);
	return was;
}
static inline __maybe_unused bool cpumask_test_and_set_cpu(int cpu, struct cpumask *mask)
{
	bool was = cpumask_test_cpu(cpu, mask);

	if (!was)
		cpumask_set_cpu(cpu, mask);
	return was;
}
#define __cpumask_set_cpu cpumask_set_cpu
#define __cpumask_clear_cpu cpumask_clear_cpu
#define cpumask_assign_cpu(cpu, mask, value) ((value) ? cpumask_set_cpu(cpu, mask) : cpumask_clear_cpu(cpu, mask))

/* The first CPU at or after a number that is in every word of an expression, or nr_cpu_ids. */
#define STAND_IN_FIND(start, word_expression) do { \
	unsigned int from_ = (start); \
	for (unsigned int w = from_ / 64; w < STAND_IN_WORDS; w++) { \
		unsigned long word_ = (word_expression); \
		if (w == from_ / 64) word_ &= ~0UL << from_ % 64; \
		if (word_) { \
			unsigned int found_ = w * 64 + (unsigned int)__builtin_ctzl(word_); \
			return found_ < nr_cpu_ids ? found_ : nr_cpu_ids; \
		} \
	} \
	return nr_cpu_ids; \
} while (0)
#define STAND_IN_COUNT(word_expression) do { \
	unsigned int count_ = 0; \
	for (unsigned int w = 0; w < STAND_IN_WORDS; w++) \
		count_ += (unsigned int)__builtin_popcountl(word_expression); \
	return count_; \
} while (0)
#define STAND_IN_EACH(statement) \
	for (unsigned int w = 0; w < STAND_IN_WORDS; w++) { statement; }

static inline __maybe_unused unsigned int cpumask_next(int n, const struct cpumask *a)
{ STAND_IN_FIND((unsigned int)(n + 1), a->bits[w]); }
static inline __maybe_unused unsigned int cpumask_next_zero(int n, const struct cpumask *a)
{ STAND_IN_FIND((unsigned int)(n + 1), ~a->bits[w]); }
static inline __maybe_unused unsigned int cpumask_next_and(int n, const struct cpumask *a, const struct cpumask *b)
{ STAND_IN_FIND((unsigned int)(n + 1), a->bits[w] & b->bits[w]); }
static inline __maybe_unused unsigned int cpumask_next_andnot(int n, const struct cpumask *a, const struct cpumask *b)
{ STAND_IN_FIND((unsigned int)(n + 1), a->bits[w] & ~b->bits[w]); }
#define cpumask_first(a) cpumask_next(-1, a)
#define cpumask_first_zero(a) cpumask_next_zero(-1, a)
#define cpumask_first_and(a, b) cpumask_next_and(-1, a, b)
#define cpumask_first_andnot(a, b) cpumask_next_andnot(-1, a, b)
#define cpumask_any(a) cpumask_first(a)
#define cpumask_any_and(a, b) cpumask_first_and(a, b)
static inline __maybe_unused unsigned int cpumask_last(const struct cpumask *a)
{
	for (unsigned int cpu = nr_cpu_ids; cpu-- > 0;)
		if (a->bits[cpu / 64] >> cpu % 64 & 1)
			return cpu;
	return nr_cpu_ids;
}
static inline __maybe_unused unsigned int cpumask_next_wrap(int n, const struct cpumask *a)
{
	unsigned int next = cpumask_next(n, a);

	return next < nr_cpu_ids ? next : cpumask_first(a);
}
static inline __maybe_unused unsigned int cpumask_nth(unsigned int n, const struct cpumask *a)
{
	unsigned int cpu = cpumask_first(a);

	while (n-- > 0 && cpu < nr_cpu_ids)
		cpu = cpumask_next((int)cpu, a);
	return cpu;
}
static inline __maybe_unused unsigned int cpumask_weight(const struct cpumask *a)
{ STAND_IN_COUNT(a->bits[w]); }
static inline __maybe_unused unsigned int cpumask_weight_and(const struct cpumask *a, const struct cpumask *b)
{ STAND_IN_COUNT(a->bits[w] & b->bits[w]); }
static inline __maybe_unused unsigned int cpumask_weight_andnot(const struct cpumask *a, const struct cpumask *b)
{ STAND_IN_COUNT(a->bits[w] & ~b->bits[w]); }
static inline __maybe_unused bool cpumask_empty(const struct cpumask *a)
{ return cpumask_first(a) >= nr_cpu_ids; }
static inline __maybe_unused bool cpumask_full(const struct cpumask *a)
{ return cpumask_weight(a) == nr_cpu_ids; }
static inline __maybe_unused bool cpumask_intersects(const struct cpumask *a, const struct cpumask *b)
{ return cpumask_first_and(a, b) < nr_cpu_ids; }
static inline __maybe_unused bool cpumask_subset(const struct cpumask *a, const struct cpumask *b)
{ return cpumask_first_andnot(a, b) >= nr_cpu_ids; }
static inline __maybe_unused bool cpumask_equal(const struct cpumask *a, const struct cpumask *b)
{ return cpumask_subset(a, b) && cpumask_subset(b, a); }
static inline __maybe_unused void cpumask_clear(struct cpumask *to)
{ STAND_IN_EACH(to->bits[w] = 0) }
static inline __maybe_unused void cpumask_setall(struct cpumask *to)
{ cpumask_clear(to); for (unsigned int cpu = 0; cpu < nr_cpu_ids; cpu++) cpumask_set_cpu(cpu, to); }
static inline __maybe_unused void cpumask_copy(struct cpumask *to, const struct cpumask *a)
{ STAND_IN_EACH(to->bits[w] = a->bits[w]) }
static inline __maybe_unused bool cpumask_and(struct cpumask *to, const struct cpumask *a, const struct cpumask *b)
{ STAND_IN_EACH(to->bits[w] = a->bits[w] & b->bits[w]) return !cpumask_empty(to); }
static inline __maybe_unused bool cpumask_andnot(struct cpumask *to, const struct cpumask *a, const struct cpumask *b)
{ STAND_IN_EACH(to->bits[w] = a->bits[w] & ~b->bits[w]) return !cpumask_empty(to); }
static inline __maybe_unused void cpumask_or(struct cpumask *to, const struct cpumask *a, const struct cpumask *b)
{ STAND_IN_EACH(to->bits[w] = a->bits[w] | b->bits[w]) }
static inline __maybe_unused void cpumask_xor(struct cpumask *to, const struct cpumask *a, const struct cpumask *b)
{ STAND_IN_EACH(to->bits[w] = a->bits[w] ^ b->bits[w]) }
#define for_each_cpu(cpu, mask) \
	for ((cpu) = cpumask_first(mask); (cpu) < nr_cpu_ids; (cpu) = cpumask_next((int)(cpu), mask))
#define for_each_cpu_and(cpu, a, b) \
	for ((cpu) = cpumask_first_and(a, b); (cpu) < nr_cpu_ids; (cpu) = cpumask_next_and((int)(cpu), a, b))
#define for_each_cpu_andnot(cpu, a, b) \
	for ((cpu) = cpumask_first_andnot(a, b); (cpu) < nr_cpu_ids; \
	     (cpu) = cpumask_next_andnot((int)(cpu), a, b))
/* From a CPU on, once around. */
#define for_each_cpu_wrap(cpu, mask, start) \
	for (unsigned int stop_ = (start), around_ = ((cpu) = cpumask_next((int)stop_ - 1, mask), 0); \
	     (cpu) < nr_cpu_ids ? !around_ || (cpu) < stop_ \
		: !around_++ && ((cpu) = cpumask_first(mask)) < min(stop_, nr_cpu_ids); \
	     (cpu) = cpumask_next((int)(cpu), mask))
#define for_each_possible_cpu(cpu) for_each_cpu(cpu, cpu_possible_mask)
#define for_each_present_cpu(cpu) for_each_cpu(cpu, cpu_present_mask)
#define for_each_online_cpu(cpu) for_each_cpu(cpu, cpu_online_mask)
#define num_possible_cpus() cpumask_weight(cpu_possible_mask)
#define num_present_cpus() cpumask_weight(cpu_present_mask)
#define num_online_cpus() cpumask_weight(cpu_online_mask)
#define cpu_possible(cpu) cpumask_test_cpu(cpu, cpu_possible_mask)
#define cpu_present(cpu) cpumask_test_cpu(cpu, cpu_present_mask)
#define cpu_online(cpu) cpumask_test_cpu(cpu, cpu_online_mask)
static inline __maybe_unused bool zalloc_cpumask_var(cpumask_var_t *mask, gfp_t gfp)
{ (void)gfp; *mask = kzalloc(sizeof(struct cpumask), gfp); return *mask; }
#define zalloc_cpumask_var_node(mask, gfp, node) zalloc_cpumask_var(mask, gfp)
#define alloc_cpumask_var(mask, gfp) zalloc_cpumask_var(mask, gfp)
#define alloc_cpumask_var_node(mask, gfp, node) zalloc_cpumask_var(mask, gfp)
#define free_cpumask_var(mask) kfree(mask)
#define CPUMASK_VAR_NULL NULL
#define cpumask_available(mask) ((mask) != NULL)
DEFINE_FREE(free_cpumask_var, struct cpumask *, if (_T) free_cpumask_var(_T))

/* Bitmaps of one's own. */
#define DECLARE_BITMAP(name, n) unsigned long name[BITS_TO_LONGS(n)]
#define bitmap_zero(map, n) memset(map, 0, BITS_TO_LONGS(n) * sizeof(long))
#define bitmap_zalloc(n, gfp) ((unsigned long *)kcalloc(BITS_TO_LONGS(n), sizeof(long), gfp))
#define bitmap_free(map) kfree(map)
#define __set_bit(n, map) ((void)((map)[(n) / 64] |= 1UL << (n) % 64))
#define __clear_bit(n, map) ((void)((map)[(n) / 64] &= ~(1UL << (n) % 64)))
#define set_bit(n, map) __set_bit(n, map)
#define clear_bit(n, map) __clear_bit(n, map)
#define test_bit(n, map) ((bool)((map)[(n) / 64] >> (n) % 64 & 1))

/* Nodes.  Every id up to the highest is possible. */
typedef struct { unsigned long bits[BITS_TO_LONGS(MAX_NUMNODES)]; } nodemask_t;
extern unsigned int nr_node_ids;
#define NODE_MASK_NONE ((nodemask_t){ { 0 } })
#define NUMA_NO_NODE (-1)
#define node_set(node, mask) __set_bit(node, (mask).bits)
#define node_clear(node, mask) __clear_bit(node, (mask).bits)
#define node_isset(node, mask) test_bit(node, (mask).bits)
#define nodes_clear(mask) memset((mask).bits, 0, sizeof((mask).bits))
static inline __maybe_unused unsigned int stand_in_next_node(int node, const nodemask_t *mask)
{
	unsigned int next = (unsigned int)(node + 1);

	while (next < MAX_NUMNODES && !node_isset(next, *mask))
		next++;
	return next;
}
static inline __maybe_unused unsigned int stand_in_count_nodes(const nodemask_t *mask)
{
	unsigned int count = 0;

	for (unsigned int w = 0; w < ARRAY_SIZE(mask->bits); w++)
		count += (unsigned int)__builtin_popcountl(mask->bits[w]);
	return count;
}
#define first_node(mask) stand_in_next_node(-1, &(mask))
#define next_node(node, mask) stand_in_next_node(node, &(mask))
#define nodes_weight(mask) stand_in_count_nodes(&(mask))
#define nodes_empty(mask) (nodes_weight(mask) == 0)
#define num_possible_nodes() nr_node_ids
#define for_each_node_mask(node, mask) \
	for ((node) = first_node(mask); (unsigned int)(node) < MAX_NUMNODES; (node) = next_node((int)(node), mask))
#define for_each_node(node) for ((node) = 0; (unsigned int)(node) < nr_node_ids; (node)++)
#define for_each_online_node(node) for_each_node(node)

/* The machine. */
int cpu_to_node(int cpu);
const struct cpumask *topology_sibling_cpumask(int cpu);
const struct cpumask *topology_cluster_cpumask(int cpu);
const struct cpumask *cpumask_of_node(int node);
const struct cpumask *cpumask_of(unsigned int cpu);
int topology_core_id(int cpu);
int topology_cluster_id(int cpu);

/* lib/sort.c, of the reader's tree too. */
void sort(void *base, size_t num, size_t size, cmp_func_t cmp, swap_func_t swap);
void sort_r(void *base, size_t num, size_t size, cmp_r_func_t cmp, swap_r_func_t swap, const void *priv);

#ifdef STAND_IN_NUMMASKS
struct cpumask *group_cpus_evenly(unsigned int numgrps, unsigned int *nummasks);
#else
struct cpumask *group_cpus_evenly(unsigned int numgrps);
#endif

#endif
