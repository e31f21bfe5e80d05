/*
 * The Gregorian calendar: dates to days since 1970-01-01 and back. Years from
 * 1970 on; a date that does not exist is the caller's bug.
 */
#ifndef CORVO_CIVIL_H
#define CORVO_CIVIL_H

#include "util/base.h"

#define S_PER_MIN  60
#define S_PER_HOUR 3600
#define S_PER_DAY  86400

uint64_t civil_days(unsigned year, unsigned month, unsigned day);
void civil_date(uint64_t days, unsigned *ret_year, unsigned *ret_month,
		unsigned *ret_day);
unsigned civil_month_days(unsigned year, unsigned month);
bool civil_is_leap(unsigned year);

/* 0: Sunday. */
static inline unsigned civil_weekday(uint64_t days)
{
	return (unsigned)((days + 4) % 7); /* 1970-01-01 was a Thursday */
}

#endif
