#!/usr/bin/env python3
"""Writes tests/nodes/texts.json: what Python's str and re make of texts.

    python3 tools/golden_texts.py > tests/nodes/texts.json
"""
import json
import re

TEXTS = [
    "",
    "a red apple, a Red pear",
    "they're bill's friends from the UK",
    "stra\u00dfe \u00c9TUDE \u03a3\u0391\u03a3 \ufb01n \u01c6 \u0130 \u10d0",
    "line one\nline two\n",
    "x=12, y=-3.5; z=007",
    "aaa",
    "\u732b 1\u0663 \u00e9t\u00e9_\u00fc",
    "<b>one</b> <b>two</b>",
    "2026-11-29 and 1999-01-02",
]
PATTERNS = [
    r"red",
    r"(r)(e)d",
    r"(\w+) (\w+)",
    r"\d+",
    r"(?P<key>\w)=(?P<value>-?[\d.]+)",
    r"^line (\w+)$",
    r"^",
    r"$",
    r"x*",
    r"a{,2}",
    r"",
    r"(a)|(e)",
    r"one.+two",
    r"<b>(.*?)</b>",
    r"(\d{4})-(\d\d)-(\d\d)",
    r"\bthe\w*",
    r"[^\W\d_]+",
    r"[]e-]",
    r"[[:alpha:]]",
    r"\u00e9|\x65",
    r"(?i:RED)",
    r"(.)\1",
    r"two\n\Z",
    r"two$",
    r"(?<=a )\w+",
    r"(",
    r"[",
    r"*a",
    r"(*UTF)a",
    r"\q",
    r"\x4",
    r"a\v",
    "\u03c3",
]
TEMPLATES = [
    "-",
    r"\g<0>!",
    r"[\1]",
    r"\2\1",
    r"\g<key>:\g<value>",
    r"\g<1>0",
    r"\n\\\x",
    r"\n\\ \.",
    r"\101\7",
    r"\g<9>",
    r"\g<",
    "a\\",
]


def flags(i):
    return (re.I if i & 1 else 0) | (re.M if i & 2 else 0) | (re.S if i & 4 else 0)


def group(match, index):
    return match.group(index) or ""


def extract(pattern, text, how):
    """By mode: the first match, all, a group of the first, of all."""
    all_groups = [m for m in re.finditer(pattern, text, how) if m.groups()]
    first = re.search(pattern, text, how)
    found = re.findall(pattern, text, how)
    found = [m[0] if isinstance(m, tuple) else m for m in found]
    groups = {}
    for index in (0, 1, 2):
        few = first is None or len(first.groups()) < index
        groups[index] = [
            "" if few else group(first, index),
            "\n".join(group(m, index) for m in all_groups if len(m.groups()) >= index),
        ]
    return [first.group() if first else "", "\n".join(found), groups]


def main():
    cases = [[t, t.upper(), t.lower(), t.capitalize(), t.title()] for t in TEXTS]
    searches, replaced = [], []
    for p, pattern in enumerate(PATTERNS):
        for t, text in enumerate(TEXTS):
            how = (p + t) % 8
            try:
                first, found, groups = extract(pattern, text, flags(how))
                searches.append([pattern, text, how, bool(re.search(pattern, text, flags(how))),
                                 first, found, groups[0], groups[1], groups[2]])
            except re.error:
                searches.append([pattern, text, how, None])
                continue
            template, count = TEMPLATES[(p * 5 + t) % len(TEMPLATES)], (0, 1, 2)[(p + t) % 3]
            try:
                made = re.sub(pattern, template, text, count=count, flags=flags(how))
            except (re.error, IndexError):
                made = None
            replaced.append([pattern, text, how, template, count, made])
    lines = [("cases", cases), ("searches", searches), ("replaced", replaced)]
    body = ",\n".join(
        f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
        for name, rows in lines)
    print("{\n" + body + "\n}")


main()
