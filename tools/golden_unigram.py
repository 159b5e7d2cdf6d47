#!/usr/bin/env python3
"""Makes golden/small/unigram: small SentencePiece models, and the tokens that libsentencepiece gives
for many texts.

    tools/golden_unigram.py FOLDER            train the models and write everything
    tools/golden_unigram.py --check FOLDER    hold the tokens in FOLDER against the library's for the
                                              models there

Debian: python3-sentencepiece. What training gives depends on the library's version; the files in
the repository are from 0.1.97.
"""
import io
import json
import os
import random
import struct
import sys
import tempfile

import sentencepiece as sp

WORDS = """a photo of an astronaut riding a horse on mars cat cats dog sitting under the old tree red apple green
sky painted by light and shadow in winter house mountain river slowly running watercolor portrait woman with
glasses reading newspaper sign that says "hello world" 35mm film, 4k; detailed! (best) quality? it's don't we're
style-of design: #1 50% off $20 & more cyberpunk city night neon rain reflections street market people walking
Der Hund läuft über die Straße größer schön Tür Le garçon mange des œufs à l'école déjà vu naïve façade
El niño pequeño comió piñata mañana corazón România București mâine țară și
кошка сидит на окне большой город ночью 猫 東京 タワー カタカナ ひらがな 한국어 고양이 你好 世界 ελληνικά καλημέρα
été 1234 2024 3.14 1,000 e=mc^2 ½ № ™ … — “quoted” ‘single’ 🙂 🎨 👩‍🚀""".split()

# What a caller may type, and what somebody may who means harm.
TEXTS = [
    "", " ", "   ", "\t", "\n", " \t\r\n ", "\u00a0", "\u3000", "\u2581", "\u2581\u2581", "a\u2581", "\u2581a",
    "a", " a", "a ", "  a  ", "a b", "a  b", "a   b   c", " a b ", "a\tb", "a\nb", "a\r\nb", "a\u00a0b",
    "a\u3000b", "a\u2003 b", "a\u200bb", "a\u200db", "a\ufeffb", "\ufeffa", "a\u00adb", "a\x01b", "\x01", "\x01\x02 ",
    "\x00", "a\x00b", "\x7f", "a\x80b", "\x1b[31mred", "tab\there", "a photo of an astronaut riding a horse on mars",
    "A PHOTO OF A CAT", "A Photo of Cats.", "cats, dogs; and (best quality:1.2)", "hello world", "helloworld",
    "\"quoted\" 'single'", "it's don't we're", "50% off & $20", "e=mc^2", "3.14159", "1,000,000", "2024-05-01",
    "über die Straße", "uber die Strasse", "u\u0308ber", "Ünïcödé", "naïve façade", "œufs à l'école", "ŒUFS",
    "mañana", "man\u0303ana", "piñata", "şi țară", "кошка на окне", "КОШКА", "ё", "е\u0308", "ελληνικά", "ἀρχή",
    "猫", "東京タワー", "ﾀﾜｰ", "タワ\u30fc", "カ\u3099タ", "ﾊﾟﾋﾟ", "한국어", "\u1112\u1161\u11ab", "\u1112\u1161",
    "你好，世界。", "「猫」", "ＡＢＣ１２３", "（best）", "①②③", "ⅷ", "½", "x²", "ﬁsh ﬂy ﬃ", "№ 5", "™®©", "…", "a…b",
    "\ufdfa", "\ufdfa\ufdfa", "㎏", "㋿", "ᴬ", "ſ", "ẞ", "ı", "İ", "Å", "\u212b", "A\u030a", "q\u0307\u0323", "q\u0323\u0307",
    "\u0301", "a\u0301\u0301\u0301", "e\u0301", "\u0344", "\u0f73", "क़", "กำ", "ລຳ", "العربية", "ﷺ", "ﻻ", "שלום", "\u05e9\u05bc",
    "🙂", "🙂🙂", "👩\u200d🚀", "🇩🇪", "👍🏽", "❤️", "🎨 art", "x🙂y", "\U0001d400\U0001d7d8", "\U0002f800", "\U0010ffff",
    "\ufffd", "a\ufffdb", "\uffff", "\ue000", "\u2028", "a\u2028b", "\u2060", "\u202eabc", "\ud7ff",
    "</s>", "<pad>", "<unk>", "a</s>b", "<s>", "<0x41>", "<extra_id_0>", "<b>", "<b>x", "a<b>b", " <b> ", "<b><b>x<b",
    "two words", "two  words", "xtwo wordsy", " two words ", "caf<é>", "é", "abcabc", "ABC abc aBc", "(c) (r) -> <- ->>",
    "ab", "aab", "aaab", "aaaab", "aaaaaaaaaaaaaaaa", "ba", "bab", "abab", "xyzzy", "zzzz", "zzz zzz", "qqqq\u4e00\u4e01qq",
    "a" * 1000, "ab " * 300, " " * 500 + "x" + " " * 500, "猫" * 300, "🙂" * 100, "the quick brown fox " * 40,
    "supercalifragilisticexpialidocious", "Donaudampfschifffahrtsgesellschaft", "~" * 40, "`", "\\", "\\(a\\)",
    "line one\nline two\n\nline four", "a , b ; c", "....", "!?", "-", "--", "—", "a—b", "_a_", "#tag @user",
    "http://example.org/a?b=c&d=%20", "C:\\path\\file", "{\"key\": [1, 2]}", "<|endoftext|>", "embedding:x",
]
BYTES = [b"\xff", b"a\xffb", b"\xc3", b"a\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82a", b"\xe2\x28\xa1", b"\xf0\x9f\x99", b"\xf0\x9f\x99 x",
         b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\x80\x80", b"\xe2\x96", b"a \xe2\x96\x81\xff b", b"\xfe\xff\x00a",
         b"\xf0", b"\xf0a", b"\xe0\x80\x80", b"cat\xa0dog", b"\xc3\xa9\xc3", b"\xff" * 100]


def random_texts(seed, n):
    r = random.Random(seed)
    out = []
    for i in range(n):
        kind = i % 4
        if kind == 0:
            out.append(" ".join(r.choice(WORDS) for _ in range(r.randint(1, 25))).encode())
        elif kind == 1:
            out.append("".join(r.choice("ab cxyz12<>é猫\u2581") for _ in range(r.randint(1, 60))).encode())
        elif kind == 2:
            line = [chr(r.choice([r.randrange(0x20, 0x250), r.randrange(0x300, 0x370), r.randrange(0x2000, 0x2200),
                                  r.randrange(0x3040, 0x3100), r.randrange(0xff00, 0xfff0),
                                  r.randrange(0xac00, 0xd7a4)])) for _ in range(r.randint(1, 30))]
            out.append("".join(line).encode())
        else:
            out.append(bytes(r.choice([r.randrange(256), 0x20, 0x61, 0xe2, 0x96, 0x81]) for _ in range(r.randint(1, 20))))
    return out


def texts(seed):
    return [t.encode() for t in TEXTS] + BYTES + random_texts(seed, 240)


# ---------------------------------------------------------------- models that are trained

def corpus(seed):
    r = random.Random(seed)
    return [" ".join(r.choice(WORDS) for _ in range(r.randint(3, 14))) for _ in range(3000)]


def train(**options):
    model = io.BytesIO()
    sp.SentencePieceTrainer.train(sentence_iterator=iter(corpus(7)), model_writer=model, num_threads=1,
                                  hard_vocab_limit=False, minloglevel=2, **options)
    return model.getvalue()


def train_t5():
    """As T5's: the default normalization, its tokens' numbers."""
    return train(vocab_size=500, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, character_coverage=0.995)


def train_fallback():
    return train(vocab_size=560, byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False,
                 remove_extra_whitespaces=False, pad_id=3, character_coverage=0.98)


def train_gemma():
    """As Gemma's: pairs, bytes, white space as it is, and runs of it that are pieces of a user's."""
    return train(model_type="bpe", vocab_size=520, byte_fallback=True, normalization_rule_name="identity",
                 add_dummy_prefix=False, remove_extra_whitespaces=False, split_digits=True, character_coverage=0.98,
                 pad_id=0, eos_id=1, bos_id=2, unk_id=3, pad_piece="<pad>", eos_piece="<eos>", bos_piece="<bos>",
                 user_defined_symbols=["<unused0>", "<b>", "\n", "\n\n", "\u2581\u2581", "\u2581\u2581\u2581"])


def train_llama():
    """As LLaMA's: pairs, bytes, white space as it is but for one in front of each text, and no padding."""
    return train(model_type="bpe", vocab_size=500, byte_fallback=True, normalization_rule_name="identity",
                 remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
                 character_coverage=0.98)


def train_joined():
    """Pairs with white space trimmed, a space before each text, and one token for all that is unknown."""
    return train(model_type="bpe", vocab_size=420, normalization_rule_name="identity", character_coverage=0.98, user_defined_symbols=["two words", "é"],
                 allow_whitespace_only_pieces=True)


def train_suffix():
    """Rules of its own: keys of several characters, results with spaces, and without anything."""
    rules = [("abc", "x y"), ("a b", "  "), ("(c)", "©"), ("->", ""), ("A", "a"), ("AB", " ba "), ("ABC", "cba"), ("猫", "cat"),
             ("🙂", ":)"), ("\t", " "), ("\n", " "), ("--", "\u2581"), ("\u00e9", "e\u0301"), ("z" * 40, "long")]
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the model keeps the name of the rules' file
        try:
            with open("rules.tsv", "w", encoding="utf-8") as f:
                for rule in rules:
                    f.write("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in rule) + "\n")
            return train(vocab_size=400, normalization_rule_tsv="rules.tsv", treat_whitespace_as_suffix=True,
                         user_defined_symbols=["<b>", "<b>x", "two words", "é"], control_symbols=["<c>"], eos_id=5,
                         unk_id=0, bos_id=-1, eos_piece="<end>", character_coverage=0.99)
        finally:
            os.chdir(here)


# ---------------------------------------------------------------- models that are written by hand

def varint(v):
    out = b""
    while v >= 0x80:
        out += bytes([v & 0x7f | 0x80])
        v >>= 7
    return out + bytes([v])


def field(number, value):
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def piece(text, score, kind=None):
    return field(1, field(1, text) + field(2, score) + (b"" if kind is None else field(3, kind)))


NORMAL, UNKNOWN, CONTROL, USER, UNUSED = 1, 2, 3, 4, 5


def write_odd():
    """No normalizer's part at all, pieces of all types, scores above 0, fields that nobody knows."""
    out = piece("<pad>", 0.0, CONTROL) + piece("</s>", 0.0, CONTROL) + piece("<unk>", 0.0, UNKNOWN)
    for text, score in [("a", -1.0), ("b", 2.5), ("ab", -3.0), ("abc", 4.0), ("c", -0.5), ("\u2581a", 0.25), ("cats", -7.0), ("x", -2.0),
                        ("猫", -3.0), ("é", -1.5)]:
        out += piece(text, score)
    for text in ["<b>", "<b>x", "two words", "z\u2581z"]:
        out += piece(text, 0.0, USER)
    out += piece("aab", 100.0, UNUSED) + piece("\u2581", 100.0, UNUSED) + piece("the", -1.0)
    return out + field(4, b"") + field(900, "unknown") + field(901, 5) + field(902, 1.0)


def write_plain():
    """Spaces stay spaces, and pieces contain them."""
    out = piece("<unk>", -1.0, UNKNOWN)
    for text, score in [(" ", -2.0), ("a", -1.0), ("b", -1.5), ("a b", -2.0), (" a", -1.2), ("b ", -1.3), ("  ", -3.0), ("photo of", -4.0),
                        ("\u2581", -2.0), ("e", -3.0), ("t", -3.0), (" t", -4.0), ("the", -4.0), ("<b>", -9.0)]:
        out += piece(text, score)
    out += piece("<b>", 0.0, CONTROL)
    return out + field(2, field(3, 1)) + field(3, field(1, "none") + field(5, 0) + field(4, 0))


def write_ties():
    """Ways that are equally good but for rounding."""
    r = random.Random(11)
    out = piece("<unk>", 0.0, UNKNOWN)
    pieces = {"".join(r.choice("ab ") for _ in range(r.randint(1, 6))).replace(" ", "\u2581") for _ in range(300)}
    for text in sorted(pieces):
        out += piece(text, -0.1 * len(text))
    return out


def write_apart():
    """Pairs of pieces that are not to be used, in which texts end all the same; of ranks that several
    have; and no rank that makes sense."""
    out = piece("<unk>", 0.0, UNKNOWN) + field(2, field(3, 2)) + field(3, field(3, 0) + field(4, 0))
    for text, score in [("a", -9.0), ("b", -9.0), ("c", -9.0), ("x", -9.0), ("\u2581", -9.0), ("猫", -9.0), ("ba", -2.0), ("bc", -3.0),
                        ("aab", -4.0), ("xx", -5.0), ("xxxx", -5.0), ("\u2581a", -6.0), ("abcabc", 3.0), ("a<b>", 9.0)]:
        out += piece(text, score)
    for text, score in [("ab", -1.0), ("abc", -2.5), ("aa", -3.0), ("aaaa", -1.0), ("x\u2581", -7.0), ("z", -1.0), ("cab", 2.0), ("aba", -1.5),
                        ("abab", -1.0), ("xxx", -5.0)]:
        out += piece(text, score, UNUSED)
    return out + piece("<b>", -1.0, USER) + piece("<s>", 0.0, CONTROL)


def write_users():
    """A user's pieces that are not always better than what else there is."""
    out = piece("<unk>", 0.0, UNKNOWN) + field(3, field(3, 0))
    for text, score in [("a", -0.02), ("b", -0.04), ("c", -0.06), ("x", -0.11), ("\u2581", -0.05)]:
        out += piece(text, score)
    for text in ["aa", "bb", "cc", "ab", "abc", "x1", "xx", "aaaa", "cab"]:
        out += piece(text, -5.0, USER)
    return out


MODELS = {"t5": train_t5, "fallback": train_fallback, "suffix": train_suffix, "odd": write_odd, "plain": write_plain,
          "ties": write_ties, "users": write_users, "gemma": train_gemma, "joined": train_joined, "apart": write_apart,
          "llama": train_llama}


# ---------------------------------------------------------------- files

def written(data):
    """JSON has no bytes that are no text; zeros are left to hexadecimal as well."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
    return {"hex": data.hex()} if "\x00" in text else {"text": text}


def tokens(model, data):
    p = sp.SentencePieceProcessor()
    p.LoadFromSerializedProto(model)
    return {"count": p.vocab_size(), "unknown": p.unk_id(), "begin": p.bos_id(), "end": p.eos_id(), "pad": p.pad_id(),
            "texts": [dict(written(t), ids=p.encode(t)) for t in data]}


def write(folder):
    os.makedirs(folder, exist_ok=True)
    for seed, (name, make) in enumerate(MODELS.items()):
        model = make()
        with open(os.path.join(folder, name + ".model"), "wb") as f:
            f.write(model)
        golden = tokens(model, texts(seed))
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as f:
            lines = [json.dumps(t, ensure_ascii=False) for t in golden.pop("texts")]
            f.write(json.dumps(golden)[:-1] + ', "texts": [\n' + ",\n".join(lines) + "\n]}\n")
        print(name, len(model), "bytes,", golden["count"], "tokens,", len(lines), "texts")


def check(folder):
    bad = 0
    for name in MODELS:
        with open(os.path.join(folder, name + ".model"), "rb") as f:
            model = f.read()
        with open(os.path.join(folder, name + ".json"), encoding="utf-8") as f:
            golden = json.load(f)
        data = [bytes.fromhex(t["hex"]) if "hex" in t else t["text"].encode() for t in golden["texts"]]
        same = tokens(model, data) == golden
        bad += not same
        print(name, "equal" if same else "DIFFERENT")
    return bad


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2]) != 0)
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
