// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's sort() from Linux 6.9 or so on, written anew: a heapsort that takes the two greatest
 * elements off the heap together.  It is not stable, and equal elements end where its ties put them.
 */
#include <linux/types.h>
#include <linux/export.h>
#include <linux/sort.h>

struct heap {
	char *base;
	size_t size;
	cmp_r_func_t cmp;
	const void *priv;
};

static int compare(const struct heap *heap, size_t a, size_t b)
{
	return heap->cmp(heap->base + a * heap->size, heap->base + b * heap->size, heap->priv);
}

static void exchange(const struct heap *heap, size_t a, size_t b)
{
	char *left = heap->base + a * heap->size, *right = heap->base + b * heap->size;
	size_t i;

	for (i = 0; i < heap->size; i++) {
		char byte = left[i];

		left[i] = right[i];
		right[i] = byte;
	}
}

/* Follow the greater children to a leaf, climb to where the element belongs, and shift the path. */
static void sift_down(const struct heap *heap, size_t root, size_t count)
{
	size_t at = root, place;

	while (2 * at + 2 < count)
		at = compare(heap, 2 * at + 1, 2 * at + 2) > 0 ? 2 * at + 1 : 2 * at + 2;
	if (2 * at + 2 == count)
		at = 2 * at + 1;
	while (at != root && compare(heap, root, at) >= 0)
		at = (at - 1) / 2;
	place = at;
	while (at != root) {
		at = (at - 1) / 2;
		exchange(heap, at, place);
	}
}

void sort_r(void *base, size_t num, size_t size, cmp_r_func_t cmp, swap_r_func_t swap_func,
	    const void *priv)
{
	struct heap heap = { base, size, cmp, priv };
	size_t left = num, second, root;

	for (root = num / 2; root-- > 0;)
		sift_down(&heap, root, num);
	while (left > 3) {
		exchange(&heap, 0, --left);
		second = compare(&heap, 1, 2) <= 0 ? 2 : 1;
		exchange(&heap, second, --left);
		sift_down(&heap, second, left);
		sift_down(&heap, 0, left);
	}
	if (left > 1) {
		exchange(&heap, 0, --left);
		if (left == 2 && compare(&heap, 0, 1) > 0)
			exchange(&heap, 0, 1);
	}
}
EXPORT_SYMBOL(sort_r);

static int without_priv(const void *a, const void *b, const void *priv)
{
	return (*(const cmp_func_t *)priv)(a, b);
}

void sort(void *base, size_t num, size_t size, cmp_func_t cmp, swap_func_t swap_func)
{
	sort_r(base, num, size, without_priv, NULL, &cmp);
}
EXPORT_SYMBOL(sort);
