/*
 * Says what corvo-httpd/front/framing.h makes of bytes, for a comparison with
 * other parsers. Each line of standard input is bytes in hexadecimal; each
 * line of the output is OK or the code of an error, the number of requests
 * that were whole, how many of the bytes are theirs, and the reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/framing.h"
#include "proto/err.h"

static unsigned digit(char c)
{
	return c <= '9' ? (unsigned)c - '0' : (unsigned)c - 'a' + 10;
}

static void judge(const char *hex, size_t n)
{
	struct framing f = { 0 };
	uint8_t *bytes = xcalloc(n / 2 + 1, 1);
	size_t good;
	int r;

	for (size_t i = 0; i < n / 2; i++)
		bytes[i] =
		    (uint8_t)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
	r = framing_feed(&f, bytes, n / 2, &good);
	(void)printf("%s %llu %zu %s\n", r == 0 ? "OK" : err_code(-r),
		     (unsigned long long)f.whole, good,
		     f.why != NULL ? f.why : "");
	free(bytes);
}

int main(void)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	while ((n = getline(&line, &room, stdin)) > 0)
		judge(line, strcspn(line, "\n"));
	free(line);
	return 0;
}
