# SPDX-License-Identifier: GPL-2.0

"""Tests of the conformance pages: how comments name rows, and what is judged by them."""

import unittest

import conformance

LINES = """# A comment.
XYZ-COL-01\t1\tMUST\tstated\tThe first.
XYZ-COL-02\t1\tMUST NOT\tstated\tThe second.
XYZ-COL-05\t1\tSHOULD\tinferred\tThe fifth.
XYZ-COL-10\t2\tMUST\tinferred\tThe tenth.
XYZ-M2-0F\t3\tFACT\tstated\tA hexadecimal one.
XYZ-M2-BB\t3\tFACT\tstated\tOne of letters.
XYZ-GATE\t4\tMUST\tstated\tOne without a number.
XYZ-GATE-2\t-\tMAY\tstated\tOne with.
XYZ-AMB-007\t5\tREADING\tstated\tAn unclear place.
""".splitlines()


def catalogue(**fields):
    """A catalogue of three rows and more."""
    base = {
        "name": "xyz", "title": "Conformance to XYZ", "about": ("About.",), "prefix": "XYZ",
        "areas": {"COL": "Collisions", "M2": "Letters", "GATE": "Gate", "AMB": "Readings"},
        "short": ("COL", "AMB"), "folders": ("own/",), "max_deviations": 50,
        "needs_scenarios": False, "profiles": ("a", "b"),
        "parts": {"later": "Later.", "partly": "In part."}, "partly": "partly",
    }
    return conformance.Catalogue(**{**base, **fields})


ROWS = conformance.Rows(catalogue(), LINES)


def names(text, is_own=True):
    """The names of the rows that a text mentions."""
    return [ROWS.name(key) for key in ROWS.mentioned(text, is_own)]


def sites(name, text, all_tests=False):
    """What a file says: (row, item, whether it is a test), and what is wrong."""
    found, wrong = conformance.scan(ROWS, [conformance.Source(name, text.splitlines(), all_tests)])
    return [(ROWS.name(key), site.item, site.test) for key, of in found.items() for site in of], wrong


class Names(unittest.TestCase):
    """Names in comments."""

    def test_every_form_of_a_number_is_found(self):
        self.assertEqual(names("XYZ-M2-0F, XYZ-M2-BB and XYZ-GATE; XYZ-GATE-2, XYZ-AMB-7."),
                         ["XYZ-M2-0F", "XYZ-M2-BB", "XYZ-GATE", "XYZ-GATE-02", "XYZ-AMB-07"])

    def test_range_has_the_rows_between(self):
        for text in ("XYZ-COL-01 to XYZ-COL-10", "COL-1..10", "COL-01 to COL-10"):
            self.assertEqual(names(text),
                             ["XYZ-COL-01", "XYZ-COL-02", "XYZ-COL-05", "XYZ-COL-10"])

    def test_list_goes_on_by_dash_or_name_only(self):
        self.assertEqual(names("COL-01, -05, AMB-7, 10 times"),
                         ["XYZ-COL-01", "XYZ-COL-05", "XYZ-AMB-07"])

    def test_range_backwards_or_across_areas_is_an_error(self):
        for text in ("COL-05 to COL-01", "COL-01..1", "COL-01 to AMB-7"):
            with self.assertRaises(conformance.Wrong):
                names(text)

    def test_short_name_counts_in_own_files_only(self):
        self.assertEqual(names("COL-01", is_own=False), [])
        self.assertEqual(names("XYZ-COL-01, COL-05, -10", is_own=False), ["XYZ-COL-01"])

    def test_name_of_another_standard_or_a_pattern_is_none(self):
        self.assertEqual(names("ABC-COL-01, XYZ-COL-*, XYZ-GATE-*, COL-01-x, xCOL-01"), [])

    def test_row_twice_or_without_an_area_is_refused(self):
        for line in (LINES[1], "XYZ-NEW-01\t1\tMUST\tstated\tA row."):
            with self.assertRaises(ValueError):
                conformance.Rows(catalogue(), LINES + [line])

    def test_files_of_one_standard_are_foreign_to_the_others(self):
        smcr, sdp = (next(c for c in conformance.CATALOGUES if c.name == name)
                     for name in ("smcr", "sdp"))
        for name, owners in (("rust/proto/sdp/msg.rs", (False, True)),
                             ("rust/proto/smc/cursor.rs", (True, False)),
                             ("rust/proto/roce/psn.rs", (False, False)),
                             ("rust/kapi/ibdev/mod.rs", (False, False))):
            self.assertEqual((conformance.is_own(smcr, name), conformance.is_own(sdp, name)), owners)


class Sites(unittest.TestCase):
    """Where rows are named, and whether that is a test."""

    def test_comment_in_front_of_a_test_is_of_the_test(self):
        text = """
/// Sends (COL-01).
fn send() {}

#[cfg(test)]
mod tests {
    // COL-01,
    // COL-02.
    #[test]
    fn it_is_sent() {
        // COL-10: inside.
    }
}
"""
        self.assertEqual(sites("own/a.rs", text)[0], [
            ("XYZ-COL-01", "send", False), ("XYZ-COL-01", "it_is_sent", True),
            ("XYZ-COL-02", "it_is_sent", True), ("XYZ-COL-10", "it_is_sent", True)])

    def test_item_for_fuzzers_is_no_test_and_one_for_kunit_is(self):
        text = "#[cfg(%s)]\nmod tests {\n    // COL-01.\n    fn f() {}\n}\n"
        for condition, test in (("test", True), ("any(test, fuzzing)", False),
                                ("any(test, CONFIG_KUNIT)", True)):
            self.assertEqual(sites("own/a.rs", text % condition)[0], [("XYZ-COL-01", "f", test)])

    def test_selftests_are_tests_in_every_language(self):
        for name, text in (("own/a.py", "def works():\n    # COL-01\n    pass\n"),
                           ("own/a.c", "/* COL-01 */\nTEST(works)\n{\n}\n"),
                           ("own/a.sh", "# COL-01\nworks() {\n}\n")):
            self.assertEqual(sites(name, text, True)[0], [("XYZ-COL-01", "works", True)], name)

    def test_row_that_does_not_exist_is_reported_with_its_line(self):
        self.assertEqual(sites("own/a.rs", "fn f() {}\n// XYZ-COL-03.\n"),
                         ([], ["own/a.rs:2: there is no row XYZ-COL-03"]))
        self.assertEqual(sites("own/a.rs", "// COL-05 to COL-02.\n")[1],
                         ["own/a.rs:1: not a range: COL-05 to COL-02"])

    def test_name_in_code_is_none(self):
        self.assertEqual(sites("own/a.rs", 'const NAME: &str = "XYZ-COL-01";\n'), ([], []))


TESTED = {("COL", 1): [conformance.Site("own/a.rs", "works", True, 3)]}
DEVIATION = '[[deviation]]\nid = "%s"\nreason = "It cannot."\nneeded = "A device."\n'


class Judgement(unittest.TestCase):
    """Deviations, open parts and the page."""

    @staticmethod
    def judged(deviations="", parts="", tested=None):
        """The excuses, where rows are named, and what is wrong with the excuses."""
        excuses = conformance.Excuses(ROWS, deviations, parts)
        found = conformance.collections.defaultdict(list, tested or {})
        return excuses, found, excuses.judge(found)

    def test_each_row_has_its_word(self):
        excuses, found, wrong = self.judged(DEVIATION % "COL-02", 'later = "COL-10"', TESTED)
        self.assertEqual(wrong, [])
        words = [conformance.status_of(key, ROWS, found, excuses) for key in ROWS]
        self.assertEqual(words, ["tested", "deviates", "no test", "later", "–", "–", "no test", "–",
                                 "–"])
        self.assertEqual(conformance.summary(ROWS, found, excuses), [
            "MUST rows: 4, tested 1, deviating 1, open 1 (later 1), without a test 1",
            "SHOULD rows: 1, tested 0, deviating 0, without a test 1"])

    def test_open_row_with_a_test_is_an_error(self):
        _, _, wrong = self.judged(parts='later = "COL-01"', tested=TESTED)
        self.assertEqual(wrong, ["xyz: XYZ-COL-01 has a test, and is no open row of later"])

    def test_row_that_is_shown_in_part_needs_a_test_and_stays_open(self):
        excuses, found, wrong = self.judged(parts='partly = "COL-01, COL-02"', tested=TESTED)
        self.assertEqual(wrong, ["xyz: XYZ-COL-02 has no test, and is no open row of partly"])
        self.assertEqual(conformance.status_of(("COL", 1), ROWS, found, excuses), "partly")

    def test_entry_that_makes_no_sense_is_an_error(self):
        for deviations, parts, message in (
                (DEVIATION % "COL-03", "", "there is no row XYZ-COL-03"),
                (DEVIATION % "nothing", "", "there is no row nothing"),
                (DEVIATION % "COL-05", "", "XYZ-COL-05 is not a MUST row"),
                (DEVIATION % "COL-01", 'later = "COL-01"', "XYZ-COL-01 stands there twice"),
                (DEVIATION % "COL-01 to COL-01", "", "not a range: COL-01 to COL-01"),
                ((DEVIATION % "COL-01").replace("A device.", ""), "", "a deviation has no needed"),
                (DEVIATION % "COL-01" + 'profiles = ["c"]\n', "", "there is no profile c"),
                ("", 'never = "COL-01"', "there is no part never")):
            self.assertIn("xyz: " + message, self.judged(deviations, parts)[2])

    def test_too_many_deviations_are_an_error(self):
        _, _, wrong = self.judged(DEVIATION % "COL-01, -02, -10")
        self.assertEqual(wrong, ["xyz: 3 deviations are more than 50 % of 4 rows"])

    def test_page_shows_profiles_deviations_and_places(self):
        entry = DEVIATION % "COL-02" + 'profiles = ["b"]\n'
        excuses, found, _ = self.judged('profiles = "Two."\n' + entry, 'later = "COL-10"', TESTED)
        page = conformance.page(ROWS, found, excuses)
        for part in ("Profiles\n========\n\nTwo.\n",
                     "   * - COL-02\n     - –\n     - deviates\n",
                     "COL-02\n    §1: The second.\n\n    Reason: It cannot.\n",
                     "     - §1: The first.\n     - –\n     - ``own/a.rs``: ``works``\n     - tested\n",
                     "     - MUST†\n     - §2: The tenth.\n     - –\n     - –\n     - later\n",
                     "``later``\n    Later.\n"):
            self.assertIn(part, page)
        self.assertNotIn("A hexadecimal one", page)

    def test_row_without_a_section_shows_none(self):
        for key, rule in ((("COL", 2), "§1: The second."), (("GATE", 2), "One with.")):
            self.assertEqual(conformance.rule_of(ROWS[key]), rule)

    def test_scenario_needs_a_test_where_the_catalogue_says_so(self):
        line = ["XYZ-COL-01\t1\tTEST\tstated\tA scenario."]
        for needs in (False, True):
            rows = conformance.Rows(catalogue(needs_scenarios=needs), line)
            row = rows["COL", 1]
            self.assertEqual(conformance.must_be_tested(row, rows.catalogue), needs)


if __name__ == "__main__":
    unittest.main()
