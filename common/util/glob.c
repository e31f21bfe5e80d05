/*
 * See util/glob.h.
 */
#include "util/glob.h"

/*
 * A star first takes nothing. When what follows does not fit, the last star
 * takes one more: those before it need not be looked at again.
 */
bool glob_matches(struct str pattern, struct str name)
{
	size_t p = 0, n = 0, star = 0, from = 0;
	bool has_star = false;

	while (n < name.n) {
		if (p < pattern.n && pattern.p[p] == '*') {
			has_star = true;
			star = p++;
			from = n;
		} else if (p < pattern.n && pattern.p[p] == name.p[n]) {
			p++;
			n++;
		} else if (has_star) {
			p = star + 1;
			n = ++from;
		} else {
			return false;
		}
	}
	while (p < pattern.n && pattern.p[p] == '*')
		p++;
	return p == pattern.n;
}
