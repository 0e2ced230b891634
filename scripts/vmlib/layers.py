# SPDX-License-Identifier: GPL-2.0
"""The import graph of the Rust files: which layer may import which, and import cycles.

An import counts where a file names another one in code of the module: by `use` or by a path. A name
that a `mod.rs` only passes on (`pub(crate) use self::...`) counts as one of the file that it comes
from.
"""

import os
import re
import sys

# Folders without any import cycle, not even within one.
ENGINES = ("smc", "sdp", "sock", "fabric", "rnic")

COMMENT = re.compile(r"//[^\n]*")
USE = re.compile(r"(?m)^( *)(pub(?:\([a-z ]+\))? )?use ([^;]*);")
TESTS = re.compile(r"(?m)^#\[cfg\(test\)\]\n(?:#\[[^\]]*\]\n)*"
                   r"(?:pub(?:\([a-z ]+\))? )?mod (\w+)(;| \{)")
DOC = re.compile(r"(?m)^#\[cfg\(doc\)\]\nuse [^;]*;")
MOUNT = re.compile(r"(?m)^( *)(?:pub(?:\([a-z ]+\))? )?mod (\w+)(;| \{)")
PATH = re.compile(r"\b((?:crate|super|self)(?:::\w+)+)")


def leaves(text, before=()):
    """The paths of a use tree, each as a tuple of names."""
    text = text.strip()
    if text.startswith("{"):
        depth, start, parts = 0, 1, []
        for at, char in enumerate(text):
            depth += {"{": 1, "}": -1}.get(char, 0)
            if (char == "," and depth == 1) or depth == 0:
                parts.append(text[start:at])
                start = at + 1
        return [leaf for part in parts if part.strip() for leaf in leaves(part, before)]
    name, more, rest = text.partition("::")
    if more:
        return leaves(rest, before + (name.strip(),))
    name = name.split(" as ")[0].strip()
    return [before if name == "self" else before + (name,)]


def strip_tests(text):
    """The text without modules of tests that stand in it, and the names of those in other files."""
    names = set()
    while match := TESTS.search(text):
        if match.group(2) == ";":
            names.add(match.group(1))
            text = text[:match.start()] + text[match.end():]
            continue
        end = text.find("\n}", match.start())
        text = text[:match.start()] + text[end + 2 if end >= 0 else len(text):]
    return text, names


def outer(path):
    """A path in a module that stands in a file, as the file would write it."""
    return ("self",) + path[1:] if path[0] == "super" and path[1:2] != ("super",) else (
        path[1:] if path[0] == "super" else path)


class Tree:
    """The Rust files below a folder, by their module path from the crate."""

    def __init__(self, root, folders):
        self.files, self.texts = {}, {}
        for folder in folders:
            for where, _, names in os.walk(os.path.join(root, folder)):
                for name in names:
                    if name.endswith(".rs"):
                        self.add(root, os.path.join(where, name))
        self.drop_tests()
        self.passed = {module: self.passed_on(module) for module in self.texts}

    def add(self, root, path):
        """Reads a file."""
        parts = os.path.relpath(path, root)[:-3].split(os.sep)
        if parts[-1] == "mod":
            parts.pop()
        with open(path, encoding="utf-8") as file:
            self.texts[tuple(parts)] = DOC.sub("", COMMENT.sub("", file.read()))
        self.files[tuple(parts)] = os.path.relpath(path, root)

    def drop_tests(self):
        """Forgets what is compiled for tests only."""
        gone = set()
        for module, text in list(self.texts.items()):
            self.texts[module], names = strip_tests(text)
            gone |= {module + (name,) for name in names}
        for module in list(self.texts):
            if any(module[:len(test)] == test for test in gone):
                del self.texts[module], self.files[module]

    def absolute(self, module, path):
        """A path in a file, from the crate on; None if it does not begin at this crate."""
        path = list(path)
        here = list(module)
        if path[0] == "crate":
            return tuple(path[1:])
        if path[0] == "self":
            return tuple(here + path[1:])
        if path[0] != "super":
            return None
        while path and path[0] == "super":
            here.pop()
            path.pop(0)
        return tuple(here + path)

    def passed_on(self, module):
        """The names that a file passes on, and what they stand for."""
        names = {}
        for indent, public, body in USE.findall(self.texts[module]):
            for leaf in leaves(body) if public and not indent else []:
                path = self.absolute(module, leaf)
                if path:
                    names[leaf[-1]] = path
        return names

    def module_of(self, path):
        """The file that a path leads to."""
        for _ in range(8):
            at = path
            while at and at not in self.texts:
                at = at[:-1]
            rest = path[len(at):]
            if not at or not rest or rest[0] not in self.passed[at]:
                return at or None
            path = self.passed[at][rest[0]] + rest[1:]
        return at or None

    def imports(self, module):
        """The other files that a file names."""
        text = self.texts[module]
        paths = []
        for indent, public, body in USE.findall(text):
            if not public:
                paths += [outer(leaf) if indent else leaf for leaf in leaves(body)]
        paths += [tuple(path.split("::")) for path in PATH.findall(USE.sub("", text))]
        found = set()
        for path in paths:
            path = self.absolute(module, path)
            target = self.module_of(path) if path else None
            if target and target != module:
                found.add(target)
        return found

    def graph(self):
        """All imports."""
        return {module: self.imports(module) for module in sorted(self.texts)}


def cycles(graph):
    """The sets of files that import each other in a circle, each sorted."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def read_table(text):
    """The table of layers: `layer: what it may import`, a layer a line."""
    table = {}
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if line:
            layer, _, allowed = line.partition(":")
            table[layer.strip()] = allowed.split()
    return table


def layer_of(table, module):
    """The longest layer that a file is in; None if it is in none."""
    for length in range(len(module), 0, -1):
        name = "/".join(module[:length])
        if name in table:
            return name
    return None


def breaches(table, graph):
    """Pairs of files of which the first must not import the second."""
    found = []
    for module, others in graph.items():
        layer = layer_of(table, module)
        if layer is None:
            found.append((module, ("no layer",)))
            continue
        for other in sorted(others):
            if layer_of(table, other) not in [layer] + table[layer]:
                found.append((module, other))
    return found


def mounts(text):
    """The layers that a main file mounts: its modules in other files, also those in inline modules."""
    found, around = [], []
    for indent, name, end in MOUNT.findall(COMMENT.sub("", text)):
        del around[len(indent) // 4:]
        if end == ";":
            found.append("/".join(around + [name]))
        else:
            around.append(name)
    return found


def wrong_mounts(allowed, text):
    """What a main file mounts against its line of the table."""
    return [layer for layer in mounts(text)
            if not any(layer == may or layer.startswith(may + "/") for may in allowed)]


def is_forbidden(cycle):
    """Whether the files of a cycle are of more than one folder, or of an engine."""
    return len({module[:-1] for module in cycle}) > 1 or cycle[0][0] in ENGINES


def main(table, root):
    """Prints what is wrong with the imports below `root`; the number of findings."""
    with open(table, encoding="utf-8") as file:
        table = read_table(file.read())
    folders = [name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name))]
    tree = Tree(root, sorted(folders))
    graph, findings = tree.graph(), 0
    for module, other in breaches(table, graph):
        print("layers: %s must not import %s" % (
            tree.files[module], tree.files.get(other, other[0])))
        findings += 1
    for name in sorted(name for name in os.listdir(root) if name.endswith("_main.rs")):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            for layer in wrong_mounts(table.get(name[:-3], []), file.read()):
                print("layers: %s must not mount %s" % (name, layer))
                findings += 1
    for cycle in filter(is_forbidden, cycles(graph)):
        print("layers: an import cycle: " + " ".join(tree.files[module] for module in cycle))
        findings += 1
    return findings


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)
