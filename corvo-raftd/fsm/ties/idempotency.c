/*
 * Requests that their sender may send twice: the first answer is kept under
 * the Idempotency-Key for a day and given again. Keys are hostile texts of a
 * limited length, checked before they get here.
 *
 * ik|key holds the answer, ie|ns key is where a purge finds it when its time
 * is over; until then an outdated record counts as absent and is overwritten.
 * A key is tied to the hash of what was asked, which also tells the kinds of
 * requests apart: an answer is only ever read as what it was written.
 */
#include "fsm/ties/idempotency.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/order/retention.h"

#define IDEMPOTENCY_KEEP_NS (86400 * NS_PER_S)

/*
 * What keys of the store have room for, ie|ns:8 space:4 before it. That is more
 * than clients may send, but a log may have some that were not checked, and
 * those up to here were taken.
 */
#define IDEMPOTENCY_KEY_MAX (KEY_MAX - 15)

static int record_read(struct fsm *f, struct str key,
		       struct m_idempotency_doc *ret)
{
	struct key k;

	key_idempotency(&k, SPACE_DEFAULT, key);
	return fsm_read(f, &k, &msg_idempotency_doc, ret);
}

int idempotency_find(struct fsm *f, struct str key, uint64_t hash,
		     const struct msg_desc *d, void *reply)
{
	struct m_idempotency_doc doc;
	int r;

	if (key.n > IDEMPOTENCY_KEY_MAX)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "idempotency_key: must have at most %d bytes",
				  LIMIT_UNIQUE_KEY_BYTES);
	r = record_read(f, key, &doc);
	if (r <= 0 || doc.expires_at <= f->now_ns)
		return MIN(r, 0);
	if (doc.hash != hash)
		return fsm_refuse(f, ERR_IDEMPOTENCY_MISMATCH,
				  "the Idempotency-Key \"%.*s\" was used with "
				  "another request; use a new key",
				  STR_ARG(key));
	if (msg_decode(d, doc.reply, &f->item_arena, reply) < 0)
		return fsm_fail(f, -ERR_INTERNAL_ERROR);
	return 1;
}

void idempotency_keep(struct fsm *f, struct str key, uint64_t hash,
		      const struct msg_desc *d, const void *reply)
{
	struct m_idempotency_doc doc;
	struct buf encoded = BUF_INIT(0);
	struct key k;
	int r;

	MUST(f, key.n > 0 && key.n <= IDEMPOTENCY_KEY_MAX);
	r = record_read(f, key, &doc);
	if (r < 0)
		return; /* f->fatal is set: the entry is not committed */
	if (r > 0) {
		key_idempotency_end(&k, doc.expires_at, SPACE_DEFAULT, key);
		fsm_delete(f, &k);
	}
	msg_encode(d, reply, &encoded);
	doc = (struct m_idempotency_doc){ 0 };
	MSG_SET(&doc, idempotency_doc, hash, hash);
	MSG_SET(&doc, idempotency_doc, reply, buf_str(&encoded));
	MSG_SET(&doc, idempotency_doc, expires_at,
		fsm_later(f, IDEMPOTENCY_KEEP_NS));
	key_idempotency(&k, SPACE_DEFAULT, key);
	fsm_put(f, &k, &msg_idempotency_doc, &doc);
	key_idempotency_end(&k, doc.expires_at, SPACE_DEFAULT, key);
	txn_put(f->txn, key_str(&k), STR(""));
	purge_note_key(f, doc.expires_at);
	buf_done(&encoded);
}
