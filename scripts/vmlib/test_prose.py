# SPDX-License-Identifier: GPL-2.0

"""Tests of the language rule: what it reads of a file, and what it finds there."""

import unittest

import prose


def phrases(name, text):
    """What the rule finds: (line, phrase) each."""
    return [(line, phrase) for line, phrase, _ in prose.find(name, text)]


class Findings(unittest.TestCase):
    """Phrases, tags and names of tests."""

    def test_phrase_is_reported_with_its_line(self):
        found = phrases("a.rs", "//! A.\n\n/// Who waits is woken.\nfn f() {}\n")
        self.assertEqual(found, [(3, "Who")])

    def test_phrase_across_a_line_end_is_found(self):
        self.assertEqual(phrases("a.rs", "    // is not used any\n    // more.\n"), [(2, "any more")])
        self.assertEqual(phrases("a.py", "# on\n# its way\n"), [(2, "on its way")])
        self.assertEqual(phrases("a.c", "/* is to\n * be sent\n */\n"), [(2, "is to be")])

    def test_every_finding_has_advice(self):
        found = prose.find("a.rst", "Nobody lets it go once more, so often. It is to be told of it.\n")
        self.assertEqual(len(found), 6)
        self.assertTrue(all(advice for _, _, advice in found))

    def test_relative_clause_of_a_person_is_accepted(self):
        self.assertEqual(phrases("a.rst", "A user who has no RNIC, and a\nreader who has.\n"), [])
        self.assertEqual(phrases("a.rst", "A queue who waits.\n"), [(1, "who")])

    def test_comparison_is_accepted(self):
        self.assertEqual(phrases("a.rst", "Without any more than that; is told to stop.\n"), [])

    def test_context_tag_has_one_form(self):
        good = "/// Posts. Context: any.\n/// Waits.\n///\n/// Context: may sleep.\n"
        self.assertEqual(phrases("a.rs", good), [])
        bad = "/// Waits. Sleeps.\n/// Posts. Any context.\n/// Rings. Context: timer.\n"
        self.assertEqual(phrases("a.rs", bad),
                         [(1, "Sleeps"), (2, "Any context"), (3, "Context")])

    def test_verb_sleeps_is_accepted(self):
        self.assertEqual(phrases("a.rs", "/// The writer sleeps until there is room.\n"), [])

    def test_name_of_a_test_needs_an_actor(self):
        text = "#[test]\nfn who_waits_is_woken() {}\nfn who_is_no_test() {}\n"
        self.assertEqual(phrases("a.rs", text), [(2, "who_waits_is_woken")])
        self.assertEqual(phrases("a.c", "TEST_F(pair, nobody_reads)\n"), [(1, "nobody_reads")])
        self.assertEqual(phrases("a.py", "def test_any_more():\n    pass\n"), [(1, "test_any_more")])


class Exemptions(unittest.TestCase):
    """Code, quotations and literal text."""

    def test_code_is_exempt(self):
        self.assertEqual(phrases("a.rs", "fn nobody() { let who = 'w'; }\n"), [])
        self.assertEqual(phrases("a.py", "who = nobody['x']\n"), [])
        self.assertEqual(phrases("a.py", "PATTERN = r\"nobody cared\"\n"), [])
        self.assertEqual(phrases("a.py", "send(b\"nobody there\")\n"), [])
        self.assertEqual(phrases("a.sh", "nobody=$#\n"), [])

    def test_identifier_and_quotation_are_exempt(self):
        self.assertEqual(phrases("a.rs", "/// `nobody` is the peer \"who must\n/// let go\".\n"), [])
        self.assertEqual(phrases("a.rst", "``nobody`` and `a <nobody.rst>`_\n"), [])

    def test_message_is_checked(self):
        self.assertEqual(phrases("a.rs", 'print!("nobody answers");\n'), [(1, "nobody")])
        self.assertEqual(phrases("a.py", 'print("nobody answers")\n'), [(1, "nobody")])
        self.assertEqual(phrases("a.sh", 'say "nobody answers"\n'), [(1, "nobody")])

    def test_address_in_a_message_starts_no_comment(self):
        self.assertEqual(phrases("a.rs", 'f("http://nobody", "x");\n'), [])

    def test_literal_block_is_exempt(self):
        self.assertEqual(phrases("a.rst", "Text::\n\n    nobody\n\nsomebody\n"), [(5, "somebody")])

    def test_shell_comment_is_checked(self):
        self.assertEqual(phrases("a.sh", "# nobody\nx=1 # somebody\n"),
                         [(1, "nobody"), (2, "somebody")])

    def test_file_without_text_is_exempt(self):
        self.assertIsNone(prose.prose_of("a.json", "nobody"))

    def test_glossary_is_in_order_and_names_the_tree(self):
        text = "engine\n    ``Engine``\n\nCore\n    ``Gone`` of ``rust/core``, not ``x``.\n"
        found = prose.glossary(text, lambda name: name == "Engine")
        self.assertEqual([(line, what) for line, what, _ in found],
                         [(4, "core"), (5, "Gone"), (5, "rust/core")])


if __name__ == "__main__":
    unittest.main()
