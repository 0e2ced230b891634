# SPDX-License-Identifier: GPL-2.0

"""Finds in a guest's kernel log what must fail a run: warnings, bugs, reports of lockdep, of the
sanitizers and of the leak detector."""

import re

REPORT = re.compile(
    r"""
    \bWARNING:\s | \bBUG: | \bBUG\s\w+.*\( | kernel\ BUG\ at | \bOops\b | general\ protection\ fault
    | Kernel\ panic | Kernel\ mode\ fault | double\ fault | panicked\ at
    | \b(KASAN|KCSAN|KMSAN|KFENCE|UBSAN|ODEBUG): | new\ suspected\ memory\ leaks | refcount_t:
    | INFO:\ (task|rcu)|rcu:\ INFO: | blocked\ for\ more\ than | (soft|workqueue)\ lockup | hard\ LOCKUP
    | possible\ (circular|recursive)\ locking | possible\ irq\ lock\ inversion
    | inconsistent\ lock\ state | suspicious\ RCU\ usage | bad\ unlock\ balance | held\ lock\ freed
    | lock\ held\ when\ returning | locks?\ still\ held | non-static\ key | MAX_\w+\ too\ low
    | Invalid\ wait\ context | invalid\ wait\ context
    | scheduling\ while\ atomic | sleeping\ function\ called
    | unregister_netdevice:\ waiting | (list_add|list_del)\ corruption | Poison\ overwritten
    | Redzone | Object\ already\ free | page\ allocation\ failure | nobody\ cared
    | \bOut\ of\ memory: | Call\ Trace: | Unknown\ symbol | Unknown\ rela | Bad\ page\ state
    """, re.X)
ENTRY = re.compile(r"^\s+(\[<|\? |\w[\w.]*\+0x)")
TIME = re.compile(r"^(<\d+>)?\[[^\]]*\] ?")
SUSPECTED = re.compile(r"\bkmemleak: (\d+) new suspected memory leaks")
LEAK_RULE = "leak: "
EXCERPT_LINES = 60
GAP_LINES = 25


def allowed(path):
    """The known lines that are not ours, and the known entries in traces of leaks: one a line, `regular
    expression # reason`, and `leak: regular expression # reason`."""
    rules, leak_rules = [], []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            rule = line.split(" # ")[0].strip()
            of_kind = leak_rules if rule.startswith(LEAK_RULE) else rules
            of_kind.append(re.compile(rule.removeprefix(LEAK_RULE)))
    return rules, leak_rules


def is_known_trace(lines, at, rules):
    """Whether an entry of the trace at a line is known. The log loses lines when much is printed, also
    the first one of a known report."""
    for line in lines[at + 1:]:
        if not ENTRY.match(line):
            return False
        if any(r.search(line) for r in rules):
            return True
    return False


def excerpts(lines, rules):
    """The parts of a log that are reports; neighbouring hits make one excerpt. A known line covers the
    trace behind it, and the trace that it is in."""
    hits, known = [], -GAP_LINES
    for i, line in enumerate(lines):
        if any(r.search(line) for r in rules):
            known = i
        elif "Call Trace:" in line and i - known < GAP_LINES:
            known = -GAP_LINES
        elif "Call Trace:" in line and is_known_trace(lines, i, rules):
            continue
        elif REPORT.search(line):
            hits.append(i)
    parts = []
    for i in hits:
        if parts and i - parts[-1][1] <= GAP_LINES:
            parts[-1][1] = i
        else:
            parts.append([i, i])
    return ["\n".join(lines[max(0, first - 2):min(last + GAP_LINES, first + EXCERPT_LINES)])
            for first, last in parts]


def leaks(folder, rules):
    """What the leak detector says of objects that are not known, and the number of those that are."""
    try:
        text = (folder / "kmemleak").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "", 0
    objects = [part for part in re.split(r"^(?=unreferenced object )", text, flags=re.M) if part]
    ours = [part for part in objects if not any(rule.search(part) for rule in rules)]
    return "".join(ours), len(objects) - len(ours)


def without_known_suspects(lines, known):
    """A log without what it says of leaks, if all of them are known."""
    suspects = [int(found[1]) for found in map(SUSPECTED.search, lines) if found]
    if sum(suspects) > known:
        return lines
    return [line for line in lines if not SUSPECTED.search(line)]


def reports(folder, allow):
    """What the logs of one guest tell. The console's copy is complete even after a crash, dmesg is
    complete where the console shows only severe lines; each report is told once."""
    rules, leak_rules = allowed(allow)
    leaked, known = leaks(folder, leak_rules)
    found = {}
    for name in ("dmesg.txt", "console.log"):
        try:
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        lines = [TIME.sub("", line.rstrip("\r")) for line in text.splitlines()]
        for excerpt in excerpts(without_known_suspects(lines, known), rules):
            first = next(line for line in excerpt.splitlines() if REPORT.search(line))
            found.setdefault(first, excerpt)
    if leaked:
        found["kmemleak"] = leaked
    return list(found.values())
