/*
 * See util/base64.h.
 */
#include "util/base64.h"

#include "util/turn.h"

static const char ALPHABET[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_write(struct buf *out, struct str bytes, bool with_padding)
{
	for (size_t i = 0; i < bytes.n; i += 3) {
		size_t n = MIN(bytes.n - i, (size_t)3);
		char text[4] = { '=', '=', '=', '=' };
		uint32_t v = 0;

		for (size_t k = 0; k < 3; k++)
			v = v << 8 |
			    (k < n ? (unsigned char)bytes.p[i + k] : 0);
		for (size_t k = 0; k <= n; k++)
			text[k] = ALPHABET[v >> (18 - 6 * k) & 63];
		buf_append(out, text, with_padding ? 4 : n + 1);
		(void)turn_step();
	}
}

/* -1: not of either alphabet. */
static int digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : -1;
}

bool base64_read(struct buf *out, struct str text)
{
	size_t before = out->n, n = text.n;
	uint32_t v = 0;

	while (n > 0 && text.n % 4 == 0 && text.n - n < 2 &&
	       text.p[n - 1] == '=')
		n--;
	if (n % 4 == 1)
		return false;
	for (size_t i = 0; i < n; i++) {
		int d = digit(text.p[i]);

		if (i % TURN_PIECE_BYTES == TURN_PIECE_BYTES - 1 &&
		    turn_bytes(TURN_PIECE_BYTES))
			d = -1;
		if (d < 0) {
			out->n = before;
			return false;
		}
		v = v << 6 | (uint32_t)d;
		if (i % 4 != 0)
			buf_putc(out, (char)(v >> (6 - 2 * (i % 4))));
	}
	/* what is left over of the last digit says nothing */
	if ((n % 4 == 2 && (v & 15) != 0) || (n % 4 == 3 && (v & 3) != 0)) {
		out->n = before;
		return false;
	}
	return !out->full;
}
