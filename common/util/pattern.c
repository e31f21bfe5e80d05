#include "util/pattern.h"

/*
 * What was matched behind a star stays so when the next star comes: to go back
 * to the last one is enough.
 */
bool pattern_matches(struct str pattern, struct str text)
{
	size_t p = 0, t = 0;
	size_t star = SIZE_MAX, from = 0; /* the last star, and where it ends */

	while (t < text.n) {
		if (p < pattern.n && pattern.p[p] == '*') {
			star = p++;
			from = t;
		} else if (p < pattern.n && pattern.p[p] == text.p[t]) {
			p++;
			t++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			t = ++from;
		} else {
			return false;
		}
	}
	while (p < pattern.n && pattern.p[p] == '*')
		p++;
	return p == pattern.n;
}
