//! Changes inputs at random: bytes, numbers, words, brackets, lines, and pieces of other inputs.

use hpsearch::study::seed::StreamRng;
use rand::RngExt as _;

/// Inputs do not grow beyond this.
const LONGEST: usize = 64 << 10;

/// At most so many inputs are gone on from.
const MOST: usize = 2000;

/// Numbers where programs break.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "0.0",
    "1e-320",
    "1e308",
    "-1e308",
    "1e309",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "0.1",
    "1e-5",
    "1.5",
    "NaN",
    "inf",
    "-Infinity",
    "4294967296",
    "2147483648",
    "65536",
    "1000000000",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
];

/// Words of the formats.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "=",
    "\n",
    "\0",
    "\u{feff}",
    "\u{202e}",
    "é",
    "😀",
    "\\u0000",
    "\\ud800",
    "//",
    "..",
    "#",
    "'''",
    "\"\"\"",
    "\\",
    "step",
    "metric",
    "hpsearch_end",
    "hpsearch",
    "checkpoint",
    "message",
    "cmd",
    "init",
    "ask",
    "tell",
    "report",
    "best",
    "quit",
    "space",
    "type",
    "float",
    "int",
    "cat",
    "choice",
    "log = true",
    "\"log\":true",
    "low",
    "high",
    "when",
    "in",
    "seed",
    "value",
    "values",
    "state",
    "id",
    "direction",
    "maximize",
    "n_trials",
    "sampler",
    "pruner",
    "tpe",
    "gp",
    "qmc",
    "grid",
    "random",
    "auto",
    "asha",
    "median",
    "percentile",
    "wilcoxon",
    "patient",
    "threshold",
    "[budget]",
    "[study]",
    "[space]",
    "[[enqueue]]",
    "[sampler]",
    "[pruner]",
    "[devices]",
    "[retry]",
    "[command]",
    "[checkpoints]",
    "x = 1",
    "x.y.z = 1",
    "{ float = [0, 1] }",
    "{ int = [1, 9], step = 3 }",
    "{ choice = [1, 2] }",
    "[1, 2, 3]",
    "when = { x = 1 }",
    "trials",
    "time = \"2h\"",
    "\"1s\"",
    "\"99999999999h\"",
    "trial_created",
    "trial_finished",
    "runner_stopped",
    "params",
    "trial",
    "attempt",
    "slot",
    "device",
    "cpu",
    "cuda:0",
    "sim:0",
    "until",
    "resume",
    "verdict",
];

/// A source of inputs.
pub struct Mutator {
    rng: StreamRng,
    corpus: Vec<Vec<u8>>,
}

impl Mutator {
    pub fn new(rng: StreamRng, corpus: Vec<Vec<u8>>) -> Self {
        let corpus = if corpus.is_empty() { vec![Vec::new()] } else { corpus };
        Mutator { rng, corpus }
    }

    /// An input worth continuing from.
    pub fn keep(&mut self, input: Vec<u8>) {
        if self.corpus.len() < MOST {
            self.corpus.push(input);
        }
    }

    /// The next input.
    pub fn next(&mut self) -> Vec<u8> {
        let mut input = self.corpus[self.rng.random_range(0..self.corpus.len())].clone();
        for _ in 0..1 << self.rng.random_range(0..4) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn place(&mut self, input: &[u8]) -> usize {
        self.rng.random_range(0..input.len() + 1)
    }

    fn range(&mut self, input: &[u8]) -> std::ops::Range<usize> {
        let start = self.place(input);
        let longest = if self.rng.random_bool(0.7) { 12 } else { input.len() };
        let length = self.rng.random_range(0..longest + 1);
        start..(start + length).min(input.len())
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        match self.rng.random_range(0..12) {
            0 => {
                let place = self.place(input);
                if let Some(byte) = input.get_mut(place) {
                    *byte ^= 1 << self.rng.random_range(0..8);
                }
            }
            1 => {
                let place = self.place(input);
                input.insert(place, self.rng.random_range(0..=255));
            }
            2 => {
                let range = self.range(input);
                input.drain(range);
            }
            3 => {
                let (range, place) = (self.range(input), self.place(input));
                let piece = input[range].to_vec();
                input.splice(place..place, piece);
            }
            4 | 5 => {
                let word = WORDS[self.rng.random_range(0..WORDS.len())];
                let range = if self.rng.random_bool(0.5) {
                    self.range(input)
                } else {
                    self.place(input)..0
                };
                let range = range.start..range.end.max(range.start);
                input.splice(range, word.bytes());
            }
            6..=8 => self.change_number(input),
            9 => {
                let other = self.corpus[self.rng.random_range(0..self.corpus.len())].clone();
                let (range, place) = (self.range(&other), self.place(input));
                input.splice(place..place, other[range].to_vec());
            }
            10 => {
                let (place, bracket) = (
                    self.place(input),
                    [&b"["[..], b"{\"a\":", b"{ a = ", b"("][self.rng.random_range(0..4)],
                );
                let deep = bracket.repeat(self.rng.random_range(1..3000));
                input.splice(place..place, deep);
            }
            _ => self.change_lines(input),
        }
    }

    /// Puts a number in the place of another.
    fn change_number(&mut self, input: &mut Vec<u8>) {
        let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'e');
        let starts: Vec<usize> = (0..input.len())
            .filter(|place| {
                is_digit(input[*place]) && (*place == 0 || !is_digit(input[*place - 1]))
            })
            .collect();
        let number = NUMBERS[self.rng.random_range(0..NUMBERS.len())];
        let Some(start) = starts.get(self.rng.random_range(0..starts.len().max(1))).copied() else {
            return;
        };
        let length = input[start..].iter().take_while(|byte| is_digit(**byte)).count();
        input.splice(start..start + length, number.bytes());
    }

    /// Doubles, drops or swaps lines.
    fn change_lines(&mut self, input: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> =
            input.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let (one, other) =
            (self.rng.random_range(0..lines.len()), self.rng.random_range(0..lines.len()));
        match self.rng.random_range(0..3) {
            0 => lines.insert(one, lines[other].clone()),
            1 => drop(lines.remove(one)),
            _ => lines.swap(one, other),
        }
        *input = lines.join(&b'\n');
    }
}
