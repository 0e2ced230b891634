# SPDX-License-Identifier: GPL-2.0
"""The language rule: a named actor as subject, the field's verbs, one form of the context tag.

It covers text for people: comments, documents, messages and names of tests. Code, text between
backquotes and text between double quotes is exempt.
"""

import io
import pathlib
import re
import subprocess
import sys
import tokenize

# Paths that still await their rewriting. Remove entries, never add one.
PENDING = (
    "rust/kapi/verbs/",
)

# Generated documents, whose sources are checked; quotations of the standard; data; the rule itself.
EXEMPT = (
    "Documentation/conformance/",
    "Documentation/files.rst",
    "Documentation/performance/results.rst",
    "LICENSE",
    "scripts/vmlib/prose.py",
    "scripts/vmlib/test_prose.py",
    "tools/fuzz/corpus/",
)

# Its terms are in order, and the names in it are names of the tree.
GLOSSARY = "Documentation/glossary.rst"

# A sentence about people may say "who" behind one of these.
PEOPLE = re.compile(r"\b(?:administrator|developer|maintainer|people|person|reader|reviewer|user)s?"
                    r"\s+$")
WHO = re.compile(r"\b[Ww]ho(?:m|ever|mever)?\b")
TAG = re.compile(r"\bContext:(?!\s+(?:may\s+sleep|any|softirq)\.)")

# A phrase, and what to write instead. A space in a phrase is any white space.
PHRASES = [(re.compile(phrase.replace(" ", r"\s+")), advice) for phrase, advice in (
    (WHO.pattern, "name the actor: reader, writer, peer, application, engine, device"),
    (r"\b(?:[Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body\b", "name the actor"),
    (r"\b(?:[Ss]ome|[Aa]ny|[Ee]very|[Nn]o )one\b(?! of\b)", "name the actor"),
    (r"\b(?:[Aa]ny more|[Aa]nymore)\b(?! (?:than|of)\b)", "no longer; or leave it out"),
    (r"\b[Oo]nce more\b", "again; or the number of times"),
    (r"\b[Ll]et(?:s|ting)? (?:\w+ )?go\b", "flush, release, drop, destroy"),
    (r"\b(?:[Tt]ell(?:s|ing)?|[Tt]old) (?:\w+ )?of\b", "report, announce, signal, complete"),
    (r"\bon (?:its|their|the) way\b", "in flight, posted, queued"),
    (r"\bso (?:many|often|long|much)\b", "the quantity by its name, with the unit; while"),
    (r"\b(?:is|are|was|were) (?:not |still )?to be\b", "must, or the plain verb"),
    (r"\bfor ever\b", "without limit; until the event that ends it"),
    (r"(?<=[.:(;|])(?<!Context:)\s*(?:Context as|(?:In )?[Aa]ny [Cc]ontext\b|"
     r"(?:Never [Ss]leeps|Does not [Ss]leep|Sleeps|[Mm](?:ay|ight) [Ss]leep|"
     r"(?:Called )?(?:In |in |From |from )?"
     r"(?:[Ss]oftirq|[Pp]rocess [Cc]ontext|[Aa]tomic [Cc]ontext))\b(?=[.;,)]))",
     "Context: may sleep. | Context: any. | Context: softirq."),
    (TAG.pattern, "Context: may sleep. | Context: any. | Context: softirq."),
)]

# Words of a test's name that name no actor.
NAME = re.compile(r"(?:^|_)(?:who|whoever|nobody|somebody|anybody|any_more|once_more|lets?_go|"
                  r"tells?_of|told_of|on_its_way|on_their_way|so_many|so_often|so_long|for_ever|"
                  r"(?:is|are)_to_be)(?:_|$)|^what_")
TEST_NAMES = (
    re.compile(r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*fn (\w+)"),
    re.compile(r"^TEST(?:_F)?\((?:\w+, )?(\w+)\)", re.MULTILINE),
    re.compile(r"^ *def (test_\w+)", re.MULTILINE),
)

CODE = re.compile(r"```.*?```|``[^`]*``|`[^`\n]*(?:\n[^`\n]+)?`", re.DOTALL)
QUOTED = re.compile(r"\"[^\"|]{1,400}?\"|\u201c[^\u201d]*\u201d")
# A raw string of Python is a pattern, and octets are data.
PATTERN = re.compile(r"[rb]{1,2}[\"']")
C_LIKE = re.compile(
    r"(?P<line>//[/!]?[^\n]*)|(?P<block>/\*.*?\*/)|(?P<raw>b?r(?P<hash>#*)\".*?\"(?P=hash))|"
    r"(?P<string>b?\"(?:\\.|[^\"\\])*\")|b?'(?:\\.[^']*|[^'\\\n])'", re.DOTALL)
HASH = re.compile(r"(?:(?<=\s)|^)#+[^\n]*", re.MULTILINE)
SAID = re.compile(r"\b(?:say|die|warn|echo|printf|usage)\b[^\n\"']*(\"(?:\\.|[^\"\\])*\"|'[^']*')")
LITERAL = re.compile(r"(?m)^( *)[^\n]*::[ \t]*\n(?:[ \t]*\n)*(?:\1 +[^\n]*\n|[ \t]*\n)+")
DIRECTIVE = re.compile(r"(?m)^\.\. [^\n]*$")
TARGET = re.compile(r"<[^>\n]*>`_|\]\([^)\n]*\)")


def blank(text, filler="|"):
    """The text with every character but white space replaced."""
    return re.sub(r"\S", filler, text)


def keep(text, spans):
    """The text with what is outside of the spans blanked."""
    parts, end = [], 0
    for start, stop in sorted(spans):
        if start >= end:
            parts += (blank(text[end:start]), text[start:stop])
            end = stop
    return "".join(parts) + blank(text[end:])


def without(text, *patterns):
    """The text with the matches of the patterns replaced by a word of their length."""
    for pattern in patterns:
        text = pattern.sub(lambda match: blank(match.group(), "_"), text)
    return text


def c_like(text):
    """Comments and messages of Rust and C."""
    spans = []
    for match in C_LIKE.finditer(text):
        if match.lastgroup in ("line", "block"):
            spans.append(match.span())
        elif match.group("string") and " " in match.group():
            spans.append((match.start() + 1, match.end() - 1))
    text = keep(text, spans)
    return re.sub(r"(?m)(?<![:\w])//[/!]?|/\*+|\*+/|^[|\s]*\*(?= )",
                  lambda match: " " * len(match.group()), text)


def python(text):
    """Comments, documentation strings and messages of Python."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    kinds = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", None))
    spans = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds and " " in token.string and not PATTERN.match(token.string):
            first, last = (starts[line - 1] + at for line, at in (token.start, token.end))
            quotes = len(re.match(r"\w{0,2}('''|\"\"\"|'|\"|)", token.string).group())
            if token.type != tokenize.STRING:
                quotes = 0
            spans.append((first + quotes, last - min(quotes, 3)))
    return re.sub(r"(?m)(^|(?<=[| ]))#", " ", keep(text, spans))


def script(text):
    """Comments and messages of a shell script, a make file or a configuration."""
    spans = [match.span() for match in HASH.finditer(text)]
    spans += [(match.start(1) + 1, match.end(1) - 1) for match in SAID.finditer(text)]
    return re.sub(r"(?m)(^|(?<=[| ]))#", " ", keep(text, spans))


def document(text):
    """A document without its literal blocks, directives and the targets of its links."""
    text = LITERAL.sub(lambda match: blank(match.group()), text)
    return without(text, DIRECTIVE, TARGET)


def prose_of(name, text):
    """The text for people in a file, at its place; the rest is blanked. None if there is none."""
    suffix = pathlib.Path(name).suffix
    first = text.partition("\n")[0]
    if suffix in (".rs", ".c", ".h"):
        text = c_like(text)
    elif suffix == ".py" or (first.startswith("#!") and "python" in first):
        text = python(text)
    elif suffix in (".rst", ".md") or name.endswith("Kconfig"):
        return without(document(text), CODE, QUOTED)
    elif (suffix in (".sh", ".toml", ".config", ".packages") or first.startswith("#!")
          or "." not in pathlib.Path(name).name):
        text = script(text)
    else:
        return None
    return without(text, CODE, QUOTED)


def find(name, text):
    """The findings in a file: line, phrase, advice."""
    prose = prose_of(name, text)
    if prose is None:
        return []
    found = []
    for regex, advice in PHRASES:
        for match in regex.finditer(prose):
            if regex.pattern == WHO.pattern and PEOPLE.search(prose[:match.start()][-40:]):
                continue
            phrase = " ".join(match.group().strip(" |.:;(\n").split())
            found.append((text.count("\n", 0, match.end()) + 1, phrase, advice))
    for regex in TEST_NAMES:
        for match in regex.finditer(text):
            if NAME.search(match.group(1)):
                found.append((text.count("\n", 0, match.start(1)) + 1, match.group(1),
                              "subject_condition_result"))
    return sorted(found)


def glossary(text, exists):
    """Findings in the glossary: terms out of order, and names for which `exists` is false."""
    found, last = [], ""
    for match in re.finditer(r"(?m)^(\w[^\n]*)\n    \S", text):
        term = match.group(1).lower()
        if term < last:
            found.append((text.count("\n", 0, match.start()) + 1, term, "alphabetical order"))
        last = term
    for match in re.finditer(r"``([^`]+)``", text):
        name = match.group(1)
        if re.fullmatch(r"(?:\w+::)*[A-Z]\w*", name) or "/" in name:
            if not exists(name):
                found.append((text.count("\n", 0, match.start()) + 1, name, "a name of the tree"))
    return found


def in_tree(name):
    """Whether a path exists, or the last part of a name is a word of the Rust files."""
    if "/" in name:
        return any(pathlib.Path(folder, name.split()[0]).exists() for folder in (".", "rust"))
    command = ["git", "grep", "-qw", "--untracked", name.split("::")[-1], "--", "rust"]
    return subprocess.run(command, check=False).returncode == 0


def main(paths):
    """Prints the findings in the files of the repository; whether there are any."""
    everything = paths or subprocess.run(
        ["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines()
    total = 0
    for name in everything:
        if name.startswith(EXEMPT) or (not paths and name.startswith(PENDING)):
            continue
        try:
            text = pathlib.Path(name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, IsADirectoryError):
            continue
        found = find(name, text)
        if name == GLOSSARY:
            found += glossary(text, in_tree)
        for line, phrase, advice in found:
            print("%s:%d: \"%s\": write: %s" % (name, line, phrase, advice))
            total += 1
    return total > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
