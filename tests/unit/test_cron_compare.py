"""Next times of 200 expressions in 12 zones around changes of the clock.

Compared twice: with a brute force written here on Python's zoneinfo, for each
rule of `dst`, and with the package cronsim, which has Debian's rule too, for
`once`. cronsim is installed by pip into the build folder at the first run;
where pip cannot get it that comparison is skipped.
"""

import calendar
import os
import random
import subprocess
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from packages import pip_package

BUILD = Path(os.environ["CORVO_BUILD_DIR"])
CRON_TIMES = BUILD / "tests" / "unit" / "cron_times"
UTC = timezone.utc
RULES = ["once", "skip", "shift"]
ZONES = ["Europe/Berlin", "America/New_York", "America/Sao_Paulo",
         "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia",
         "Africa/Casablanca", "Asia/Tehran", "Pacific/Auckland",
         "Europe/Dublin", "America/St_Johns", "Asia/Tokyo"]
YEARS = range(2010, 2030)
CHANGES = 4  # of each zone, spread over the years
BEFORE = timedelta(hours=26)
AFTER = timedelta(hours=30)
MONTHS = tuple("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split())
DAYS = tuple("SUN MON TUE WED THU FRI SAT".split())

WRITTEN = [
    "* * * * *", "*/15 * * * *", "0 * * * *", "30 * * * *", "0 0 * * *",
    "30 0 * * *", "0 1 * * *", "30 1 * * *", "0 2 * * *", "15 2 * * *",
    "30 2 * * *", "59 2 * * *", "0 3 * * *", "30 3 * * *", "0,30 2 * * *",
    "0,30 1-3 * * *", "*/20 2 * * *", "*/7 1,2,3 * * *", "0 */2 * * *",
    "30 */6 * * *", "0-59/10 2 * * *", "5/25 2-4 * * *", "0 12 * * *",
    "0 0 1 * *", "0 0 L * *", "30 2 L * *", "30 2 LW * *", "0 2 * * SUN",
    "30 2 * * 0", "30 2 * * 7", "30 2 * * 7L", "30 2 * * 0L", "0 3 * * SUN#2",
    "30 2 * 3,10 SUN#5", "0 0 13 * 5", "0 0 29 2 *", "0 9 * * MON-FRI",
    "0 2 1-7 * 0", "30 2 */2 * *", "0 0 */5 * 1-5", "23 0-23/2 * * *",
    "30 2 L-3 * *", "0 2 15W * *", "30 1 1W * *", "0 0 ? * 0", "30 23 * * *",
    "45 23 31 12 *", "0 0,12 * * SAT", "0 4 8-14 * *", "5 4 * * sun",
]


def expressions():
    rng = random.Random(200)

    def some(low, high, star):
        kind = rng.randrange(5)
        if star and kind == 0:
            return rng.choice(["*", "*", f"*/{rng.randint(2, 9)}"])
        a, b = sorted(rng.sample(range(low, high + 1), 2))
        return [str(a), f"{a},{b}", f"{a}-{b}", f"{a}-{b}/2", str(b)][kind]

    found = list(WRITTEN)
    while len(found) < 200:
        e = " ".join([some(0, 59, True), some(0, 4, True),
                      rng.choice(["*", "*", "*", some(1, 28, False)]),
                      rng.choice(["*", "*", some(1, 12, False)]),
                      rng.choice(["*", "*", "*", some(0, 7, False)])])
        if e not in found:
            found.append(e)
    return found


def utc_offset(zone, at):
    return datetime.fromtimestamp(at, zone).utcoffset()


@lru_cache(None)
def windows():
    """[(zone name, first second, last second)] around changes of the clock."""
    found = []
    for name in ZONES:
        zone, changes = ZoneInfo(name), []
        at = int(datetime(YEARS[0], 1, 1, tzinfo=UTC).timestamp())
        end = int(datetime(YEARS[-1] + 1, 1, 1, tzinfo=UTC).timestamp())
        for day in range(at, end, 86400):
            if utc_offset(zone, day) != utc_offset(zone, day + 86400):
                low, high = day, day + 86400
                while high - low > 1:
                    middle = (low + high) // 2
                    if utc_offset(zone, middle) == utc_offset(zone, low):
                        low = middle
                    else:
                        high = middle
                changes.append(high)
        if not changes:  # a zone without any: any days will do
            changes = [at + 86400 * 100, end - 86400 * 100]
        step = max(1, len(changes) // CHANGES)
        for at in changes[::step][:CHANGES]:
            found.append((name, at - int(BEFORE.total_seconds()),
                          at + int(AFTER.total_seconds())))
    return found


def ask(questions):
    """[(zone, rule, after, count, expression)] to lists of seconds."""
    text = "".join(f"{z}|{RULES.index(r)}|{a}|{n}|{e}\n"
                   for z, r, a, n, e in questions)
    out = subprocess.run([str(CRON_TIMES)], input=text, check=True,
                         capture_output=True, text=True).stdout.splitlines()
    assert len(out) == len(questions)
    for line, question in zip(out, questions):
        assert not line.startswith("error"), (question, line)
    return [[int(w) for w in line.split()] for line in out]


# --- the brute force --------------------------------------------------------


@lru_cache(None)
def values(text, low, high, names=()):
    found = set()
    for item in text.split(","):
        part, _, step = item.partition("/")
        if part in ("*", "?"):
            a, b = low, high
        else:
            ends = [names.index(p.upper()) + low if p.upper() in names
                    else int(p) for p in part.split("-")]
            a, b = ends[0], ends[-1] if len(ends) > 1 or not step else high
        found.update(range(a, b + 1, int(step or 1)))
    return found


def nearest_weekday(day):
    last = calendar.monthrange(day.year, day.month)[1]
    for move in (0, -1, 1, -2, 2):
        if 1 <= day.day + move <= last and \
                (day + timedelta(days=move)).weekday() < 5:
            return day + timedelta(days=move)


def is_day(text, day):
    last = calendar.monthrange(day.year, day.month)[1]
    for item in text.split(","):
        if item == "LW":
            if nearest_weekday(day.replace(day=last)) == day:
                return True
        elif item.startswith("L"):
            if day.day == last - int(item[2:] or 0):
                return True
        elif item.endswith("W"):
            if nearest_weekday(day.replace(day=int(item[:-1]))) == day:
                return True
        elif day.day in values(item, 1, 31):
            return True
    return False


def is_weekday(text, day):
    last = calendar.monthrange(day.year, day.month)[1]
    for item in text.split(","):
        name, _, nth = item.partition("#")
        ends = name.endswith("L")
        name = name[:-1] if ends else name
        in_week = {v % 7 for v in values(name, 0, 7, DAYS)}
        if day.isoweekday() % 7 in in_week and \
                (not nth or (day.day + 6) // 7 == int(nth)) and \
                (not ends or day.day + 7 > last):
            return True
    return False


@lru_cache(None)
def day_matches(expression, day):
    _, _, dom, month, dow = expression.split()
    if day.month not in values(month, 1, 12, MONTHS):
        return False
    both = [is_day(dom, day), is_weekday(dow, day)]
    if dom[0] in "*?" or dow[0] in "*?":
        return all(both)
    return any(both)


def instant(naive, zone, fold):
    return int(naive.replace(tzinfo=zone, fold=fold).timestamp())


def is_real(naive, zone):
    at = naive.replace(tzinfo=zone)
    return at.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == naive


def gap_end(naive, zone):
    while not is_real(naive, zone):
        naive += timedelta(minutes=1)
    return instant(naive, zone, 0)


@lru_cache(1 << 18)
def moments(naive, zone, rule, is_elapsed):
    if is_real(naive, zone):
        first, second = (instant(naive, zone, f) for f in (0, 1))
        return {first, second} if is_elapsed else {first}
    if is_elapsed or rule == "skip":
        return set()
    # outside its time a wall clock is read by the offset before the change
    return {gap_end(naive, zone) if rule == "once"
            else instant(naive, zone, 0)}


def brute_force(expression, name, rule, after, upto):
    zone = ZoneInfo(name)
    minutes, hours = expression.split()[:2]
    is_elapsed = minutes[0] == "*" or hours[0] == "*"
    first = datetime.fromtimestamp(after, zone).replace(tzinfo=None)
    day = first.replace(hour=0, minute=0, second=0) - timedelta(days=2)
    found = set()
    while day.replace(tzinfo=UTC).timestamp() < upto + 2 * 86400:
        if day_matches(expression, day):
            for h in values(hours, 0, 23):
                for m in values(minutes, 0, 59):
                    found |= moments(day.replace(hour=h, minute=m), zone,
                                     rule, is_elapsed)
        day += timedelta(days=1)
    return sorted(t for t in found if after < t <= upto)


def check(questions, expected):
    """The first answers are those expected, and the next is behind them."""
    wrong = []
    for question, got, (times, upto) in zip(questions, ask(questions),
                                            expected):
        n = len(times)
        more = got[n] if len(got) > n else 0
        if got[:n] != times or (more != 0 and more <= upto):
            wrong.append((question, got, times))
    assert not wrong, f"{len(wrong)} of {len(questions)} differ: {wrong[:3]}"


@pytest.mark.parametrize("rule", RULES)
def test_agrees_with_a_brute_force(rule):
    questions, expected = [], []
    for e in expressions():
        # what runs many times a day is looked at closely in fewer places
        dense = e.split()[0].startswith("*") and e.split()[1] == "*"
        for name, after, upto in windows()[::5 if dense else 1]:
            times = brute_force(e, name, rule, after, upto)
            questions.append((name, rule, after, len(times) + 1, e))
            expected.append((times, upto))
    print(f"{rule}: {len(questions)} questions, "
          f"{sum(len(t) for t, _ in expected)} times")
    check(questions, expected)


# --- cronsim ----------------------------------------------------------------


def is_on_the_hour(name, change):
    zone = ZoneInfo(name)
    return all((change + utc_offset(zone, at).total_seconds()) % 3600 == 0
               for at in (change - 1, change))


def cronsim_knows(expression, name, change):
    """It has no ?, L-3 and 15W, and steps by whole hours, which loses times
    when the clock changes in the middle of one."""
    minutes, hours, days = expression.split()[:3]
    if "?" in expression or "-3" in days or "W" in days.replace("LW", ""):
        return False
    return "*" not in minutes[0] + hours[0] or is_on_the_hour(name, change)


def test_agrees_with_cronsim():
    CronSim = pip_package("cronsim").CronSim
    questions, expected = [], []
    for e in expressions():
        dense = e.split()[1] == "*"
        for name, after, upto in windows():
            change = after + int(BEFORE.total_seconds())
            if not cronsim_knows(e, name, change):
                continue
            if dense:  # to two hours before the change
                after += 24 * 3600
            times, at = [], after
            it = CronSim(e, datetime.fromtimestamp(after, ZoneInfo(name)))
            while at < upto and len(times) < 40:
                at = int(next(it).timestamp())
                times.append(at)
            questions.append((name, "once", after, len(times), e))
            expected.append((times, 0))
    print(f"cronsim: {len(questions)} questions, "
          f"{sum(len(t) for t, _ in expected)} times")
    check(questions, expected)
