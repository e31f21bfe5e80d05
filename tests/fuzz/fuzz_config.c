/*
 * Settings of a file, and addresses in them.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "rt/config.h"
#include "rt/ip.h"
#include "rt/netaddr.h"
#include "util/json.h"

static void file(struct str in)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf json = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&json);
	struct settings s = { 0 };
	char flag[64], *argv[] = { flag };
	int fd = memfd_create("corvo.conf", 0);
	struct json_error e;

	CHECK(fd >= 0 && write(fd, in.p, in.n) == (ssize_t)in.n);
	(void)snprintf(flag, sizeof(flag), "--config=/proc/self/fd/%d", fd);
	if (settings_load(1, argv, &s, &why) == 0) {
		struct str rest = str_from(s.join), place;

		settings_put_json(&w, &s, NULL);
		CHECK(json_validate(buf_str(&json), 64, &e));
		while (settings_next_join(&rest, &place))
			CHECK(place.n > 0);
		(void)settings_check_bind(&s, &why);
		settings_done(&s);
	} else {
		CHECK(why.n > 0);
	}
	(void)close(fd);
}

static void address(struct str in)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct netaddr a;
	struct str host;
	uint16_t port;
	size_t n;

	buf_put_str(&text, in);
	buf_putc(&text, '\0');
	(void)netaddr_is_loopback(in);
	(void)netaddr_is_wildcard(in);
	CHECK(netaddr_split(text.p, &host, &port, &why) == 0 || why.n > 0);
	(void)netaddr_resolve(text.p, true, &a, 1, &n, &why);
}

void fuzz_one(struct str in)
{
	if (fuzz_choice(&in, 4) == 0)
		address(in);
	else
		file(in);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	static const char *const places[] = { "[::1]:9400", "127.0.0.1:80",
					      ":1", "a.example:65535" };
	unsigned how = (unsigned)rng_below(rng, 4);

	buf_putc(out, (char)how);
	if (how == 0) {
		buf_puts(out, places[rng_below(rng, ARRAY_SIZE(places))]);
		return;
	}
	for (uint64_t n = 1 + rng_below(rng, 6); n > 0; n--) {
		const struct setting_info *i =
		    setting_info((enum setting_id)rng_below(rng, SETTING_MAX));

		buf_printf(out, "%s = %s # x\n", i->name,
			   *i->def != '\0' ? i->def : "\"127.0.0.1:9400\"");
	}
}
