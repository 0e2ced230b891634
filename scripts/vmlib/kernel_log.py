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
EXCERPT_LINES = 60
GAP_LINES = 25


def allowed(path):
    """The known lines that are not ours: `regular expression # reason`, one a line."""
    rules = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            rules.append(re.compile(line.split(" # ")[0].strip()))
    return rules


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


def reports(folder, allow):
    """What the logs of one guest tell. The console's copy is complete even after a crash, dmesg is
    complete where the console shows only severe lines; each report is told once."""
    rules = allowed(allow)
    found = {}
    for name in ("dmesg.txt", "console.log"):
        try:
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        lines = [TIME.sub("", line.rstrip("\r")) for line in text.splitlines()]
        for excerpt in excerpts(lines, rules):
            first = next(line for line in excerpt.splitlines() if REPORT.search(line))
            found.setdefault(first, excerpt)
    leaks = folder / "kmemleak"
    if leaks.exists() and leaks.stat().st_size:
        found["kmemleak"] = leaks.read_text(encoding="utf-8", errors="replace")
    return list(found.values())
