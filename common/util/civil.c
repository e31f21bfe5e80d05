#include "util/civil.h"

/*
 * The arithmetic counts years from 1 March, so that the leap day is the last
 * of its year, in eras of 400 years (146097 days). 719468 days lie between
 * 0000-03-01 and 1970-01-01.
 */
#define ERA_YEARS  400
#define ERA_DAYS   146097
#define EPOCH_DAYS 719468

uint64_t civil_days(unsigned year, unsigned month, unsigned day)
{
	uint64_t y = month <= 2 ? year - 1 : year;
	uint64_t era = y / ERA_YEARS;
	uint64_t yoe = y % ERA_YEARS;
	uint64_t doy = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
	uint64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;

	return era * ERA_DAYS + doe - EPOCH_DAYS;
}

void civil_date(uint64_t days, unsigned *ret_year, unsigned *ret_month,
		unsigned *ret_day)
{
	uint64_t z = days + EPOCH_DAYS;
	uint64_t doe = z % ERA_DAYS;
	uint64_t yoe =
	    (doe - doe / 1460 + doe / 36524 - doe / (ERA_DAYS - 1)) / 365;
	uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	uint64_t mp = (5 * doy + 2) / 153;

	*ret_day = (unsigned)(doy - (153 * mp + 2) / 5 + 1);
	*ret_month = (unsigned)(mp < 10 ? mp + 3 : mp - 9);
	*ret_year =
	    (unsigned)(yoe + z / ERA_DAYS * ERA_YEARS + (*ret_month <= 2));
}

bool civil_is_leap(unsigned year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

unsigned civil_month_days(unsigned year, unsigned month)
{
	static const unsigned char days[] = { 31, 28, 31, 30, 31, 30,
					      31, 31, 30, 31, 30, 31 };

	return days[month - 1] + (month == 2 && civil_is_leap(year));
}
