/*
 * Schedules, as they are listed.
 */
#include "store/record.h"
#include "store/record_impl.h"

int record_schedules(struct kv *kv, struct str after, uint32_t limit,
		     struct arena *a, struct m_schedule_list *ret)
{
	struct m_schedule *list;
	struct kv_iter *it;
	struct key from, prefix, upto;
	size_t n = 0, bytes = 0;
	int r = 0;

	*ret = (struct m_schedule_list){ 0 };
	if (after.n > LIMIT_SCHED_NAME_BYTES)
		return 0;
	if (limit == 0 || limit > LIMIT_SCHEDULE_PAGE)
		limit = LIMIT_SCHEDULE_PAGE;
	list = arena_alloc(a, limit * sizeof(*list));
	key_prefix_space(&prefix, "sc|", SPACE_DEFAULT);
	key_prefix_end(&prefix, &upto);
	key_schedule(&from, SPACE_DEFAULT, after);
	if (after.n > 0)
		from.p[from.n++] = '\0'; /* the first key behind it */
	it = kv_iter_new(kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it) && r == 0; kv_iter_next(it)) {
		struct str value = kv_iter_value(it);

		if (n == limit ||
		    (n > 0 && bytes + value.n > LIMIT_LIST_BYTES)) {
			MSG_SET(ret, schedule_list, next, list[n - 1].id);
			break;
		}
		bytes += value.n;
		if (msg_decode(&msg_schedule, arena_copy(a, value), a,
			       &list[n++]) < 0)
			r = record_damaged();
	}
	if (r == 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	MSG_SET_LIST(ret, schedule_list, schedules, list, n);
	return r;
}
