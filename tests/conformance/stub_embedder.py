#!/usr/bin/env python3
"""Vectors of the stub embedder, computed a second time from its description alone.

    python3 stub_embedder.py > stub_embedder.json

Standard library only. Writes a JSON list of {text, dim, nonzero}; nonzero maps an index to the bits of
its f32 in hexadecimal, and every other float is +0.0.

Alphanumeric is Unicode's Alphabetic property, or a number (Nd, Nl, No). Python knows the general category but
not the property: Alphabetic is the letters (L*, Nl) and Other_Alphabetic. Of the latter this file lists the
ranges that its texts touch, copied from the Unicode Character Database, and it refuses a text with a mark or
symbol that could be either and is in neither list.
"""

import json
import math
import struct
import sys
import unicodedata

# Of PropList.txt, Other_Alphabetic: combining iota; Devanagari signs and vowels; circled letters.
OTHER_ALPHABETIC = [(0x0345, 0x0345), (0x0900, 0x0903), (0x093A, 0x093B), (0x093E, 0x094C), (0x24B6, 0x24E9)]
# Marks and symbols of the texts that are not alphabetic: accents, virama, nukta, variation selector, emoji.
NOT_ALPHABETIC = [(0x0300, 0x0344), (0x093C, 0x093C), (0x094D, 0x094D), (0xFE0F, 0xFE0F), (0x1F000, 0x1FAFF)]

TEXTS = [
    "",
    " ",
    "?!… —,.;:()[]{}'\"_-/\\",
    "a",
    "A",
    "hello world",
    "Hello, WORLD!",
    "world hello",
    "the the the cat",
    "user_name/first-name",
    "naïve café",
    "nai\u0308ve cafe\u0301",
    "ÀÉÎÕÜ àéîõü",
    "STRASSE straße ẞ",
    "İstanbul ıssız",
    "用户服务器部署在腾讯云",
    "server在腾讯云 deploy用户",
    "日本語のテキスト、カタカナ。",
    "한국어 텍스트",
    "🚀🎯",
    "ship it 🚀 now ❤️ ok",
    "नमस्ते हिन्दी",
    "ᾳ α\u0345 Ωμέγα ΩΜΈΓΑ",
    "Ⓐⓑ ⅷ ½ ² ٣٤ ①",
    "x\u0000y\u0007z\u00a0w\u2028v\u200bu",
    "tab\tline\nreturn\r\nfeed\fend",
    "3.14159 1,000,000 0x1F",
    "مرحبا بالعالم שלום עולם",
    "Ada Lovelace wrote the first program; Charles Babbage designed the engine.",
    "𝒜𝓁𝓅𝒽𝒶 𐐀𐐨 𠀀𠀁",
    " ".join(f"word{i}" for i in range(1000)),
    "lorem ipsum dolor sit amet " * 400,
    "x" * 20000,
]
DIMS = {"hello world": [1, 2, 3, 1536], TEXTS[-4]: [7, 384]}


def within(c, ranges):
    return any(first <= ord(c) <= last for first, last in ranges)


def alphanumeric(c):
    category = unicodedata.category(c)
    if category[0] in "LN" or within(c, OTHER_ALPHABETIC):
        return True
    assert category[0] in "PZC" or category in ("Sm", "Sc", "Sk") or c == "\u2764" or within(c, NOT_ALPHABETIC), hex(ord(c))
    return False


def embed(text, dim):
    sums = [0.0] * dim
    spaced = "".join(c if alphanumeric(c) else " " for c in text)
    lowered = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in spaced)
    for token in lowered.split():
        h = 0xCBF29CE484222325
        for byte in token.encode("utf-8"):
            h = (h ^ byte) * 0x100000001B3 % 2**64
        sums[h % dim] += -1.0 if h & 2**32 else 1.0
    norm = math.sqrt(sum(s * s for s in sums))
    return [s / norm if norm else 0.0 for s in sums]


def case(text, dim):
    bits = [struct.unpack("<I", struct.pack("<f", value))[0] for value in embed(text, dim)]
    return {"text": text, "dim": dim, "nonzero": {str(i): f"{b:08x}" for i, b in enumerate(bits) if b}}


if __name__ == "__main__":
    cases = [case(text, dim) for text in TEXTS for dim in [64] + DIMS.get(text, [])]
    sys.stdout.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
