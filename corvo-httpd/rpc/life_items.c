/*
 * Items of a frame that are refused, each by itself. See rpc/life_parts.h.
 *
 * A frame that cannot be read as one is refused as a whole (rpc/life_frame.c);
 * an item that cannot be read, or says what cannot be, is left out, and all
 * else is done.
 */
#include "rpc/life_parts.h"

static const struct {
	size_t member; /* of struct m_lifecycle */
	const char *name;
	const struct msg_desc *d; /* NULL: it is no list */
} lists[LIFE_PARTS] = {
	[LIFE_ACKS] = { MF_lifecycle_acks, "acks", &msg_ack_item },
	[LIFE_FAILS] = { MF_lifecycle_fails, "fails", &msg_fail },
	[LIFE_BEATS] = { MF_lifecycle_heartbeats, "heartbeats", &msg_beat },
	[LIFE_JOBS] = { MF_lifecycle_enqueues, "enqueues", &msg_enqueue },
};

/* Where an item stands among those of its frame: the lists come in the order
 * they are told, whenever one of them was found out about. */
struct life_place {
	enum life_part list;
	size_t i;
};

static bool is_behind(const struct life_place *a, const struct life_place *b)
{
	return a->list != b->list ? a->list > b->list : a->i > b->i;
}

/* A free one for it, behind those that come before it; NULL: as many as are
 * told do. There is room for them as for those of the whole answer. */
static struct m_refused_item *new_item(struct life_frame *f,
				       struct life_place p)
{
	struct m_refused_item *all = f->reply.refused_items;
	size_t n = f->reply.refused_items_n, at = n;

	if (n == 0) {
		all = arena_zalloc(&f->a, LIMIT_REFUSED_ITEMS * sizeof(*all));
		f->refused_at = arena_alloc(&f->a, LIMIT_REFUSED_ITEMS *
						       sizeof(*f->refused_at));
	}
	while (at > 0 && is_behind(&f->refused_at[at - 1], &p))
		at--;
	if (at == LIMIT_REFUSED_ITEMS)
		return NULL;
	n = MIN(n, (size_t)LIMIT_REFUSED_ITEMS - 1);
	memmove(&all[at + 1], &all[at], (n - at) * sizeof(*all));
	memmove(&f->refused_at[at + 1], &f->refused_at[at],
		(n - at) * sizeof(*f->refused_at));
	f->refused_at[at] = p;
	all[at] = (struct m_refused_item){ 0 };
	MSG_SET_LIST(&f->reply, lifecycle_reply, refused_items, all, n + 1);
	return &all[at];
}

static void tell(struct life_frame *f, enum life_part list, size_t i, int err,
		 struct str text)
{
	struct m_refused_item *item;

	if (text.n == 0)
		text = str_from(err_text(err));
	if (list == LIFE_JOBS && f->bad_job.err == 0)
		f->bad_job = (struct life_fault){
			.part = list,
			.index = i,
			.err = err,
			.text = arena_copy(&f->a, text),
		};
	item = new_item(f, (struct life_place){ list, i });
	if (item == NULL)
		return;
	MSG_SET(item, refused_item, item,
		arena_printf(&f->a, "%s[%zu]", lists[list].name, i));
	MSG_SET(item, refused_item, code, str_from(err_code(err)));
	MSG_SET(item, refused_item, error, arena_copy(&f->a, text));
}

void life_refuse_item(struct life_frame *f, enum life_part list, size_t i,
		      int err, struct str text)
{
	life_error(f, &(struct life_fault){
			  .part = list, .index = i, .err = err, .text = text });
	tell(f, list, i, err, text);
}

/* So many a list may have. */
static size_t most_of(enum life_part list)
{
	return msg_lifecycle.fields[lists[list].member].max;
}

/* Its text says which item it is. */
void life_unread(void *frame, size_t member, size_t index, int err,
		 struct str why)
{
	struct life_frame *f = frame;
	enum life_part list = LIFE_ACKS;

	while (lists[list].d == NULL || lists[list].member != member)
		REQUIRE(++list < LIFE_PARTS);
	REQUIRE(index < most_of(list));
	if (f->unread[list] == NULL)
		f->unread[list] =
		    arena_zalloc(&f->a, most_of(list) * sizeof(bool));
	f->unread[list][index] = true;
	life_error(f, &(struct life_fault){ .part = list,
					    .index = index,
					    .says_where = true,
					    .err = err,
					    .text = why });
	tell(f, list, index, err, why);
}

bool life_item_ok(struct life_frame *f, enum life_part list, size_t i,
		  const void *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	int r;

	if (f->unread[list] != NULL && f->unread[list][i])
		return false;
	r = msg_check(lists[list].d, m, &why);
	if (r < 0)
		life_refuse_item(f, list, i, -r, buf_str(&why));
	return r == 0;
}

bool life_text_ok(struct life_frame *f, enum life_part part, const char *name,
		  struct str text, size_t max)
{
	if (text.n <= max)
		return true;
	life_error(
	    f, &(struct life_fault){
		   .part = part,
		   .err = ERR_VALIDATION_ERROR,
		   .text = arena_printf(&f->a, "%s: must be at most %zu bytes",
					name, max) });
	return false;
}
