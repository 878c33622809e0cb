//! Mail for CALL and SCAN if the user gives none: generated, and the same on every machine.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::clock;
use crate::error::BenchError;

/// The original SCAN corpus: 178 messages, mean 11,719 bytes, largest 410,014, deviation 47,745.
const COUNT: usize = 178;
const TOTAL_BYTES: f64 = 178.0 * 11_719.0;
const LARGEST_BYTES: f64 = 410_014.0;
const DEVIATION_BYTES: f64 = 47_745.262;

const WORDS: &[&str] = &[
    "the",
    "report",
    "of",
    "this",
    "week",
    "shows",
    "that",
    "pump",
    "three",
    "was",
    "stopped",
    "twice",
    "and",
    "backup",
    "finished",
    "late",
    "please",
    "look",
    "at",
    "attached",
    "figures",
    "before",
    "meeting",
    "on",
    "Thursday",
    "offer",
    "is",
    "free",
    "for",
    "you",
    "and",
    "your",
    "friends",
    "click",
    "here",
    "to",
    "order",
    "now",
    "money",
    "back",
    "guarantee",
    "we",
    "thank",
    "everyone",
    "who",
    "helped",
    "with",
    "release",
    "list",
    "archive",
    "has",
    "older",
    "messages",
    "unsubscribe",
    "at",
    "any",
    "time",
    "disk",
    "usage",
    "on",
    "server",
    "rose",
    "above",
    "limit",
];

/// The sizes of the original corpus: one message as large as its largest, two nearly as large
/// (which its deviation requires), the others short, with sizes distributed as in real mail.
pub(super) fn original_sizes() -> Vec<usize> {
    let mean = TOTAL_BYTES / COUNT as f64;
    let small_count = COUNT - 3;
    // Short messages from 600 bytes on in equal ratios, scaled below so that the total is exact.
    let shape: Vec<f64> = (0..small_count)
        .map(|n| (n as f64 / small_count as f64 * 2.6).exp())
        .collect();
    let shape_sum: f64 = shape.iter().sum();
    let squares_wanted = DEVIATION_BYTES * DEVIATION_BYTES * (COUNT - 1) as f64;
    let sizes_with = |large: f64| -> Vec<f64> {
        let rest = TOTAL_BYTES - LARGEST_BYTES - 2.0 * large;
        let mut sizes: Vec<f64> = shape.iter().map(|part| part / shape_sum * rest).collect();
        sizes.extend([large, large, LARGEST_BYTES]);
        sizes
    };
    let deviation = |sizes: &[f64]| sizes.iter().map(|s| (s - mean) * (s - mean)).sum::<f64>();
    // The larger these two are, the larger the deviation: find their size by bisection.
    let (mut low, mut high) = (mean, LARGEST_BYTES);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if deviation(&sizes_with(middle)) < squares_wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    sizes_with(low)
        .into_iter()
        .map(|size| size.round() as usize)
        .collect()
}

/// A message of exactly this many bytes; the same for the same `number`.
pub(super) fn message(number: usize, size: usize) -> Vec<u8> {
    let mut random = XorShift(number as u64 + 1);
    let mut text = String::with_capacity(size + 128);
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "Received: from relay{number}.example.net (relay{number}.example.net [192.0.2.{}])\r\n\
         \tby mx.example.org with ESMTP id {:08x}\r\n\tfor <anna@example.org>; \
         Sat, 9 Sep 2006 10:{:02}:{:02} +0100\r\n\
         From: Sender {number} <sender{number}@example.net>\r\n\
         To: <anna@example.org>\r\nSubject: message {number} of the scan corpus\r\n\
         Date: Sat, 9 Sep 2006 10:00:00 +0100\r\nMessage-ID: <{number}.scan@example.net>\r\n\
         MIME-Version: 1.0\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n",
        number % 250,
        random.next() as u32,
        number % 60,
        number % 59,
    );
    let mut column = 0;
    while text.len() < size {
        let word = WORDS[random.next() as usize % WORDS.len()];
        text.push_str(word);
        column += word.len() + 1;
        if column > 66 {
            text.push_str("\r\n");
            column = 0;
        } else {
            text.push(' ');
        }
    }
    text.truncate(size.max(64));
    text.into_bytes()
}

/// A small generator (xorshift) whose numbers never change.
struct XorShift(u64);

impl XorShift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
}

/// A temporary folder of messages, removed with its owner.
pub(super) struct MessageFolder {
    folder: PathBuf,
    files: Vec<PathBuf>,
}

impl MessageFolder {
    /// One message of each size.
    pub(super) fn with_sizes(sizes: &[usize]) -> Result<Self, BenchError> {
        let name = format!("gatepost-mail-{}-{:x}", std::process::id(), clock::now());
        let folder = std::env::temp_dir().join(name);
        let failed = |path: &Path, error| BenchError::File {
            path: path.to_owned(),
            error,
        };
        fs::create_dir(&folder).map_err(|error| failed(&folder, error))?;
        let mut made = Self {
            folder,
            files: Vec::new(),
        };
        for (number, &size) in sizes.iter().enumerate() {
            let path = made.folder.join(format!("{number:03}.eml"));
            fs::write(&path, message(number, size)).map_err(|error| failed(&path, error))?;
            made.files.push(path);
        }
        Ok(made)
    }

    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

impl Drop for MessageFolder {
    fn drop(&mut self) {
        // A file that stays in the temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_are_those_of_the_original() {
        let sizes = original_sizes();
        let count = sizes.len() as f64;
        let mean = sizes.iter().sum::<usize>() as f64 / count;
        let squares: f64 = sizes.iter().map(|&size| (size as f64 - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0)).sqrt();
        assert_eq!((sizes.len(), sizes.iter().max()), (178, Some(&410_014)));
        assert!((mean - 11_719.0).abs() < 1.0, "{mean}");
        assert!((deviation - 47_745.262).abs() < 5.0, "{deviation}");
        assert!(
            sizes.iter().all(|&size| size > 600),
            "{:?}",
            sizes.iter().min()
        );
    }

    #[test]
    fn a_message_has_the_requested_length_and_is_always_the_same() {
        assert_eq!(message(7, 5_000).len(), 5_000);
        assert_eq!(message(7, 5_000), message(7, 5_000));
        assert_ne!(message(7, 5_000), message(8, 5_000));
    }
}
