# SPDX-License-Identifier: GPL-2.0
"""scripts/conformance [--write | --gaps | --sites ROW...]

Reads the rules of each standard (Documentation/conformance/*-rows.tsv) and where comments of the
tree name them, and writes a page for each. Fails if

- a row that needs a test has neither one nor an entry in the deviations or the open parts,
- a comment or an entry names a row that does not exist, or an entry is not needed,
- a page that is there was not what the tree says: it is written then, to be committed.

--write only writes; --gaps lists rows without a test; --sites shows where rows are named.

A comment names rows as in "SMCR-COL-10", "COL-10, -11, LLF-12", "COL-10..14" or "COL-10 to COL-14".
In the files of another standard the prefix must be there. In a test, in front of it, or at the top
of a file or module of tests a name says what is tested, and elsewhere below rust/ what is
implemented.
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import subprocess
import sys
import tomllib

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = TOP / "Documentation" / "conformance"


@dataclasses.dataclass(frozen=True)
class Catalogue:
    """The rules of a standard. Its files in FOLDER begin with `name`."""
    name: str
    # What its page is called, and what the page says first.
    title: str
    about: tuple
    # In front of the name of each row.
    prefix: str
    # Titles of areas, in the order of the page.
    areas: dict
    # Areas whose rows the files of this standard name without the prefix.
    short: tuple
    # Where its files are; None: wherever those of no other standard are.
    folders: tuple | None
    # Deviations, at most, in percent of the MUST rows.
    max_deviations: int
    # A scenario without a test is a failure.
    needs_scenarios: bool
    # Profiles that may deviate.
    profiles: tuple = ()
    # Parts that may be open: its word for the last column, and what is missing.
    parts: dict = dataclasses.field(default_factory=dict)
    # The part whose rows have tests that show something of them, and not all.
    partly: str = ""

    def file(self, rest):
        """A file of this standard."""
        return FOLDER / (self.name + rest)


SMCR_AREAS = {
    "GEN": "General architecture", "TCP": "TCP option", "CLC": "CLC messages",
    "LLC": "LLC messages", "LLF": "LLC flows", "COL": "LLC collisions",
    "TMR": "Timers and recovery",
    "CDC": "CDC messages", "WIN": "Window and consumer cursor", "RMB": "RMBs and their elements",
    "LGR": "Link groups", "LNK": "Links", "FOV": "Load balancing and failover", "RDV": "Rendezvous",
    "FBK": "Fallback", "TCR": "The TCP connection after the switch", "KAL": "Keepalive",
    "CLS": "Normal close", "ABT": "Abnormal close", "URG": "Urgent data", "ERR": "Errors",
    "SEC": "Security", "API": "Socket interface", "AMB": "Unclear places, as read here",
    "DEP": "Deployed behaviour beside the RFC", "TST": "Scenarios", "VEC": "Golden vectors",
}
SDP_AREAS = {
    "WIRE": "Layouts of the headers", "GEN": "General", "MID": "Message identifiers",
    "BSDH": "Base header", "HH": "Hello", "HAH": "HelloAck", "DISC": "DisConn", "ABRT": "AbortConn",
    "SSM": "SendSm", "SRCC": "SrcAvailCancel", "SNKC": "SinkAvailCancel", "SNKA": "SinkCancelAck",
    "SCA": "SuspCommAck", "DATA": "Data", "SRC": "SrcAvail", "SNK": "SinkAvail",
    "WRC": "RdmaWrCompl", "RDC": "RdmaRdCompl", "MCH": "ModeChange",
    "CRB": "ChRcvBuf and its answer",
    "SUS": "SuspComm", "RDMA": "RDMA messages", "BUFP": "Private buffers", "ORD": "Order",
    "CRED": "Credits", "RSZ": "Receive buffers of another size", "UBUF": "Buffering of payload",
    "BC": "Bcopy", "RZS": "Read Zcopy, Data Source", "RZK": "Read Zcopy, Data Sink",
    "DL": "Deadlock of Read Zcopy", "WZK": "Write Zcopy, Data Sink",
    "WZS": "Write Zcopy, Data Source",
    "TRN": "Transaction", "STALE": "Stale SinkAvail", "FBK": "Forced Bcopy, Data Sink",
    "FBS": "Forced Bcopy, Data Source", "OOB": "Out-of-band data", "SRCX": "Cancelled SrcAvail",
    "SNKX": "Cancelled SinkAvail", "MODE": "Modes", "M24": "Characteristics of the modes",
    "M25": "Permitted actions", "M27": "Mode masters", "MT": "Mode transitions",
    "M30": "Mode events, Data Source", "M31": "Mode events, Data Sink",
    "F28": "From Pipelined to Combined, Data Source",
    "F29": "From Pipelined to Combined, Data Sink",
    "PM": "Port Mapper", "PMF": "Port Mapper message", "PMT": "Lifetime of an answer",
    "PMX": "Port Mapper exchanges", "PMC": "Port Mapper client",
    "PMCS": "States of a Port Mapper client", "PMS": "Port Mapper server",
    "PMSS": "States of a Port Mapper server", "CONN": "Set-up", "CS": "States of the set-up",
    "CLS": "Graceful close", "ABT": "Abortive close", "TS": "States of the teardown",
    "ERR": "Violations", "ERRNO": "Error numbers", "DUP": "Suspension and socket duplication",
    "FO": "Managed failover", "DS": "States of a suspension", "SE": "Solicited events",
    "STAG": "STags", "MTU": "Sizes", "KA": "Keepalive", "SEC": "Security", "IANA": "Numbers",
    "SOCK": "Socket interface", "ST": "State of a connection", "LS": "SrcAvail at its source",
    "LK": "SrcAvail at its sink", "LW": "SinkAvail at its sink", "LX": "SinkAvail at its source",
    "MDL": "Models", "GATE": "Permission to send", "TMR": "Timers", "IB": "InfiniBand and RoCE",
    "AMB": "Unclear places, as read here", "TST": "Scenarios", "CONST": "Constants",
}
RNIC_AREAS = {
    "GEN": "General", "HDR": "Headers of RoCE", "ICRC": "Invariant CRC", "IP": "Network layer",
    "PSN": "Packet sequence numbers", "REQ": "RC requester", "RSP": "RC responder",
    "RDA": "READ and ATOMIC", "FLOW": "Flow control and RNR", "TMO": "Time-outs and retries",
    "ERR": "Errors and flushing", "UD": "Datagrams, GSI, UC, multicast",
    "SRQ": "Shared receive queues", "QPS": "Queue pairs", "AH": "Address handles", "LIM": "Limits",
    "CQ": "Completion queues", "MR": "Memory regions and windows", "DATA": "Placement of data",
    "IW": "iWARP", "NET": "Ports and network devices", "EVT": "Events", "SEC": "Security",
    "RUN": "Execution", "TX": "Transmission", "RX": "Reception", "DIR": "Direct path",
    "LIFE": "Lifetimes", "STAT": "Statistics", "UAPI": "User ABI",
}
CATALOGUES = (
    Catalogue(
        name="smcr", title="Conformance to SMC-R", prefix="SMCR",
        about=(
            "What RFC 7609 asks for, where it is implemented and which tests cover it. The rows are",
            "in ``smcr-rows.tsv``; the tests and the code name them in comments.",
            "``make conformance`` writes this page and fails if a MUST row has neither a test nor a",
            "reasoned deviation."),
        areas=SMCR_AREAS, short=tuple(SMCR_AREAS), folders=None, max_deviations=2,
        needs_scenarios=True),
    Catalogue(
        name="sdp", title="Conformance to SDP", prefix="SDP",
        about=(
            "What draft-pinkerton-iwarp-sdp-01 asks for, where it is implemented and which tests",
            "cover it. The rows are in ``sdp-rows.tsv``; the tests and the code name them in",
            "comments. ``make conformance`` writes this page and fails if a MUST row has neither a",
            "test nor a reasoned deviation, and is in none of the parts that are open."),
        areas=SDP_AREAS,
        short=("AMB", "TST"),
        folders=("rust/proto/sdp/", "rust/proto/sim/sdp", "rust/sdp/", "tools/host/src/fuzz/sdp_",
                 "selftests/sdp/"),
        max_deviations=10, needs_scenarios=False, profiles=("annex", "iwcm", "strict"),
        parts={
            "engine": "The protocol core does not decide it: the engine of SDP has to show it.",
            "source": "Zero copy as the source: no engine advertises memory so far.",
            "pipelined": "What this side may do in Pipelined Mode and does not so far: SinkAvail and "
                         "RDMA Write.",
            "iwarp": "iWARP: the profiles ``iwcm`` and ``strict`` have no engine.",
        }),
    Catalogue(
        name="rnic", title="Conformance of the software RNIC", prefix="RNIC",
        about=(
            "What the software RNIC has to do, where it is implemented and which tests cover it. The",
            "rows are in ``rnic-rows.tsv``; the tests and the code name them in comments.",
            "``make conformance`` writes this page and fails if a MUST row has neither a test nor a",
            "reasoned deviation, and is in none of the parts that are open."),
        areas=RNIC_AREAS,
        short=(),
        folders=("rust/proto/roce/", "rust/proto/iwarp/", "rust/rnic/", "rust/kapi/ibdev/",
                 "tools/host/src/fuzz/roce_", "selftests/rnic/"),
        max_deviations=2, needs_scenarios=False,
        parts={
            "device": "The protocol core does not decide it: the device in the kernel has to show it.",
            "iwarp": "iWARP.",
            "direct": "The direct path between queue pairs of one kernel.",
            "user": "The user ABI of the device.",
            "fast": "A step for speed that the device does without so far: the hook in the network "
                    "stack, and aggregates of packets.",
            "partly": "The tests show what the protocol core decides, and the device has to show the rest.",
        },
        partly="partly"),
)

RUST_ITEM = re.compile(
    r"^(\s*)(?:pub(?:\([^)]*\))?\s+)?(?:default\s+)?(?:const\s+|async\s+|unsafe\s+|extern\s+\"C\"\s+)*"
    r"(?:(fn|struct|enum|trait|mod|const|static|type|union)\s+([A-Za-z_]\w*)"
    r"|macro_rules!\s+(\w+)|(impl)\b(.*))")
PYTHON_ITEM = re.compile(r"^(\s*)(def|class)\s+(\w+)")
C_ITEM = re.compile(r"^(?:TEST(?:_F|_SIGNAL|_F_TIMEOUT)?\(([^)]*)\)|(?:[\w*]+\s+)+\*?(\w+)\()")
# What is for tests. What fuzzers build as well is a core that no module mounts so far.
TEST_ATTRIBUTE = re.compile(r"#\[(cfg\((any\()?(all\()?test\b(?!, fuzzing)|test\])")
SHELL_ITEM = re.compile(r"^(\w+)\(\)")

Row = collections.namedtuple("Row", "id area section strength basis text")
Site = collections.namedtuple("Site", "file item test line")


def number_of(text):
    """The last part of a name, so that 2 and 02 are the same."""
    return int(text) if text.isdigit() else text


class Rows(dict):
    """The rows of a catalogue by area and number, in their order, and how text names them."""

    def __init__(self, catalogue, lines):
        super().__init__()
        self.catalogue = catalogue
        for line in lines:
            if line.startswith("#"):
                continue
            name, section, strength, basis, text = line.split("\t")
            _, area, *number = name.split("-")
            key = area, number_of(number[0]) if number else None
            if key in self or area not in catalogue.areas:
                raise ValueError("%s: twice, or in no area" % name)
            self[key] = Row(name, area, section, strength, basis, text)
        self.order = {key: at for at, key in enumerate(self)}
        whole = "|".join(area for area, number in self if number is None) or "(?!)"
        short = "|".join(catalogue.short) or "(?!)"
        long = r"%s-(?:[A-Z][A-Z0-9]*-[0-9A-Z]+|%s)" % (catalogue.prefix, whole)
        # By whether names without the prefix count.
        self.patterns = {}
        for is_own, name in ((False, long), (True, r"(?:%s|(?:%s)-[0-9]+)" % (long, short))):
            more = r"(?:\.\.| to |, )(?:%s|-?[0-9]+)\b(?![-.][0-9A-Za-z])" % name
            # One row, what may follow it: a range, or more rows.
            mention = re.compile(r"(?<![-\w])(%s)\b(?!-[\w*])((?:%s)*)" % (name, more))
            following = re.compile(r"(\.\.| to |, )(?:(%s)\b|(-?)([0-9]+))" % name)
            self.patterns[is_own] = mention, following

    def key(self, name):
        """Area and number of a name in a comment."""
        area, *number = name.removeprefix(self.catalogue.prefix + "-").split("-")
        return area, number_of(number[0]) if number else None

    def mentioned(self, text, is_own):
        """The rows that a comment names, in a file of this standard or of another."""
        mention, following = self.patterns[is_own]
        found = []
        for match in mention.finditer(text):
            last = self.key(match[1])
            found.append(last)
            for sep, name, dash, digits in following.findall(match[2]):
                if sep == ", " and not name and not dash:
                    continue
                key = self.key(name) if name else (last[0], int(digits))
                if sep != ", ":
                    first, end = self.order.get(last), self.order.get(key)
                    if key[0] != last[0] or first is not None and end is not None and end <= first:
                        raise Wrong(match[0])
                    if first is not None and end is not None:
                        found += [other for other in list(self)[first + 1:end]
                                  if other[0] == key[0]]
                found.append(key)
                last = key
        return found

    def name(self, key):
        """How messages name a row."""
        area, number = key
        if number is None:
            return "%s-%s" % (self.catalogue.prefix, area)
        return "%s-%s-%s" % (self.catalogue.prefix, area,
                             "%02d" % number if isinstance(number, int) else number)


def read_rows(catalogue):
    """The rows of a catalogue."""
    lines = catalogue.file("-rows.tsv").read_text(encoding="utf-8").splitlines()
    return Rows(catalogue, lines)


class Wrong(Exception):
    """A mention that makes no sense."""


def is_own(catalogue, name):
    """Whether a file is one of this standard, so that it may name rows without the prefix."""
    if catalogue.folders is not None:
        return name.startswith(catalogue.folders)
    others = sum((other.folders or () for other in CATALOGUES), ())
    return not name.startswith(others)


def comment_of(line, suffix):
    """The comment in a line without its marks, or None; and whether the line is nothing else."""
    stripped = line.strip()
    if suffix == ".rs":
        at = re.search(r"(?<!:)//[/!]?", line)
        if not at:
            return None, False
        return line[at.end():].strip(), stripped.startswith("//")
    if suffix in (".c", ".h"):
        for mark in ("/**", "/*", "*/", "*", "//"):
            if stripped.startswith(mark):
                return stripped[len(mark):].removesuffix("*/").strip(), True
        at = line.find("/*")
        return (line[at + 2:].split("*/")[0].strip(), False) if at >= 0 else (None, False)
    at = line.find("#")
    return (line[at + 1:].strip(), stripped.startswith("#")) if at >= 0 else (None, False)


def blocks(lines, suffix):
    """The comments of a file: (first line, last line, text, stands alone)."""
    start, words = None, []
    docstring = False
    for number, line in enumerate(lines + [""]):
        text, alone = comment_of(line, suffix)
        if suffix == ".py":
            marks = line.count('"""')
            if docstring or marks:
                text, alone = line.strip().replace('"""', ""), True
                docstring ^= marks == 1
        if alone and text is not None:
            if start is None:
                start = number
            words.append(text)
            continue
        if start is not None:
            yield start, number - 1, " ".join(words), True
            start, words = None, []
        if text is not None:
            yield number, number, text, False


def rust_items(lines):
    """For each line the path of items around it, and the path of an item that begins there."""
    around, begins, stack, cfg_test = [], [], [], False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip():
            closing = line.lstrip().startswith("}")
            while stack and (stack[-1][0] > indent or (stack[-1][0] == indent and not closing)):
                stack.pop()
        match = RUST_ITEM.match(line)
        began = None
        if match:
            name = match[3] or match[4] or re.sub(r"^(<[^{]*?>\s+)?(.*?)\s*(\{.*|where.*)?$", r"\2",
                                                  match[6].strip())
            name = re.sub(r"<.*?>(?=$| )", "", name)
            test = cfg_test or (stack[-1][2] if stack else False)
            began = [entry[1] for entry in stack] + [name], test
            stack.append((indent, name, test))
        around.append(([entry[1] for entry in stack], stack[-1][2] if stack else False))
        begins.append(began)
        text = line.strip()
        if text.startswith("#["):
            if TEST_ATTRIBUTE.match(text):
                cfg_test = True
        elif text and not text.startswith("//"):
            cfg_test = False
        if stack and line.strip() == "}" and stack[-1][0] == indent:
            stack.pop()
    return around, begins


def flat_items(lines, pattern):
    """The same for the other languages, without nesting but for classes."""
    around, begins, stack = [], [], []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        match = pattern.match(line)
        if line.strip() and pattern is PYTHON_ITEM:
            while stack and stack[-1][0] >= indent and not line.lstrip().startswith((")", "]")):
                stack.pop()
        elif line.startswith("}"):
            stack = []
        began = None
        if match:
            name = next(group for group in reversed(match.groups()) if group and group.strip())
            name = name.replace(", ", ".")
            if pattern is not PYTHON_ITEM:
                stack = []
            stack.append((indent, name))
            began = [entry[1] for entry in stack], True
        around.append(([entry[1] for entry in stack], True))
        begins.append(began)
    return around, begins


def test_modules(files):
    """Files that are compiled for tests only, as their parents say."""
    found = set()
    for file in files:
        cfg_test = False
        for line in file.read_text(encoding="utf-8").splitlines():
            match = re.match(r"\s*(?:pub(?:\([^)]*\))?\s+)?mod (\w+);", line)
            if match and cfg_test:
                base = file.parent if file.stem in ("mod", "lib", "main") else file.with_suffix("")
                for place in (base / (match[1] + ".rs"), base / match[1] / "mod.rs"):
                    found.add(place)
                found.add(base / match[1])
            if line.startswith("#["):
                cfg_test = cfg_test or bool(TEST_ATTRIBUTE.match(line))
            elif line.strip() and not line.startswith("//"):
                cfg_test = False
    return found


class Source:
    """A file with its comments and items."""

    def __init__(self, name, lines, all_tests):
        self.name, self.lines = name, lines
        self.suffix = pathlib.Path(name).suffix
        self.all_tests = all_tests
        if self.suffix == ".rs":
            self.around, self.begins = rust_items(lines)
        elif self.suffix == ".py":
            self.around, self.begins = flat_items(lines, PYTHON_ITEM)
        else:
            pattern = SHELL_ITEM if self.suffix == ".sh" else C_ITEM
            self.around, self.begins = flat_items(lines, pattern)

    def sites(self, rows):
        """Where the file names rows of a catalogue, and what is wrong: (key, site) and text."""
        own = is_own(rows.catalogue, self.name)
        for first, last, text, alone in blocks(self.lines, self.suffix):
            try:
                keys = rows.mentioned(text, own)
            except Wrong as what:
                yield None, "%s:%d: not a range: %s" % (self.name, first + 1, what)
                continue
            if not keys:
                continue
            path, test = self.around[first]
            if alone and not self.lines[first].lstrip().startswith("//!"):
                after = last + 1
                while (after < len(self.lines) and
                       self.lines[after].lstrip().startswith(("#[", "#!"))):
                    after += 1
                if after < len(self.begins) and self.begins[after] and self.suffix != ".py":
                    path, test = self.begins[after]
            item = "::".join(path).replace("tests::", "")
            for key in dict.fromkeys(keys):
                if key not in rows:
                    yield None, "%s:%d: there is no row %s" % (self.name, first + 1, rows.name(key))
                    continue
                yield key, Site(self.name, item, test or self.all_tests, first + 1)


def sources():
    """The files that are looked at."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "rust", "tools/host",
                             "tools/fuzz", "selftests"], cwd=TOP, check=True, text=True,
                            stdout=subprocess.PIPE).stdout.split("\n")
    files = [TOP / name for name in sorted(listed)
             if pathlib.Path(name).suffix in (".rs", ".c", ".h", ".py", ".sh") and
             (TOP / name).is_file()]
    for_tests = test_modules([file for file in files if file.suffix == ".rs"])
    for file in files:
        name = str(file.relative_to(TOP))
        all_tests = not name.startswith("rust/") or any(
            place in for_tests for place in (file, *file.parents))
        yield Source(name, file.read_text(encoding="utf-8").splitlines(), all_tests)


def scan(rows, files):
    """Where rows are named: a list of sites for each, and what is wrong."""
    sites, wrong = collections.defaultdict(list), []
    for file in files:
        for key, site in file.sites(rows):
            if key is None:
                wrong.append(site)
            elif not any(site[:3] == known[:3] for known in sites[key]):
                sites[key].append(site)
    return sites, wrong


def must_be_tested(row, catalogue):
    """Whether a row without a test or a reason is a failure."""
    return row.strength.startswith("MUST") or row.strength == "TEST" and catalogue.needs_scenarios


class Excuses:
    """Why rows have no test: deviations, and parts that are open."""

    def __init__(self, rows, deviations="", parts=""):
        # Entry of each row that deviates, and the part of each that is open.
        self.deviations, self.parts = {}, {}
        self.entries, self.profiles, self.wrong = [], "", []
        self._rows = rows
        known = rows.catalogue
        table = tomllib.loads(deviations)
        self.profiles = table.get("profiles", "").strip()
        for entry in table.get("deviation", []):
            for field in ("id", "reason", "needed"):
                if not str(entry.get(field, "")).strip():
                    self.wrong.append("a deviation has no %s" % field)
            for profile in entry.get("profiles", []):
                if profile not in known.profiles:
                    self.wrong.append("there is no profile %s" % profile)
            keys = self._add(entry.get("id", ""), self.deviations, entry)
            self.entries.append((keys, entry))
        for part, text in tomllib.loads(parts).items():
            if part not in known.parts:
                self.wrong.append("there is no part %s" % part)
            self._add(text, self.parts, part)

    def _add(self, text, to, what):
        """Puts the rows that a text names into a table; gives those rows."""
        good = []
        text = " ".join(text.split())
        try:
            keys = self._rows.mentioned(text, True)
        except Wrong as error:
            self.wrong.append("not a range: %s" % error)
            return good
        if not keys:
            self.wrong.append("there is no row %s" % text)
        for key in keys:
            name = self._rows.name(key)
            if key not in self._rows:
                self.wrong.append("there is no row %s" % name)
            elif key in self.deviations or key in self.parts:
                self.wrong.append("%s stands there twice" % name)
            elif not must_be_tested(self._rows[key], self._rows.catalogue):
                self.wrong.append("%s is not a MUST row" % name)
            else:
                to[key] = what
                good.append(key)
        return good

    def judge(self, sites):
        """What is wrong with the entries, given where rows are named."""
        wrong = list(self.wrong)
        for key, part in self.parts.items():
            has_test = any(site.test for site in sites[key])
            if has_test != (part == self._rows.catalogue.partly):
                wrong.append("%s has %s test, and is no open row of %s" % (
                    self._rows.name(key), "a" if has_test else "no", part))
        musts = sum(row.strength.startswith("MUST") for row in self._rows.values())
        most = self._rows.catalogue.max_deviations
        if len(self.deviations) * 100 > most * musts:
            wrong.append("%d deviations are more than %d %% of %d rows" % (
                len(self.deviations), most, musts))
        return ["%s: %s" % (self._rows.catalogue.name, text) for text in wrong]


def read_excuses(rows):
    """The excuses of a catalogue."""
    texts = []
    for rest in ("-deviations.toml", "-open.toml"):
        file = rows.catalogue.file(rest)
        texts.append(file.read_text(encoding="utf-8") if file.exists() else "")
    return Excuses(rows, *texts)


def places(sites):
    """Sites as text: items of one file together."""
    files = {}
    for site in sites:
        files.setdefault(site.file, []).append(site.item)
    out = []
    for file, items in files.items():
        names = [item for item in dict.fromkeys(items) if item]
        out.append("``%s``" % file + (": " + ", ".join("``%s``" % item for item in names)
                                      if names else ""))
    return "; ".join(out) or "–"


def escape(text):
    """Text for reStructuredText."""
    return re.sub(r"([*`|\\_])", r"\\\1", text)


def status_of(key, rows, sites, excuses):
    """The word for the last column."""
    if key in excuses.deviations:
        return "deviates"
    if key in excuses.parts:
        return excuses.parts[key]
    if any(site.test for site in sites[key]):
        return "tested"
    row = rows[key]
    must = must_be_tested(row, rows.catalogue) or row.strength in ("SHOULD", "SHOULD NOT")
    return "no test" if must else "–"


def summary(rows, sites, excuses):
    """Lines of counts."""
    table = collections.Counter()
    for key, row in rows.items():
        table[row.strength, status_of(key, rows, sites, excuses)] += 1
    kinds = [(("MUST", "MUST NOT"), "MUST rows"), (("SHOULD", "SHOULD NOT"), "SHOULD rows")]
    if rows.catalogue.needs_scenarios:
        kinds.append((("TEST",), "scenarios"))
    lines = []
    for strengths, name in kinds:
        of = collections.Counter()
        for (kind, status), number in table.items():
            if kind in strengths:
                of[status] += number
        line = "%s: %d, tested %d, deviating %d, " % (
            name, of.total(), of["tested"], of["deviates"])
        parts = [(part, of[part]) for part in rows.catalogue.parts if of[part]]
        if parts:
            line += "open %d (%s), " % (sum(number for _, number in parts), ", ".join(
                "%s %d" % item for item in parts))
        lines.append(line + "without a test %d" % of["no test"])
    return lines


def short_name(row, catalogue):
    """The name of a row on the page."""
    return row.id.removeprefix(catalogue.prefix + "-")


def rule_of(row):
    """What a row asks for, and where the standard does."""
    where = "" if row.section == "-" else "§%s: " % row.section
    return escape(where + row.text)


def profile_table(rows, excuses):
    """Which profile has which deviation."""
    profiles = rows.catalogue.profiles
    out = [".. list-table::", "   :header-rows: 1", "", "   * - Rows"]
    out += ["     - ``%s``" % profile for profile in profiles]
    for keys, entry in excuses.entries:
        out.append("   * - " + ", ".join(short_name(rows[key], rows.catalogue) for key in keys))
        for profile in profiles:
            has = profile in entry.get("profiles", profiles)
            out.append("     - " + ("deviates" if has else "–"))
    return out + [""]


def page(rows, sites, excuses):
    """The document."""
    catalogue = rows.catalogue
    mark = "=" * len(catalogue.title)
    out = [".. SPDX-License-Identifier: GPL-2.0", "",
           ".. Written by scripts/conformance from %s-rows.tsv and the comments of the tree." %
           catalogue.name, "",
           mark, catalogue.title, mark, "", *catalogue.about, ""]
    out += ["- " + line for line in summary(rows, sites, excuses)]
    if excuses.parts:
        out += ["", "The words for open rows in the last column:", ""]
        for part, text in catalogue.parts.items():
            if part in excuses.parts.values():
                out += ["``%s``" % part, "    " + text, ""]
        out.pop()
    if any(row.basis == "inferred" and row.strength.startswith("MUST") for row in rows.values()):
        out += ["", "A dagger marks a strength that is not stated by the RFC but inferred from its "
                    "text."]
    out.append("")
    if excuses.profiles:
        out += ["Profiles", "=" * 8, "", excuses.profiles, "", *profile_table(rows, excuses)]
    if excuses.entries:
        out += ["Deviations", "=" * 10, ""]
        for keys, entry in sorted(excuses.entries, key=lambda item: rows.order[item[0][0]]):
            if len(keys) == 1:
                row = rows[keys[0]]
                out += [short_name(row, catalogue), "    " + rule_of(row), ""]
            else:
                out += [", ".join(short_name(rows[key], catalogue) for key in keys)]
            out += ["    Reason: " + escape(" ".join(entry["reason"].split())), "",
                    "    Needed: " + escape(" ".join(entry["needed"].split())), ""]
    for area, title in catalogue.areas.items():
        chosen = [key for key, row in rows.items() if row.area == area and (
            must_be_tested(row, catalogue) or row.strength in ("SHOULD", "SHOULD NOT") or
            sites[key])]
        if not chosen:
            continue
        out += ["%s: %s" % (area, title), "=" * (len(area) + 2 + len(title)), "",
                ".. list-table::", "   :header-rows: 1", "   :widths: 8 8 34 22 22 6", "",
                "   * - Row", "     - Strength", "     - Rule", "     - Implemented", "     - Tests",
                "     - Status"]
        for key in chosen:
            row, found = rows[key], sites[key]
            dagger = row.basis == "inferred" and row.strength in ("MUST", "SHOULD", "MAY")
            out += ["   * - " + short_name(row, catalogue),
                    "     - " + row.strength + ("†" if dagger else ""),
                    "     - " + rule_of(row),
                    "     - " + places([site for site in found if not site.test]),
                    "     - " + places([site for site in found if site.test]),
                    "     - " + status_of(key, rows, sites, excuses)]
        out.append("")
    return "\n".join(out).rstrip("\n") + "\n"


def show_sites(rows, sites, names):
    """Prints where rows are named."""
    for key in rows.mentioned(", ".join(names), True):
        if key not in rows:
            continue
        print(rows[key].id, rows[key].strength, rows[key].text)
        for site in sites[key]:
            print("    %s %s:%d %s" % ("test" if site.test else "impl", site.file, site.line,
                                       site.item))


def show_gaps(rows, sites, excuses):
    """Prints rows without a test."""
    for key, row in rows.items():
        if status_of(key, rows, sites, excuses) == "no test":
            print("%s\t%s\t%s" % (row.id, row.strength, row.text))
            for site in sites[key]:
                print("\t\timpl %s:%d %s" % (site.file, site.line, site.item))


def judge(rows, sites, excuses):
    """Writes the page of a catalogue; gives what is wrong."""
    wrong = excuses.judge(sites)
    text = page(rows, sites, excuses)
    file = rows.catalogue.file(".rst")
    for line in summary(rows, sites, excuses):
        print("conformance: %s: %s" % (rows.catalogue.name, line))
    for key, row in rows.items():
        if must_be_tested(row, rows.catalogue) and (
                status_of(key, rows, sites, excuses) == "no test"):
            wrong.append("%s has no test and no reasoned deviation: %s" % (row.id, row.text))
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
        wrong.append("%s was not up to date: it is now, to be committed" % file.relative_to(TOP))
    return wrong


def main():
    """The command."""
    parser = argparse.ArgumentParser(prog="scripts/conformance",
                                     description="rules of the standards, and their tests")
    parser.add_argument("--write", action="store_true", help="only write the pages")
    parser.add_argument("--gaps", action="store_true", help="list rows without a test")
    parser.add_argument("--sites", nargs="+", metavar="ROW", help="show where rows are named")
    args = parser.parse_args()

    files, wrong = list(sources()), []
    for catalogue in CATALOGUES:
        rows = read_rows(catalogue)
        sites, more = scan(rows, files)
        excuses = read_excuses(rows)
        if args.sites:
            show_sites(rows, sites, args.sites)
        elif args.gaps:
            show_gaps(rows, sites, excuses)
        else:
            wrong += more + judge(rows, sites, excuses)
    if args.sites or args.gaps or args.write:
        return 0
    for line in wrong:
        print("conformance: " + line, file=sys.stderr)
    print("conformance: " + ("FAILED" if wrong else "all rows are accounted for"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
