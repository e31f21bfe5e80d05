#include "store/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/key.h"
#include "store/record.h"
#include "util/hash.h"

struct digest {
	struct kv_iter *it;
	uint64_t a, b; /* of what was read so far */
	struct digest_result result;
};

struct digest *digest_new(struct kv *kv)
{
	struct digest *d = xcalloc(1, sizeof(*d));

	d->it = kv_iter_new(kv, STR_NULL, STR_NULL);
	return d;
}

void digest_free(struct digest *d)
{
	if (d == NULL)
		return;
	kv_iter_free(d->it);
	free(d);
}

/* The next state of one of the two numbers. */
static uint64_t mix(uint64_t state, const uint64_t *words, size_t n)
{
	char block[8 * 5];

	CHECK(8 * (n + 1) <= sizeof(block));
	put_be64(block, state);
	for (size_t i = 0; i < n; i++)
		put_be64(block + 8 * (i + 1), words[i]);
	return hash_stable(block, 8 * (n + 1));
}

static void add(struct digest *d, struct str key, struct str value)
{
	uint64_t words[] = { hash_stable(key.p, key.n), key.n,
			     hash_stable(value.p, value.n), value.n };
	uint64_t other[] = { words[2], words[3], ~words[0], words[1] };

	d->a = mix(d->a, words, ARRAY_SIZE(words));
	d->b = mix(d->b, other, ARRAY_SIZE(other));
	d->result.keys++;
	d->result.bytes += key.n + value.n;
}

static bool is_local(struct str key)
{
	struct key k;

	key_format(&k);
	return str_eq(key, key_str(&k));
}

static bool is_meta(struct str key)
{
	struct key k;

	key_meta(&k);
	return str_eq(key, key_str(&k));
}

int digest_step(struct digest *d, size_t bytes)
{
	for (size_t n = 0; kv_iter_valid(d->it); kv_iter_next(d->it)) {
		struct str key = kv_iter_key(d->it);
		struct str value = kv_iter_value(d->it);
		struct record_meta m;

		if (n > 0 && n + key.n + value.n > bytes)
			return 1;
		n += key.n + value.n;
		if (is_local(key))
			continue;
		add(d, key, value);
		if (!is_meta(key))
			continue;
		if (!record_meta_decode(value, &m))
			return -ERR_STORAGE_ERROR;
		d->result.index = m.applied_index;
		d->result.seq = m.last_seq;
	}
	return kv_iter_error(d->it);
}

void digest_result(const struct digest *d, struct digest_result *ret)
{
	*ret = d->result;
	(void)snprintf(ret->text, sizeof(ret->text), "%016llx%016llx",
		       (unsigned long long)d->a, (unsigned long long)d->b);
}
