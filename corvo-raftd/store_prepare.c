/*
 * See store_prepare.h.
 */
#include "store_prepare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rt/log.h"
#include "store/format.h"
#include "util/clock.h"

#define SAME_ERROR_NS (10 * NS_PER_S) /* between lines about one error */

struct upgrading {
	struct notify *notify;
	uint64_t keys;
};

/* It may take longer than the supervisor waits for a sign of life. */
static void on_upgrade_batch(void *ctx, uint64_t keys)
{
	struct upgrading *u = ctx;

	u->keys = keys;
	notify_watchdog(u->notify);
}

/* Any thread. Who meets the same again and again says so once a while. */
static void on_store_error(const char *text)
{
	static _Thread_local char last[128];
	static _Thread_local uint64_t last_ns;
	uint64_t now = clock_mono_ns();

	if (last_ns != 0 && now - last_ns < SAME_ERROR_NS &&
	    strncmp(last, text, sizeof(last) - 1) == 0)
		return;
	(void)snprintf(last, sizeof(last), "%s", text);
	last_ns = now;
	log_error("store: %s", text);
}

int store_prepare(struct kv *kv, struct notify *notify, const char *path,
		  struct buf *why)
{
	struct upgrading u = { .notify = notify };
	struct format_upgrade how = { .on_batch = on_upgrade_batch, .ctx = &u };
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	uint64_t begin = clock_mono_ns();
	uint32_t format = 0;
	int e = format_read(kv, &format);
	bool old = e == 0 && format > 0 && format < STORED_FORMAT;

	kv_on_error(on_store_error);
	if (old)
		log_info("upgrading the store from format %u to %u", format,
			 STORED_FORMAT);
	e = format_prepare(kv, &how, &text);
	if (e < 0)
		buf_printf(why, "%s: %.*s", path, STR_ARG(buf_str(&text)));
	else if (old)
		log_info("the store is upgraded keys=%" PRIu64 " ms=%" PRIu64,
			 u.keys, (clock_mono_ns() - begin) / NS_PER_MS);
	return e;
}
