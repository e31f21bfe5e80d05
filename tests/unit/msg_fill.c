#include "msg_fill.h"

#include "lib/testlib.h"

#define LIST_MAX 3

static uint64_t any_u64(struct rng *rng)
{
	return rng_u64(rng) >> rng_below(rng, 64);
}

static struct str any_text(struct rng *rng, struct arena *a)
{
	size_t n =
	    rng_below(rng, 4) == 0 ? rng_below(rng, 300) : rng_below(rng, 12);
	char *p = arena_alloc(a, n + 1);

	for (size_t i = 0; i < n; i++)
		p[i] = (char)(' ' + rng_below(rng, 95));
	return str_of(p, n);
}

static void fill_strs(struct rng *rng, struct arena *a, struct str **ret,
		      size_t *ret_n)
{
	*ret_n = rng_below(rng, LIST_MAX + 1);
	*ret = arena_alloc(a, *ret_n * sizeof(**ret));
	for (size_t i = 0; i < *ret_n; i++)
		(*ret)[i] = any_text(rng, a);
}

static void fill_msgs(const struct msg_desc *d, struct rng *rng,
		      unsigned one_in, struct arena *a, char **ret,
		      size_t *ret_n)
{
	*ret_n = rng_below(rng, LIST_MAX + 1);
	*ret = arena_alloc(a, *ret_n * d->size);
	for (size_t i = 0; i < *ret_n; i++)
		msg_fill(d, rng, one_in, a, *ret + i * d->size);
}

static void fill_field(const struct field_desc *f, struct rng *rng,
		       unsigned one_in, struct arena *a, char *m)
{
	void *p = m + f->offset;
	size_t *n = (size_t *)(m + f->count_offset);

	switch ((enum field_kind)f->kind) {
	case K_bool:
		*(bool *)p = rng_below(rng, 2) != 0;
		break;
	case K_u32:
		*(uint32_t *)p = (uint32_t)any_u64(rng);
		break;
	case K_enum:
		*(uint32_t *)p =
		    f->values->values[rng_below(rng, f->values->n)].number;
		break;
	case K_u64:
	case K_time:
	case K_dur:
	case K_secs:
	case K_nano:
		*(uint64_t *)p = any_u64(rng);
		break;
	case K_i64:
		*(int64_t *)p = (int64_t)any_u64(rng);
		break;
	case K_f64:
		*(double *)p = rng_unit(rng);
		break;
	case K_str:
	case K_raw:
		*(struct str *)p = any_text(rng, a);
		break;
	case K_strs:
		fill_strs(rng, a, p, n);
		break;
	case K_msg:
		*(void **)p = arena_alloc(a, f->sub->size);
		msg_fill(f->sub, rng, one_in, a, *(void **)p);
		break;
	case K_msgs:
		fill_msgs(f->sub, rng, one_in, a, p, n);
		break;
	}
}

void msg_fill(const struct msg_desc *d, struct rng *rng, unsigned one_in,
	      struct arena *a, void *ret)
{
	memset(ret, 0, d->size);
	for (size_t i = 0; i < d->n; i++) {
		if (rng_below(rng, one_in) != 0)
			continue;
		fill_field(&d->fields[i], rng, one_in, a, ret);
		*(uint64_t *)ret |= 1ULL << i;
	}
}

static bool field_equal(const struct field_desc *f, const char *x,
			const char *y)
{
	const void *p = x + f->offset, *q = y + f->offset;
	size_t n = 0;

	if (f->count_offset != 0) {
		n = *(const size_t *)(x + f->count_offset);
		if (n != *(const size_t *)(y + f->count_offset))
			return false;
	}
	switch ((enum field_kind)f->kind) {
	case K_bool:
		return *(const bool *)p == *(const bool *)q;
	case K_u32:
	case K_enum:
		return *(const uint32_t *)p == *(const uint32_t *)q;
	case K_u64:
	case K_time:
	case K_dur:
	case K_secs:
	case K_nano:
	case K_i64:
		return *(const uint64_t *)p == *(const uint64_t *)q;
	case K_f64:
		return *(const double *)p == *(const double *)q;
	case K_str:
	case K_raw:
		return str_eq(*(const struct str *)p, *(const struct str *)q);
	case K_strs:
		for (size_t i = 0; i < n; i++)
			if (!str_eq((*(struct str *const *)p)[i],
				    (*(struct str *const *)q)[i]))
				return false;
		return true;
	case K_msg:
		msg_assert_equal(f->sub, *(void *const *)p, *(void *const *)q);
		return true;
	case K_msgs:
		for (size_t i = 0; i < n; i++)
			msg_assert_equal(f->sub,
					 *(char *const *)p + i * f->sub->size,
					 *(char *const *)q + i * f->sub->size);
		return true;
	}
	return false;
}

void msg_assert_equal(const struct msg_desc *d, const void *x, const void *y)
{
	uint64_t has = *(const uint64_t *)x;

	if (has != *(const uint64_t *)y)
		fail_msg("%s: has %llx and %llx", d->name,
			 (unsigned long long)has,
			 (unsigned long long)*(const uint64_t *)y);
	for (size_t i = 0; i < d->n; i++)
		if ((has >> i & 1) != 0 && !field_equal(&d->fields[i], x, y))
			fail_msg("%s.%s differs", d->name, d->fields[i].name);
}
